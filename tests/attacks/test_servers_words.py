"""Words of a server that would become a path, break a parser or fool a terminal: each is refused by a clear error."""

import dataclasses
import json

import pytest

from aggregator_server.schemas import RoundRequest
from aggregator_server.strategies.plans import make_plan
from edge_client.errors import StateError
from edge_client.learning.worker import checked_plan
from edge_client.storage.blob_cache import BlobCache
from fleet_protocol.client.identity import Identity
from fleet_protocol.client.server_client import ServerClient
from fleet_protocol.errors import PlanError, RefusedError, UnreachableError
from fleet_protocol.messages.rest import Choice, ClassInfo, Work, to_json
from tests.support.hostile_server import HostileServer, whole

PLAN = make_plan(RoundRequest("zero_shot"))
GOOD = to_json(
    Work(
        kind="contribute", round_id=1, plan=PLAN, public_set="a" * 64, consensus=None, classes=(ClassInfo("c0", "yes"),)
    )
)


@pytest.fixture
def server():
    with HostileServer(whole(b"")) as made:
        yield made


@pytest.fixture
def client(server):
    made = ServerClient(server.url, Identity("1" * 32, "secret"))
    yield made
    made.close()


def changed(**changes):
    return json.dumps(GOOD | changes).encode()


def with_plan(**changes):
    return changed(plan=GOOD["plan"] | changes)


DEEP = b"[" * 200_000 + b"]" * 200_000
NESTED = json.loads("[" * 900 + "]" * 900)
WORK = {
    "bad UTF-8": changed().replace(b"yes", b"\xff\xfe"),
    "nothing but bad UTF-8": b"\xc3\x28" * 100,
    "deep JSON": DEEP,
    "deep JSON in a field": changed().replace(b'"yes"', DEEP),
    "nested, but not too deeply for the parser": changed(consensus=NESTED),
    "no object": b"[]",
    "NaN": with_plan(quorum=float("nan")),
    "a number of 5000 digits": changed().replace(b'"round_id": 1', b'"round_id": 1' + b"0" * 5000),
    "a class with an escape sequence": changed(classes=[{"class_id": "c0", "name": "yes\x1b[2J"}]),
    "a class with a zero byte": changed(classes=[{"class_id": "c\0", "name": "yes"}]),
    "a class without a name": changed(classes=[{"class_id": "c0", "name": ""}]),
    "a class with a long name": changed(classes=[{"class_id": "c0", "name": "x" * 201}]),
    "too many classes": changed(classes=[{"class_id": f"{n}", "name": "x"} for n in range(10_001)]),
    "a slot below 0": changed(assignments=[{"slot": -1, "class_id": "c0"}]),
    "a seed below 0": with_plan(seed=-1),
    "round 0": changed(round_id=0),
    "round -1": changed(round_id=-1),
    "a round that is a path": changed(round_id="../../x"),
    "a round that is true": changed(round_id=True),
    "a round beyond 64 bits": changed(round_id=2**63),
} | {
    f"{field} of {value!r}": changed(**{field: value})
    for field in ("public_set", "consensus", "model", "weights", "fleet_weights", "prototypes")
    for value in ("../../x", "/etc/passwd", "", "A" * 64, "a" * 63, "a" * 64 + "\n", "a" * 32 + "/" + "a" * 31)
}


@pytest.mark.parametrize("name", WORK)
def test_work_that_no_aggregator_would_give_is_refused(server, client, name):
    server.answer = whole(WORK[name])
    with pytest.raises(UnreachableError, match="answered what no aggregator would") as refused:
        client.work(0.0)
    assert len(str(refused.value)) < 1_000
    assert str(refused.value).isprintable()


def test_work_as_an_aggregator_gives_it_is_taken(server, client):
    server.answer = whole(json.dumps(GOOD | {"something": "new"}).encode())
    assert to_json(client.work(0.0)) == GOOD


@pytest.mark.parametrize("name", ["../../x", "..", "", "a/b", "\0", "A" * 64])
def test_what_is_no_digest_becomes_no_path(tmp_path, name):
    blobs = BlobCache(tmp_path / "blobs")
    for use in (blobs.path, blobs.has, blobs.read):
        with pytest.raises(StateError, match="named by 64 hex digits"):
            use(name)


@pytest.mark.parametrize(
    "body", [b"\xff\xfe", DEEP, b'{"error": 5}', b'{"error": {"code": "x", "message": ' + b"[" * 100_000]
)
def test_an_error_that_cannot_be_read_is_an_error_that_says_so(server, client, body):
    server.answer = whole(body, status="404 Not Found")
    with pytest.raises(UnreachableError, match="not as an aggregator does"):
        client.work(0.0)


def test_the_words_of_a_refusal_are_cut_and_made_printable(server, client):
    error = {"code": "no\x1b[31m", "message": "line\nline" * 10_000}
    server.answer = whole(json.dumps({"error": error}).encode(), status="403 Forbidden")
    with pytest.raises(RefusedError) as refused:
        client.work(0.0)
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 1_000


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"epochs": 10**12}, "'epochs'"),
        ({"epochs": "../../x"}, "'epochs'"),
        ({"learning_rate": -1.0}, "'learning_rate'"),
    ],
)
def test_settings_out_of_their_range_are_not_trained_with(settings, says):
    plan = dataclasses.replace(PLAN, local=Choice("zero_shot", settings))
    with pytest.raises(PlanError, match=says):
        checked_plan(plan)


def test_settings_that_a_plan_lacks_are_filled_in_and_those_of_a_newer_version_left_out():
    plan = dataclasses.replace(PLAN, local=Choice("zero_shot", {"epochs": 3, "of a newer version": 1}))
    settings = checked_plan(plan).local.settings
    assert settings.keys() == PLAN.local.settings.keys()
    assert settings["epochs"] == 3
