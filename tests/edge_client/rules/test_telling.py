"""What rules tell: over real HTTP, by real programs, by Apprise; late rather than never, and never without a bound."""

import contextlib
import hashlib
import hmac
import json
import socket
import threading
import time

import pytest

from edge_client.config.rules import RuleConfig
from edge_client.events import Event
from edge_client.rules import actions, outbox
from edge_client.rules.outbox import MOST, Outbox
from edge_client.rules.owners import RulesOfDevice, write_rules
from edge_client.rules.sink import RulesSink
from edge_client.storage.database import Database
from tests.support.desk import free_port
from tests.support.edge_process import wait_for


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder of a configuration; ``open`` opens rules on it, which are closed at the end.

    What fails waits until ``retry``.
    """
    monkeypatch.setattr(outbox, "_FIRST_PAUSE_S", 600.0)

    class Place:
        folder, database = tmp_path, Database(tmp_path / "state.sqlite3")
        outbox = Outbox(database)
        said, opened = [], []

        def open(self, *rules, broker=None):
            self.opened.append(RulesSink(rules, "shelf", self.database, self.folder, broker))
            return self.opened[-1]

        def program(self, name, text, mode=0o755):
            (self.folder / "rules.d").mkdir(exist_ok=True)
            path = self.folder / "rules.d" / name
            path.write_text(text)
            path.chmod(mode)

        def retry(self):
            with self.database.changing() as connection:
                connection.execute("UPDATE outbox SET due = 0")

        def lost(self, count=1):
            wait_for(lambda: self.outbox.lost()[0] == count and not self.outbox.waiting())
            return self.outbox.lost()[1]

    one = Place()
    yield one
    for sink in one.opened:
        sink.close()


def heard(label="doorbell", **more):
    return Event(time.time(), "detected", label, None, 0.91, -24.0, **more)


def test_a_webhook_gets_the_event_signed(place, receiver):
    rule = RuleConfig(
        name="bell", webhook=f"{receiver.url}/hook?x=1", webhook_secret="k", message="{label} ({score}), {device}"
    )
    place.open(rule).publish(heard())
    wait_for(lambda: receiver.requests)
    path, headers, body = receiver.requests[0]
    headers = {name.lower(): value for name, value in headers.items()}
    signed = hmac.new(b"k", headers["auricle-time"].encode() + b"." + body, hashlib.sha256).hexdigest()
    assert (path, headers["auricle-signature"]) == ("/hook?x=1", f"sha256={signed}")
    document = json.loads(body)
    assert document["message"] == "doorbell (91 %), shelf"
    assert (document["label"], document["rule"], document["kind"]) == ("doorbell", "bell", "detected")
    wait_for(lambda: not place.outbox.waiting())


def test_what_could_not_be_told_is_told_after_a_restart_and_refusals_are_lost(place, receiver):
    sink = place.open(RuleConfig(name="bell", webhook=f"http://127.0.0.1:{free_port()}/"))
    sink.publish(heard())
    (waiting,) = wait_for(lambda: [one for one in place.outbox.waiting() if one.error])
    assert waiting.error == "the webhook was not reached: ConnectError"
    sink.close()
    place.retry()
    place.open(RuleConfig(name="bell", webhook=receiver.url))
    wait_for(lambda: receiver.documents and not place.outbox.waiting())
    receiver.statuses[:] = [503, 404]
    place.retry()
    place.opened[-1].publish(heard())
    wait_for(lambda: any(one.error == "the webhook answered 503" for one in place.outbox.waiting()))
    place.retry()
    assert place.lost() == "bell, webhook: the webhook answered 404"


def test_a_redirect_is_not_followed(place, receiver):
    receiver.statuses[:] = [307]
    place.open(RuleConfig(name="bell", webhook=receiver.url)).publish(heard())
    assert "redirects (307), which is not followed" in place.lost()
    assert len(receiver.requests) == 1


def test_a_program_gets_the_document_and_little_of_the_environment(place, monkeypatch):
    monkeypatch.setenv("AURICLE_MQTT_PASSWORD", "s3cret")
    place.program("tell", "#!/bin/sh\ncat > told\nenv > environment\n")
    place.open(RuleConfig(name="bell", program="tell")).publish(heard("it's; rm -rf $HOME"))
    wait_for(lambda: (place.folder / "rules.d" / "environment").exists() and not place.outbox.waiting())
    assert json.loads((place.folder / "rules.d" / "told").read_text())["label"] == "it's; rm -rf $HOME"
    assert "s3cret" not in (place.folder / "rules.d" / "environment").read_text()


@pytest.mark.parametrize(
    ("prepare", "told"),
    [
        (lambda place: None, "No such file"),
        (lambda place: place.program("tell", "#!/bin/sh\n", 0o644), "is not executable: chmod 755"),
        (lambda place: place.program("tell", "#!/bin/sh\n", 0o777), "can be changed by others"),
        (lambda place: place.program("tell", "#!/bin/sh\nexit 3\n"), "ended with status 3"),
        (lambda place: place.program("tell", "no program\n"), "cannot be run"),
    ],
)
def test_a_program_that_cannot_be_trusted_or_fails_is_said(place, prepare, told):
    prepare(place)
    place.open(RuleConfig(name="bell", program="tell")).publish(heard())
    assert told in place.lost()


def test_a_link_out_of_the_folder_is_not_run(place):
    place.program("other", "#!/bin/sh\ntouch ran\n")
    (place.folder / "rules.d" / "tell").symlink_to(place.folder / "rules.d" / "other")
    place.open(RuleConfig(name="bell", program="tell")).publish(heard())
    assert "is no file" in place.lost()
    assert not (place.folder / "rules.d" / "ran").exists()


def test_a_phone_gets_the_message_by_apprise_whose_keys_are_not_said(place, receiver):
    pytest.importorskip("apprise", reason="Apprise is not installed (extra notify)")
    address = receiver.url.replace("http://", "json://s3cret:key@")
    place.open(RuleConfig(name="bell", notify=(address,), message="ding")).publish(heard())
    wait_for(lambda: receiver.requests)
    assert [(one["title"], one["message"]) for one in receiver.documents] == [("shelf", "ding")]
    receiver.statuses[:] = [500]
    place.opened[-1].publish(heard())
    (failed,) = wait_for(lambda: [one for one in place.outbox.waiting() if one.error])
    assert failed.error == "notify: the message by json://... was not taken"


def test_of_several_addresses_the_one_that_fails_is_tried_again_alone(place, receiver):
    pytest.importorskip("apprise", reason="Apprise is not installed (extra notify)")
    there = receiver.url.replace("http://", "json://")
    rule = RuleConfig(name="bell", notify=(f"json://127.0.0.1:{free_port()}/", there), message="ding")
    place.open(rule).publish(heard())
    (failed,) = wait_for(lambda: [one for one in place.outbox.waiting() if one.error and receiver.requests])
    assert failed.action == "notify 1"
    place.retry()
    wait_for(lambda: [one for one in place.outbox.waiting() if one.tries > failed.tries])
    assert len(receiver.requests) == 1


def test_rules_are_read_anew_only_where_somebody_changed_them(place):
    written = RuleConfig(name="bell", mqtt="a")
    rules = RulesOfDevice([written], place.database)
    assert rules.now() == (written,)
    before = rules.now()
    place.database.set_note("something", 1)
    assert rules.now() is before
    made = RuleConfig(name="made", mqtt="b")
    write_rules(Database(place.folder / "state.sqlite3"), [made])  # as another process does
    assert rules.now() == (written, made)


def test_mqtt_waits_for_the_broker_and_a_rule_that_is_gone_tells_nothing(place):
    there, said = [], []

    def broker(topic, text):
        if there:
            said.append((topic, json.loads(text)["label"]))
        return bool(there)

    sink = place.open(RuleConfig(name="bell", mqtt="home/bell"), broker=broker)
    sink.publish(heard())
    wait_for(lambda: any(one.error == "the MQTT broker is away" for one in place.outbox.waiting()))
    there.append(True)
    place.retry()
    wait_for(lambda: said == [("home/bell", "doorbell")])
    sink.close()
    place.outbox.add("old", ["mqtt"], {}, time.time())
    place.open()
    assert "the configuration has this no more" in place.lost()


def test_the_queue_has_a_bound_and_what_it_loses_is_counted(place):
    for _ in range(MOST // 4 + 2):
        place.outbox.add("bell", list("abcd"), {}, time.time())
    assert len(place.outbox.waiting()) == MOST
    assert place.outbox.lost() == (8, f"more than {MOST} waited")


def test_a_receiver_that_trickles_its_answer_is_left(place, monkeypatch):
    monkeypatch.setattr(actions, "_WEBHOOK_S", 1.0)
    listener = socket.create_server(("127.0.0.1", 0))
    over = threading.Event()

    def trickle():
        connection, _ = listener.accept()
        with connection, contextlib.suppress(OSError):
            connection.recv(65_536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nx: ")
            while not over.wait(0.1):
                connection.sendall(b"x")

    thread = threading.Thread(target=trickle, daemon=True)
    thread.start()
    place.open(RuleConfig(name="bell", webhook=f"http://127.0.0.1:{listener.getsockname()[1]}/")).publish(heard())
    (failed,) = wait_for(lambda: [one for one in place.outbox.waiting() if one.error])
    assert failed.error == "the webhook was not reached: no answer within 1 s"
    over.set()
    thread.join(60)
    listener.close()


def test_a_level_that_one_rule_names_is_none_of_another(place):
    said = []
    soft = RuleConfig(name="soft", mqtt="soft", louder_than_db=-40.0, louder_for_s=1.0)
    loud = RuleConfig(name="loud", mqtt="loud", louder_than_db=-10.0, louder_for_s=60.0)
    rules = place.open(soft, loud, broker=lambda topic, text: said.append(topic) or True)
    rules.level("", -30.0, 1.0)
    wait_for(lambda: said)
    rules.close()
    assert said == ["soft"]
    assert place.outbox.waiting() == []
