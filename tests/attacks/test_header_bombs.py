"""Small on the wire, large in memory: array files and JSON texts whose parsing would take gigabytes, or the stack."""

import json
import threading

import pytest

from tests.support.aggregator_process import ENROL, Aggregator, Fleet, read_answer
from tests.support.core_fleet import devices
from tests.support.proxy import behind_proxy

# What the server's process may grow by while it refuses four of them at once; parsing one took 1.8 GB.
GROWTH_MB = 120
SIZE = 64 * 2**20 - 1024


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    with behind_proxy(Aggregator(tmp_path_factory.mktemp("aggregator") / "data")) as aggregator:
        fleet = Fleet(aggregator, devices()).ready()
        fleet.open_round()
        yield fleet


def with_document(text):
    header = b'{"__metadata__":{"auricle":"' + text + b'"}}'
    return len(header).to_bytes(8, "little") + header


def empty_arrays(count):
    entries = b",".join(b'"%d":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}' % n for n in range(count))
    header = b'{"__metadata__":{"auricle":"{}"},' + entries + b"}"
    return len(header).to_bytes(8, "little") + header


BOMBS = {
    "many objects": (lambda: with_document(b"[" + b"{}," * ((SIZE - 100) // 3) + b"{}]"), "header has 6"),
    "many empty arrays": (lambda: empty_arrays(700_000), "header has 4"),
    "a deep document": (lambda: with_document(b"[" * 300_000), "values"),
    "many arrays within the header": (lambda: empty_arrays(3_000), "3000 arrays"),
}


@pytest.mark.parametrize(("bomb", "words"), BOMBS.values(), ids=BOMBS)
def test_four_uploads_at_once_with_a_huge_header_are_refused_unread(fleet, bomb, words):
    body, answers = bomb(), {}
    before = fleet.aggregator.peak_memory_mb()

    def send(device):
        answers[device.number] = fleet.clients[device.number].put("/v1/rounds/1/update", content=body)

    threads = [threading.Thread(target=send, args=(device,)) for device in fleet.devices]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for answer in answers.values():
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "malformed_update")
        assert words in answer.json()["error"]["message"]
    assert fleet.aggregator.peak_memory_mb() - before < GROWTH_MB
    assert fleet.admin.get("/v1/health").status_code == 200


@pytest.mark.parametrize("path", ["/v1/devices", "/v1/rounds", "/v1/rounds/1/learned"])
def test_a_message_from_a_stranger_is_refused_before_its_body_was_sent(fleet, path):
    for token in ("", "Authorization: Bearer no-such-token\r\n", "Authorization: Basic eDp5\r\n"):
        with fleet.aggregator.connect() as connection:
            head = f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n{token}"
            connection.sendall(f"{head}Content-Length: 1000000\r\n\r\n[".encode())
            status, _, body = read_answer(connection)
        assert (status, json.loads(body)["error"]["code"]) == (401, "unauthorised")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"[" * 2**10 + b"]" * 2**10, "nests 1024"),
        (b"[" + b"{}," * 300_000 + b"{}]", "values"),
        (b'{"labels":[' + b'"",' * 300_000 + b'""]}', "values"),
    ],
)
def test_messages_that_are_large_or_deep_once_parsed_are_refused(fleet, text, words):
    before = fleet.aggregator.peak_memory_mb()
    with fleet.aggregator.client(ENROL) as client:
        answer = client.post("/v1/devices", content=text, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid_request")
    assert words in answer.json()["error"]["message"]
    assert fleet.aggregator.peak_memory_mb() - before < GROWTH_MB


def test_an_honest_upload_of_the_same_round_is_taken(fleet):
    fleet.upload_all()
