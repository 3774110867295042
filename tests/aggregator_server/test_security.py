"""Tokens and secrets: who gets in, who does not, and what is kept of a secret."""

import hashlib
import json
import stat

import pytest

from aggregator_server import errors
from aggregator_server.fleet.devices import describe_device
from aggregator_server.fleet.enrolment import enrol
from aggregator_server.security import load_tokens
from fleet_protocol.messages.rest import Enrolment, Versions
from tests.support.aggregator_process import SETTINGS, FakeDevice

DEVICE = FakeDevice(1, ("c0", "c1"))


def enrolment(device=DEVICE, **changes):
    return Enrolment(**device.enrolment(**changes))


def test_tokens_are_drawn_once_and_kept_for_the_owner_alone(tmp_path):
    tokens = load_tokens(tmp_path / "data", {})
    assert load_tokens(tmp_path / "data", {}) == tokens
    assert len({tokens.admin, tokens.enrol}) == 2
    assert min(len(tokens.admin), len(tokens.enrol)) >= 32
    assert stat.S_IMODE((tmp_path / "data" / "tokens.json").stat().st_mode) == 0o600
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["tokens.json"]
    assert load_tokens(tmp_path / "other", {}) != tokens


def test_the_environment_goes_before_the_file_and_needs_none(tmp_path):
    given = {"AURICLE_ADMIN_TOKEN": "a" * 20, "AURICLE_ENROL_TOKEN": "b" * 20}
    tokens = load_tokens(tmp_path, given)
    assert (tokens.admin, tokens.enrol) == ("a" * 20, "b" * 20)
    assert list(tmp_path.iterdir()) == []
    stored = load_tokens(tmp_path, {})
    assert load_tokens(tmp_path, {"AURICLE_ADMIN_TOKEN": "a" * 20}).enrol == stored.enrol


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"AURICLE_ADMIN_TOKEN": "short", "AURICLE_ENROL_TOKEN": "b" * 20}, "admin token"),
        ({"AURICLE_ADMIN_TOKEN": "a" * 20, "AURICLE_ENROL_TOKEN": "b " * 20}, "enrolment token"),
        ({"AURICLE_ADMIN_TOKEN": "a" * 20, "AURICLE_ENROL_TOKEN": "a" * 20}, "must differ"),
    ],
)
def test_tokens_that_protect_nothing_are_refused(tmp_path, given, words):
    with pytest.raises(errors.StartError, match=words):
        load_tokens(tmp_path, given)


@pytest.mark.parametrize("content", ["", "[]", '{"admin": "x"}', "{"])
def test_a_damaged_token_file_is_named(tmp_path, content):
    (tmp_path / "tokens.json").write_text(content)
    with pytest.raises(errors.StartError, match=r"tokens\.json"):
        load_tokens(tmp_path, {})


def test_a_secret_is_kept_as_a_hash_alone(fleet):
    fleet.store.close()
    content = b"".join(path.read_bytes() for path in fleet.store.blobs.path("00").parents[2].glob("auricle.db*"))
    assert DEVICE.secret.encode() not in content
    assert hashlib.sha256(DEVICE.secret.encode()).hexdigest().encode() in content


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"device_id": "XYZ"}, "32 lower-case hex"),
        ({"device_id": "A" * 32}, "32 lower-case hex"),
        ({"secret": "short"}, "32 to 256"),
        ({"secret": "with blanks " * 4}, "32 to 256"),
        ({"name": ""}, "device's name"),
        ({"name": "a\x00b"}, "device's name"),
        ({"name": "n" * 201}, "device's name"),
        ({"architecture": "a\n"}, "architecture"),
        ({"labels": ["ok", "\ud800"]}, "label"),
        ({"labels": ["x"] * 5000}, "5000 labels"),
        ({"versions": Versions(program="1\n2")}, "versions.program must have 1 to 100 printable characters"),
        ({"versions": Versions(runtime="x" * 101)}, "versions.runtime"),
        ({"versions": Versions(system=" Debian")}, "versions.system"),
        ({"versions": Versions(bundle="\u202ebase")}, "versions.bundle"),
        ({"versions": Versions(bundle_sha256="F" * 64)}, "64 lower-case hex"),
        ({"features": {}}, "preset"),
        ({"features": SETTINGS.to_json() | {"frames": "20"}}, "'frames'"),
        ({"features": SETTINGS.to_json() | {"clip_s": float("nan")}}, "'clip_s'"),
        ({"features": SETTINGS.to_json() | {"high_hz": 10**400}}, "'high_hz'"),
        ({"features": SETTINGS.to_json() | {"extra": 1}}, "'extra'"),
    ],
)
def test_an_enrolment_that_cannot_be_used_is_refused_and_changes_nothing(fleet, changes, words):
    with pytest.raises(errors.InvalidRequestError, match=words):
        enrol(fleet.store, enrolment(**changes), 9.0)
    assert describe_device(fleet.store, DEVICE.device_id).name == "device 1"
    json.dumps(describe_device(fleet.store, DEVICE.device_id).features)
