"""The command ``auricle-aggregator``: what it prints, and how it fails."""

import json
import os
import pty
import re
import socket
import subprocess

import httpx
import pytest

from aggregator_server.commands.targets import Named, resolve
from aggregator_server.errors import AggregatorError, NotAuthenticatedError
from aggregator_server.fleet.audit import SERVER
from aggregator_server.fleet.tokens import Person, add_token, find_person
from aggregator_server.schemas import TokenRequest
from aggregator_server.security import load_tokens
from aggregator_server.store.opening import open_store
from fleet_protocol.ground.command_line import version
from fleet_protocol.messages.invitation_link import InvitationLink
from tests.support.aggregator_process import ADMIN, FakeDevice, public_set
from tests.support.commands import answer, command, failed, printed, start


def test_tokens_are_printed_and_stay_the_same(tmp_path):
    drawn = load_tokens(tmp_path, {})
    first, second = (command("tokens", "--data", tmp_path, "--json", token=None) for _ in range(2))
    assert json.loads(first.stdout) == json.loads(second.stdout) == {"admin": drawn.admin, "enrol": drawn.enrol}
    other = command("tokens", "--data", tmp_path, "--json", token="a" * 20, AURICLE_ENROL_TOKEN="b" * 20)
    assert json.loads(other.stdout) == {"admin": "a" * 20, "enrol": "b" * 20}
    assert "environment" in other.stderr


def test_a_port_that_is_taken_and_a_host_that_is_not_here_are_explained(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        failed(command("run", "--data", tmp_path / "a", "--create", "--port", port), port, "--port")
    elsewhere = command("run", "--create", "--data", tmp_path / "b", "--host", "203.0.113.1", "--port", "0")
    failed(elsewhere, "203.0.113.1", "--host")


@pytest.mark.parametrize(
    "arguments",
    [
        ("tokens",),
        ("tokens", "list"),
        ("tokens", "add", "Anna", "--role", "viewer"),
        ("invite",),
        ("invitations",),
        ("devices", "list"),
        ("audit",),
    ],
)
def test_a_folder_that_is_no_data_folder_is_refused_and_not_made(tmp_path, arguments):
    failed(command(*arguments, "--data", tmp_path / "typo"), str(tmp_path / "typo"), "no data folder", "run --data")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", [("tokens", "link"), ("tokens", "list"), ("rounds",), ("check",)])
def test_a_folder_that_no_disk_can_have_is_named(tmp_path, arguments):
    (tmp_path / "file").touch()
    for data in (tmp_path / "file" / "data", tmp_path / ("x" * 300)):
        ended = command(*arguments, "--data", data)
        assert ended.returncode == 1
        assert ended.stderr.startswith("auricle-aggregator: ")
        assert str(data) in ended.stderr
        assert "Traceback" not in ended.stderr


@pytest.mark.slow
@pytest.mark.parametrize("kept", [None, "notes.txt"])
def test_a_folder_that_is_no_fleets_gets_one_only_where_that_is_meant(tmp_path, kept):
    data = tmp_path / "typo"
    if kept:
        data.mkdir()
        (data / kept).write_text("mine")
    why = f"holds other files, such as {kept}" if kept else "there is no such folder"
    failed(command("run", "--data", data, "--port", "0"), str(data), why, "--create")
    assert [path.name for path in data.iterdir()] == [kept] if kept else not data.exists()
    refused = asked("n", "run", "--data", data, "--port", "0")
    assert (refused.communicate(timeout=180)[0], refused.returncode) == ("", 130)
    assert not (data / "auricle.db").exists()
    serves(asked("y", "run", "--data", data, "--port", "0"))
    assert (data / "auricle.db").exists()


def serves(process):
    assert '"url"' in process.stdout.readline()
    process.terminate()
    process.communicate(timeout=180)
    assert process.returncode == 0


def test_at_a_terminal_alone_the_server_shows_a_link_that_signs_an_administrator_in(tmp_path):
    master, slave = pty.openpty()
    process = start("run", "--data", tmp_path, "--create", "--port", "0", stdin=slave, stderr=slave)
    os.close(slave)
    url = json.loads(process.stdout.readline())["url"]
    shown = ""
    while "another: auricle-aggregator tokens link --data" not in shown:
        shown += os.read(master, 4096).decode()
    assert ADMIN not in shown
    address, once = re.search(r"(http://\S+)/sign-in/once#(aur_once_\S+)", shown).groups()
    assert address == url
    with httpx.Client(timeout=180, trust_env=False) as client:
        signed_in = [client.post(f"{url}/sign-in", data={"token": once}).status_code for _ in range(2)]
    assert signed_in == [303, 401]
    process.terminate()
    process.wait(180)
    os.close(master)
    again = start("run", "--data", tmp_path, "--port", "0", stdin=subprocess.DEVNULL)
    assert again.stdout.readline()
    again.terminate()
    assert ADMIN not in "".join(again.communicate(timeout=180))


def asked(said, *arguments):
    """Start a command whose input is a terminal, and answer its question."""
    master, slave = pty.openpty()
    process = start(*arguments, stdin=slave)
    os.close(slave)
    shown = ""
    while not shown.endswith("[y/N] ") and (letter := process.stderr.read(1)):
        shown += letter
    assert "Begin a new one there? [y/N] " in shown
    os.write(master, f"{said}\n".encode())
    return process


def test_a_token_expires(tmp_path):
    store = open_store(tmp_path / "data")
    made = add_token(store, TokenRequest(name="Anna", role="admin", expires_s=60), SERVER, 1_000.0)
    assert find_person(store, made.token, 1_059.0) == Person("Anna (token 1)", "admin", 1)
    with pytest.raises(NotAuthenticatedError, match="expired"):
        find_person(store, made.token, 1_060.0)
    assert find_person(store, made.token + "x", 1_000.0) is None


@pytest.mark.parametrize("expires", ["1w", "-1d", "0h", "soon", "1.5d"])
def test_a_time_that_is_none_is_refused(tmp_path, expires):
    result = command("tokens", "add", "Anna", "--role", "admin", f"--expires={expires}", "--data", tmp_path)
    assert result.returncode == 2
    assert "90m, 12h, 30d, or never" in result.stderr


@pytest.mark.slow
def test_an_invitation_is_a_link_a_command_and_a_code(start_aggregator):
    server = start_aggregator()
    data = ("--data", server.data)
    shown = command("invite", "--group", "kitchen", *data)
    link, *rest = shown.stdout.splitlines()
    invitation = InvitationLink.parse(link)
    assert (invitation.url, invitation.authority) == (server.url, None)
    assert f"  auricle-edge join {link}" in rest
    assert sum("\u2588" in line for line in rest) > 15  # the code
    assert "one device until" in shown.stderr
    two = answer("invite", "--devices", "2", "--expires", "never", "--url", "https://a.example", *data)
    assert two["link"].startswith("https://a.example/#aur_join_")
    with server.client(invitation.token) as client:
        assert client.post("/v1/devices", json=FakeDevice(1, ()).enrolment()).status_code == 200
    failed(command("invitations", "--revoke", "7", *data), "there is no invitation '7'")
    printed("invitations", "--revoke", "2", *data)
    first, second = answer("invitations", *data)
    assert (first["used"], first["group"], first["revoked_at"]) == (1, "kitchen", None)
    assert (second["used"], second["devices"], second["expires_at"]) == (0, 2, None)
    assert second["revoked_at"] is not None
    with server.client(InvitationLink.parse(two["link"]).token) as client:
        refused = client.post("/v1/devices", json=FakeDevice(2, ()).enrolment())
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "invitation_spent")
    failed(command("invite", "--url", "somewhere", *data), "--url", "'somewhere'")


@pytest.mark.slow
def test_devices_are_looked_after_beside_a_running_server(start_aggregator):
    server, device = start_aggregator("approving", "--approve"), FakeDevice(1, ())
    data = ("--data", server.data)
    server.enrol(device)
    assert [info["waiting"] for info in answer("devices", "list", *data)] == [True]
    printed("devices", "admit", device.device_id, *data)
    printed("devices", "quarantine", device.device_id, "--reason", "it lies", *data)
    (info,) = answer("devices", "list", *data)
    assert info["conduct"]["reason"] == "it lies"
    reasonless = command("devices", "quarantine", device.device_id, "--reason", " ", *data)
    failed(reasonless, "a reason must have 1 to 200 printable characters")
    printed("devices", "release", device.device_id, *data)
    (info,) = answer("devices", "list", *data)
    assert info["conduct"]["quarantined_at"] is None
    assert re.search(r"cnn2 +not said \(outdated\)", printed("devices", "list", *data))
    with server.client(device.secret) as client:
        said = device.enrolment(versions={"program": version(), "of a later release": "1"}, later=2)
        client.post("/v1/devices", json=said).raise_for_status()
        assert re.search(rf"cnn2 +{re.escape(version())}  ", printed("devices", "list", *data))
        assert answer("devices", "list", *data)[0]["versions"]["program"] == version()
        assert client.get("/v1/work").status_code == 204
        failed(command("devices", "revoke", device.device_id, *data), device.enrolment()["name"], "say --yes")
        printed("devices", "revoke", "--yes", device.device_id, *data)
        assert client.get("/v1/work").status_code == 403
    failed(command("devices", "admit", device.device_id, *data), device.device_id, "revoked")
    failed(command("devices", "revoke", "nobody", *data), "there is no device 'nobody'")
    kinds = [entry["what"] for entry in answer("audit", "--limit", "6", *data)]
    assert kinds == [
        *("authentication_failed", "device_revoked", "device_released", "device_quarantined"),
        *("device_admitted", "device_enrolled"),
    ]
    table = printed("audit", "--what", "device_admitted", *data).splitlines()
    assert "command line" in table[1]


def test_an_idle_server_is_small_and_takes_a_ready_bundle_by_its_name(start_aggregator):
    aggregator = start_aggregator()
    assert aggregator.memory_mb() < 130
    options = ("--url", aggregator.url)
    with aggregator.client() as admin:
        assert admin.put("/v1/public-set", content=public_set().pack()).status_code == 200
    assert json.loads(printed("publish-model", "cnn2", *options))["architecture"] == "cnn2"
    failed(command("publish-model", "cnn9", *options), "no ready bundle is called 'cnn9'", "ready: ann3, base")
    failed(command("publish-model", "/dev/zero", *options), "/dev/zero could not be read: /dev/zero has more than 67")


KNOWN = (
    *(Named("e7029f0f", "Kitchen"), Named("e7030000", "hall"), Named("aaaa", "Ada", present=False)),
    *(Named("bbbb", "Ada"), Named("dog", None), Named("dog-small", None)),
)


@pytest.mark.parametrize(
    ("given", "meant"),
    [("kitchen", "e7029f0f"), ("e7030", "e7030000"), ("HALL", "e7030000"), ("Ada", "bbbb"), ("dog", "dog")],
)
def test_a_thing_is_named_by_its_id_its_name_or_the_beginning_of_its_id(given, meant):
    assert resolve(given, KNOWN, "device", "devices list") == meant


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("e70", r"'e70' can be more than one device: e7029f0f \(Kitchen\), e7030000 \(hall\); write more of the id"),
        ("attic", "there is no device 'attic'; `devices list` lists them"),
        ("", "there is no device ''"),
    ],
)
def test_what_can_be_several_things_or_none_is_refused_with_the_candidates(given, words):
    with pytest.raises(AggregatorError, match=words):
        resolve(given, KNOWN, "device", "devices list")
