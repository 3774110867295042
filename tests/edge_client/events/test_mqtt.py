"""Events reach a real broker (Mosquitto) as Home Assistant wants them, and again after the broker was away."""

import dataclasses
import json
import queue
import subprocess
import sys
import time

import pytest

from edge_client.config.sections import MqttConfig
from edge_client.errors import ConfigError
from edge_client.events.mqtt import MqttSink
from edge_client.storage.label_keys import label_key
from tests.support.desk import free_port
from tests.support.edge_process import wait_for
from tests.support.listener import Listener
from tests.support.mqtt_broker import DEVICE, Broker, Reader, event, needs_broker

pytestmark = needs_broker
BASE = f"auricle/{DEVICE}"


def sink_for(start, broker, **settings):
    return start(MqttSink, broker.config(**settings), DEVICE, "Küche")


@pytest.mark.parametrize("password", [None, "pass word"])
def test_an_event_arrives_with_and_without_a_password(tmp_path, start, password):
    broker = start(Broker, tmp_path, password)
    reader = start(Reader, broker)
    sink = sink_for(start, broker)
    assert reader.next(f"{BASE}/availability").payload == b"online"
    sink.publish(event("sirène"))
    message = reader.next(f"{BASE}/event")
    assert json.loads(message.payload) == {"event_type": "sirène", **event("sirène").to_json()}
    assert not message.retain
    assert json.loads(reader.next(f"{BASE}/last").payload) == event("sirène").to_json()
    sink.close()
    assert reader.next(f"{BASE}/availability").payload == b"offline"


def test_the_sensor_of_a_sound_stays_on_while_it_lasts_and_goes_off_at_its_end(tmp_path, start):
    broker = start(Broker, tmp_path)
    reader = start(Reader, broker)
    sink = sink_for(start, broker)
    reader.next(f"{BASE}/availability")
    topic, begun = f"{BASE}/label/{label_key('siren')}", event()
    over = dataclasses.replace(begun, ended=begun.time + 20)
    sink.publish(begun)
    sink.follow(begun)
    sink.follow(over)
    assert [reader.next(topic).payload for _ in range(3)] == [b"ON", b"ON", b"OFF"]
    assert json.loads(reader.next(f"{BASE}/last").payload) == over.to_json()


def test_a_device_that_dies_is_reported_by_the_broker(tmp_path, start):
    broker = start(Broker, tmp_path)
    reader = start(Reader, broker)
    code = f"""
import time
from edge_client.config.sections import MqttConfig
from edge_client.events.mqtt import MqttSink
sink = MqttSink(MqttConfig(host="127.0.0.1", port={broker.port}), "{DEVICE}", "shelf")
time.sleep(600)
"""
    device = subprocess.Popen([sys.executable, "-c", code])
    assert reader.next(f"{BASE}/availability").payload == b"online"
    device.kill()
    device.wait()
    assert reader.next(f"{BASE}/availability").payload == b"offline"


def test_events_resume_when_the_broker_comes_back_and_old_ones_set_nothing_off(tmp_path, start, caplog):
    broker = start(Broker, tmp_path)
    sink = sink_for(start, broker)
    reader = start(Reader, broker)
    sink.announce(["first", "unconfirmed", "late", "after"])
    # An event before the first connection would be missed, and a second miss is not logged within a minute.
    assert reader.next(f"{BASE}/availability").payload == b"online"
    sink.publish(event("first"))
    reader.next(f"{BASE}/last")
    broker.kill()
    end = time.monotonic() + 120
    while "misses an event" not in caplog.text:
        sink.publish(event("unconfirmed"))  # until the sink has noticed
        assert time.monotonic() < end
        time.sleep(0.02)
    sink.publish(event("late"))
    broker.start()
    reader = start(Reader, broker)  # this broker has forgotten everything
    assert reader.next(f"{BASE}/availability").payload == b"online"
    reader.next(f"homeassistant/event/auricle_{DEVICE}/sound/config")
    while json.loads(reader.next(f"{BASE}/last").payload)["label"] != "late":
        pass  # what the broker had not confirmed is sent again, and may come first
    sink.publish(event("after"))
    labels = []
    while "after" not in labels:
        labels.append(json.loads(reader.next(f"{BASE}/event").payload)["label"])
    # What the broker had not confirmed is sent again, as "first" is where the broker died before its confirmation.
    assert set(labels) <= {"first", "unconfirmed", "after"}


def test_a_label_that_its_owner_took_away_leaves_home_assistant(tmp_path, start):
    broker = start(Broker, tmp_path)
    sink, reader = sink_for(start, broker), start(Reader, broker)
    sink.announce(["anna", "siren"])
    assert reader.next(f"{BASE}/availability").payload == b"online"
    sink.publish(event("anna"))
    assert json.loads(reader.next(f"{BASE}/last").payload)["label"] == "anna"
    sink.announce(["siren"])
    types, topic = None, f"homeassistant/event/auricle_{DEVICE}/sound/config"
    while types != ["siren", "unknown"]:
        types = json.loads(reader.next(topic).payload)["event_types"]
    assert json.loads(reader.next(f"{BASE}/last").payload) == {"label": None}
    late = start(Reader, broker)  # who comes later gets what the broker retained
    assert json.loads(late.next(f"{BASE}/last").payload) == {"label": None}
    sink.announce(["siren", "bell"])  # nothing more to take back
    sink.publish(event("siren"))
    assert json.loads(late.next(f"{BASE}/last").payload)["label"] == "siren"


def test_a_wrong_password_is_said_once_and_stops_nothing(tmp_path, start, caplog):
    broker = start(Broker, tmp_path, "right")
    broker.password = "wrong"
    sink = sink_for(start, broker)
    wait_for(lambda: "refuses this device" in caplog.text, what="the refusal")
    assert "no MQTT broker" not in caplog.text
    sink.publish(event())
    assert caplog.text.count("refuses this device") == 1


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate for 127.0.0.1 that signs itself, with its key."""
    path = tmp_path_factory.mktemp("authority") / "broker.pem"
    names = ["-subj", "/CN=broker", "-addext", "subjectAltName=IP:127.0.0.1"]
    made = ["-x509", "-newkey", "rsa:2048", "-nodes", "-days", "9", "-keyout", path.with_suffix(".key"), "-out", path]
    subprocess.run(["openssl", "req", *made, *names], check=True, capture_output=True)
    path.write_text(path.read_text() + path.with_suffix(".key").read_text())
    return path


def test_why_a_broker_is_not_reached_is_said_with_the_way_out(tmp_path, start, certificate, caplog):
    for folder in (plain := tmp_path / "plain", secure := tmp_path / "secure"):
        folder.mkdir()
    open_, own = start(Broker, plain), start(Broker, secure, None, certificate)
    cases = {
        own.config(tls=True, ca=certificate): "",
        own.config(tls=True): "its certificate cannot be trusted",
        own.config(): "see [mqtt] port and tls",
        open_.config(tls=True): f"127.0.0.1:{open_.port}: ",
        MqttConfig(host="127.0.0.1", port=free_port()): "Connection refused; see [mqtt] host, port and tls",
    }
    for config, words in cases.items():
        sink = start(MqttSink, config, DEVICE, "shelf")

        def is_said(sink=sink, words=words):  # where the broker is slow, the first reason is another one
            said = sink.trouble()
            return "not conn" not in said and words in said if words else said == ""

        wait_for(is_said, what=f"{words!r} as the trouble")
        # The log is written in the connection's own thread, just after the reason is there.
        wait_for(lambda words=words: words in caplog.text, what=f"{words!r} in the log")


@pytest.mark.slow
def test_two_boards_of_one_memory_card_leave_each_other_more_and_more_time_and_say_so(tmp_path, start, caplog):
    broker = start(Broker, tmp_path)
    reader = start(Reader, broker)
    begin, online = time.monotonic(), 0
    sinks = [sink_for(start, broker) for _ in range(2)]
    while online < 8:  # two at once, and after pauses of 2, 2, 4, 4, 8 and 8 s
        online += reader.next(f"{BASE}/availability").payload == b"online"
    assert time.monotonic() - begin > 15
    wait_for(lambda: all("a copy of its memory card" in sink.trouble() for sink in sinks), what="the reason")
    assert all("identity.json" in sink.trouble() for sink in sinks)
    assert caplog.text.count("lost the MQTT broker") <= 4


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ("max_packet_size 400", "Packet too large: "),
        ("retain_available false", "Retain not supported; allow retained messages in the broker"),
        ("acl_file {folder}/acl", f"refuses {BASE}/label/{label_key('siren')}: Not authorized; see [mqtt] username"),
    ],
)
def test_why_a_broker_does_not_take_what_is_sent_is_said(tmp_path, start, caplog, settings, reason):
    (tmp_path / "acl").write_text(f"topic readwrite {BASE}/availability\ntopic readwrite homeassistant/#\n")
    broker = start(Broker, tmp_path, settings=settings.format(folder=tmp_path))
    sink = sink_for(start, broker)
    sink.announce(["siren"])
    wait_for(lambda: reason in sink.trouble(), what="the reason")
    wait_for(lambda: reason in caplog.text, what="the reason in the log, just after")
    assert str(broker.port) in sink.trouble()


class Old(Listener):
    """A broker that knows no MQTT 5; it tells the protocol of each connection, 4 for 3.1.1, and if it is a new one."""

    def __init__(self):
        self.asked = queue.Queue()
        super().__init__()

    def config(self):
        return MqttConfig(host="127.0.0.1", port=int(self.url.rpartition(":")[2]))

    def serve(self, client):
        client.settimeout(180)
        packet = client.recv(65_536)
        level, flags = packet[packet.index(b"MQTT") + 4 :][:2]
        self.asked.put((level, bool(flags & 2)))
        client.sendall(b"\x20\x02\x00" + (b"\x01" if level > 4 else b"\x00"))
        while level == 4 and client.recv(65_536):
            pass


def test_a_broker_that_knows_no_mqtt_5_is_spoken_to_as_it_can(start):
    with Old() as broker:
        sink = sink_for(start, broker)
        assert [broker.asked.get(timeout=180) for _ in range(2)] == [(5, True), (4, True)]
        wait_for(lambda: sink.trouble() == "", what="the connection")


def test_what_cannot_be_used_is_named_when_it_is_read(tmp_path, monkeypatch):
    for host in ("mqtt://broker", "broker:1883", "127.0.0.1:21201", " broker", "[::1]", "user@broker", ""):
        with pytest.raises(ConfigError, match=r"must be a name or an address alone|must name the broker"):
            MqttConfig(host=host)
    for good in ("broker", "broker.local", "127.0.0.1", "::1", "fe80::1%eth0"):
        assert MqttConfig(host=good).host == good
    (tmp_path / "ca.pem").write_text("no certificate")
    with pytest.raises(ConfigError, match=r"ca\.pem cannot be read as certificates"):
        MqttSink(MqttConfig(host="127.0.0.1", tls=True, ca=tmp_path / "ca.pem"), DEVICE, "shelf")
    with pytest.raises(ConfigError, match="is for tls = true"):
        MqttConfig(host="127.0.0.1", ca=tmp_path / "ca.pem")
    monkeypatch.setitem(sys.modules, "paho.mqtt.client", None)
    with pytest.raises(ConfigError, match=r"auricle\[mqtt\]"):
        MqttSink(MqttConfig(host="127.0.0.1"), DEVICE, "shelf")


class Hostile(Listener):
    """A broker that accepts a client and then begins a packet of 200 MB; it counts what the client takes of it."""

    def __init__(self):
        self.taken = queue.Queue()
        super().__init__()

    def config(self):
        return MqttConfig(host="127.0.0.1", port=int(self.url.rpartition(":")[2]))

    def serve(self, client):
        client.settimeout(180)
        client.recv(65_536)
        client.sendall(b"\x20\x02\x00\x00")  # CONNACK: accepted
        length, head = 200_000_000, b"\x30"  # PUBLISH
        while length:
            length, digit = divmod(length, 128)
            head += bytes([digit | (128 if length else 0)])
        taken = 0
        try:
            client.sendall(head)
            for _ in range(200):
                client.sendall(b"x" * 1_000_000)
                taken += 1_000_000
        finally:
            self.taken.put(taken)


def test_a_packet_that_would_fill_the_memory_ends_the_connection_before_it_is_read(start):
    with Hostile() as broker:
        sink_for(start, broker)
        # What the sockets' buffers hold counts as taken here, and is a few megabytes.
        assert broker.taken.get(timeout=180) < 50_000_000
        assert broker.taken.get(timeout=180) < 50_000_000  # it connects again, after a pause
