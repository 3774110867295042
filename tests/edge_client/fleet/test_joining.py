"""Joining and leaving a fleet, over real TLS: who is trusted, what is kept, and what an attacker in between gets."""

import contextlib
import dataclasses
import io
import os
import re
from datetime import UTC, datetime, timedelta

import pytest

from aggregator_server import tls
from edge_client.cli import main
from edge_client.config import load_config
from edge_client.errors import ConfigError, StateError
from edge_client.fleet.joining import join, leave
from edge_client.storage.device_state import DeviceState
from edge_client.storage.identity import Membership
from fleet_protocol.bundle.ready_bundles import find_bundle
from fleet_protocol.client.server_client import ServerClient
from fleet_protocol.errors import CertificateError, UnreachableError
from fleet_protocol.messages.invitation_link import InvitationLink
from tests.support.aggregator_process import Aggregator
from tests.support.desk import free_port
from tests.support.edge_process import EdgeDaemon, wait_for
from tests.support.hostile_server import HostileServer, whole
from tests.support.sounds import write_clips
from tests.support.tls_server import TlsServer


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server with an authority of its own, for tests that do not stop it."""
    process = Aggregator(tmp_path_factory.mktemp("private"), "--tls", "auto").start()
    yield process
    assert process.stop() == 0


@pytest.fixture
def config(tmp_path):
    return device(tmp_path / "kitchen")


def device(folder, server=""):
    return EdgeDaemon(folder, "cnn1", server).config


def state_of(config):
    return DeviceState(config.parent / "state")


def invite(server, **wanted):
    with server.client() as admin:
        token = admin.post("/v1/invitations", json=wanted).json()["token"]
        shown = admin.get("/v1/authority")
    authority = tls.fingerprint(shown.json()["certificate"]) if shown.status_code == 200 else None
    return InvitationLink(server.url, token, authority)


@contextlib.contextmanager
def client_of(config):
    state = state_of(config)
    client = ServerClient(
        load_config(config).server.url, state.identity.load(), authority=state.membership.load().authority
    )
    yield client
    client.close()


def look(config):
    with client_of(config) as client:
        client.check_enrolment()


def edge(config, *arguments, status=0, out=False):
    """Run a command in this process: a new one would take seconds to load, many times."""
    printed, problem = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(problem):
        assert main([*arguments, "--config", str(config)]) == status, problem.getvalue()
    return (printed if out or status == 0 else problem).getvalue()


@pytest.mark.slow
def test_a_device_joins_by_a_link_and_leaves(server, config, monkeypatch):
    link = invite(server, group="kitchen")
    printed = edge(config, "join", str(link))
    assert "your words for sounds stay on this device" in printed
    assert server.url in printed
    assert "start it: auricle-edge run" in printed
    assert load_config(config).server.url == server.url
    assert (
        state_of(config).membership.load().authority
        == (server.data / "tls" / "authority.pem").read_text().split("-----END PRIVATE KEY-----\n")[1]
    )
    identity = state_of(config).identity.load()
    with server.client() as admin:
        assert admin.get("/v1/devices").json()[-1]["group"] == "kitchen"
        monkeypatch.setattr("sys.stdin", io.StringIO(f"{link}\n"))
        edge(config, "join", "-")  # once more changes nothing
        other = device(config.parents[1] / "hall")
        assert "invitation_spent" in edge(other, "join", str(link), status=1)
        assert load_config(other).server is None
        assert state_of(other).membership.load() is None
        assert "goes on listening by itself" in edge(config, "leave")
        left = [info for info in admin.get("/v1/devices").json() if info["device_id"] == identity.device_id]
        assert left[0]["revoked_at"] is not None
        assert admin.get("/v1/audit", params={"limit": 1}).json()[0]["what"] == "device_left"
    assert load_config(config).server is None
    assert state_of(config).membership.load() is None
    assert state_of(config).identity.load().device_id != identity.device_id


@pytest.mark.slow
def test_a_server_whose_certificate_changed_is_refused_until_the_device_joins_again(start_aggregator, config):
    # On one port all the while: one that the system gives to nobody else meanwhile.
    server = start_aggregator("moving", "--tls", "auto", "--port", str(free_port()))
    join(config, invite(server), insecure_http=False)
    look(config)
    server.stop()
    (server.data / "tls" / "server.pem").unlink()  # renewed by the same authority
    server.start()
    look(config)
    server.stop()
    for path in (server.data / "tls").iterdir():
        path.unlink()
    server.start()
    with pytest.raises(CertificateError, match="auricle-edge join LINK") as refused:
        look(config)
    assert server.url in str(refused.value)
    join(config, invite(server), insecure_http=False)
    look(config)


def test_a_certificate_that_has_expired_is_named_as_such(server, config):
    join(config, invite(server), insecure_http=False)
    ten_years_ago = datetime.now(UTC) - timedelta(days=3_650)
    with TlsServer(config.parent / "old", made=ten_years_ago) as old:
        client = ServerClient(old.url, state_of(config).identity.load(), authority=old.authority)
        with pytest.raises(CertificateError, match=r"has expired.*clock"):
            client.work(0.0)
        assert old.received == ""


def test_a_server_may_change_its_name_and_address(config):
    with TlsServer(config.parent / "moved", names=["elsewhere.example"]) as moved:
        moved.answer("/v1/devices/me", b'{"device_id": "1"}')
        ServerClient(moved.url, state_of(config).identity.load(), authority=moved.authority).check_enrolment()
        with pytest.raises(CertificateError, match=r"public authority.*auricle-edge join"):
            ServerClient(moved.url, state_of(config).identity.load()).check_enrolment()
        assert moved.asked == ["GET /v1/devices/me"]


def test_plain_http_that_others_can_read_is_refused_unless_it_is_wanted(config, tmp_path):
    link = InvitationLink("http://192.0.2.1:8470", "aur_join_" + "x" * 43)
    with pytest.raises(ConfigError, match="--insecure-http"):
        join(config, link, insecure_http=False)
    written = '[server]\nurl = "http://192.0.2.1:8470"\nenrol_token = "t"\n'
    with pytest.raises(ConfigError, match=r"url = .*insecure_http = true"):
        load_config(device(tmp_path / "a", written))
    assert load_config(device(tmp_path / "b", written + "insecure_http = true\n")).server.insecure_http
    for url in ("http://127.0.0.1:1", "http://localhost:1", "http://[::1]:1", "https://192.0.2.1"):
        assert load_config(device(tmp_path / str(abs(hash(url))), f'[server]\nurl = "{url}"\n')).server.url == url


def test_a_device_of_one_fleet_does_not_join_another_by_accident(server, config):
    state_of(config).membership.save(Membership("https://other:8470", "its authority"))
    with pytest.raises(StateError, match="auricle-edge leave"):
        join(config, invite(server), insecure_http=False)
    assert load_config(config).server is None


def test_two_fleets_that_public_authorities_vouch_for_are_two(config):
    state_of(config).membership.save(Membership("https://one.example"))
    with pytest.raises(StateError, match=r"in the fleet of https://one\.example; leave it first"):
        join(config, InvitationLink("http://127.0.0.1:1", "aur_join_" + "x" * 43), insecure_http=True)


def test_a_network_that_asks_to_log_in_first_is_not_taken_for_the_aggregator(tmp_path):
    with HostileServer(whole(b"<html>log in to the hotel", headers="Content-Type: text/html\r\n")) as portal:
        config = device(tmp_path / "kitchen", f'[server]\nurl = "{portal.url}"\nenrol_token = "t"\n')
        said = edge(config, "doctor", status=1, out=True)
        assert re.search(r"aggregator +.*answered what no aggregator would.*log in first", said), said
        said = edge(config, "leave", status=1)
        assert "<html>log in to the hotel" in said
        assert "auricle-edge leave --forget" in said
        assert load_config(config).server is not None
        edge(config, "leave", "--forget")
        assert load_config(config).server is None


@pytest.mark.slow
def test_a_fleet_that_is_gone_can_be_left(start_aggregator, config):
    gone = start_aggregator("gone")
    join(config, invite(gone), insecure_http=False)
    gone.stop()
    with pytest.raises(UnreachableError):
        leave(config, notify=True)
    assert load_config(config).server is not None
    edge(config, "leave", "--forget")
    assert load_config(config).server is None
    assert "no section [server]" in edge(config, "leave", status=1)


def test_leaving_forgets_the_fleets_classes_and_keeps_what_was_learned(server, config):
    join(config, invite(server), insecure_http=False)
    state, bundle = state_of(config), find_bundle("cnn1")
    saved = state.model.load(bundle)
    labels = saved.progress.label_map.add("kettle", "c4").add("siren")
    progress = dataclasses.replace(saved.progress, label_map=labels, learned=3, contributed=3, taught="clips")
    state.model.save(saved.bundle.weights, saved.listening, progress)
    state.outbox.put(state.outbox.update_path(3), b"an upload")
    leave(config, notify=True)
    left = state.model.load(bundle).progress
    assert (left.label_map.names, left.label_map.class_ids) == (("kettle", "siren"), (None, None))
    assert (left.learned, left.contributed, left.taught) == (0, 0, "clips")
    assert state.outbox.is_empty()


@pytest.mark.slow
def test_a_device_waits_politely_until_it_is_admitted(start_aggregator, tmp_path):
    server = start_aggregator("approving", "--tls", "auto", "--approve")
    made = EdgeDaemon(tmp_path / "kitchen", "cnn1", "")
    assert "an operator has yet to admit this device" in edge(made.config, "join", str(invite(server)))
    often = "[server]\nwait_s = 1\nlongest_pause_s = 1\n"
    made.config.write_text(made.config.read_text().replace("[server]\n", often))
    with made.start(dict(os.environ)), server.client() as admin:
        wait_for(lambda: "waits to be admitted" in made.log(), what="a word about waiting")
        wait_for(lambda: (made.status().get("server") or {}).get("waiting"), what="the status to tell")
        assert "waiting yes" in edge(made.config, "status")
        assert "stop it" in edge(made.config, "leave", status=1)
        assert made.log().count("waits to be admitted") == 1
        device_id = state_of(made.config).identity.load().device_id
        admin.post(f"/v1/devices/{device_id}/admit").raise_for_status()
        wait_for(lambda: made.status()["server"].get("waiting") is False, what="the admission to be noticed")
        assert made.status()["server"]["error"] == ""
        assert admin.get("/v1/audit", params={"what": "authentication_failed"}).json() == []
        assert made.end() == 0


def test_a_new_device_that_learns_from_recordings_gets_its_configuration_and_the_fleets_bundle(server, tmp_path):
    link, recordings = invite(server, devices=2), tmp_path / "hall"
    config = tmp_path / "hall.device" / "edge.toml"
    wanted = ("join", str(link), "--recordings", str(recordings))
    assert "hall" in edge(config, *wanted, status=1)  # there are none
    write_clips(recordings, "yes", 2, seed=0)
    if server.client().get("/v1/model").status_code == 404:
        assert "publish-model" in edge(config, *wanted, status=1)
        assert not config.exists()
    with server.client() as admin:
        admin.put("/v1/model", content=find_bundle("cnn1").read_bytes()).raise_for_status()
    printed = edge(config, *wanted, "--name", "the hall")
    assert f"start it: auricle-edge run --config {config}" in printed
    found = load_config(config)
    assert (found.device.name, found.recordings.folder, found.server.url) == ("the hall", recordings, server.url)
    assert found.model.bundle.read_bytes() == find_bundle("cnn1").read_bytes()
    look(config)
    assert "joined the fleet" in edge(config, *wanted)  # again changes nothing
    assert load_config(config).device.name == "the hall"
    other = tmp_path / "kitchen"
    write_clips(other, "yes", 2, seed=0)
    assert "names other recordings" in edge(config, "join", str(link), "--recordings", str(other), status=1)
