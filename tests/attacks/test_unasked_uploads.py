"""Uploads that nobody asked for, that never end, or that are begun again and again: none of them fills the disk."""

import json
import select
from contextlib import ExitStack, suppress

import pytest

from tests.support.aggregator_process import Aggregator, FakeDevice, Fleet, read_answer, trickle
from tests.support.core_fleet import devices
from tests.support.edge_process import wait_for
from tests.support.proxy import behind_proxy

SIZE = 40 * 2**20
PIECE = 2**20


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    limits = {"STALL_S": 1.0, "BODY_S": 2.0, "SLOWEST_BYTES_PER_S": PIECE}
    server = Aggregator(tmp_path_factory.mktemp("aggregator") / "data", **limits)
    with behind_proxy(server, lingering_time="2s") as aggregator:
        yield Fleet(aggregator, devices()).ready()


@pytest.fixture
def fleet(server):
    """A fleet with an open round, whose number is ``fleet.open``."""
    server.open = server.open_round()
    yield server
    server.admin.delete(f"/v1/rounds/{server.open}")


def begin(fleet, device, round_id=None, size=SIZE):
    """Send the head of an upload, and the first piece of its body."""
    connection = fleet.aggregator.connect()
    head = f"PUT /v1/rounds/{round_id or fleet.open}/update HTTP/1.1\r\nHost: a\r\n"
    token = f"Authorization: Bearer {device.secret}\r\n"
    connection.sendall(f"{head}{token}Content-Length: {size}\r\n\r\n".encode() + bytes(PIECE))
    return connection


def files(fleet):
    """The sizes of uploads that are coming in, by file."""
    sizes = {}
    for path in (fleet.aggregator.data / "blobs" / "incoming").iterdir():
        with suppress(FileNotFoundError):  # removed in between
            sizes[path.name] = path.stat().st_size
    return sizes


def incoming(fleet):
    return list(files(fleet).values())


def refusal(connection):
    status, _, body = read_answer(connection)
    return status, json.loads(body)["error"]["code"]


def test_twenty_stalled_uploads_of_a_device_in_no_round_are_refused_unread(fleet):
    stranger = FakeDevice(60, ("c0",))
    fleet.aggregator.enrol(stranger)
    with ExitStack() as open_:
        for number in range(20):
            connection = open_.enter_context(begin(fleet, stranger, round_id=fleet.open + number % 2))
            expected = (403, "not_selected") if number % 2 == 0 else (404, "round_not_found")
            assert refusal(connection) == expected
            assert incoming(fleet) == []


def test_a_client_that_goes_on_sending_after_a_refusal_is_cut_off(fleet):
    with begin(fleet, fleet.devices[0], round_id=fleet.open + 1) as connection:
        assert refusal(connection) == (404, "round_not_found")
        with pytest.raises(OSError, match=r"reset|[Bb]roken pipe"):
            trickle(connection)


def test_twenty_uploads_begun_by_one_device_take_the_place_of_one(tmp_path):
    seen = set()

    def arrived():
        return [name for name, size in files(fleet).items() if name not in seen and size >= PIECE - 2**16]

    with ExitStack() as open_:
        patient = Aggregator(tmp_path / "data", STALL_S=600.0, BODY_S=600.0)
        fleet = Fleet(open_.enter_context(behind_proxy(patient)), devices()).ready()
        fleet.open, device = fleet.open_round(), fleet.devices[0]
        work = fleet.work(device)
        begun = open_.enter_context(ExitStack())
        for _ in range(20):
            begun.enter_context(begin(fleet, device))
            wait_for(arrived, what="the arrival of its piece")  # the last one's would still replace the upload below
            seen.update(files(fleet))
            assert sum(incoming(fleet)) <= PIECE
        fleet.upload(device, work).raise_for_status()
        begun.close()
        wait_for(lambda: incoming(fleet) == [], what="the removal of what came")


def test_all_uploads_together_have_a_bound_and_who_is_beyond_it_is_told_when_to_come_back(start_aggregator):
    room = 3 * PIECE
    server = start_aggregator(INCOMING_BYTES=room, STALL_S=600.0, BODY_S=600.0, TURN_S=0.05)
    fleet = Fleet(server, devices(8)).ready()
    fleet.open = fleet.open_round()
    work = fleet.work(fleet.devices[7])
    with ExitStack() as open_:
        begun = [open_.enter_context(begin(fleet, device)) for device in fleet.devices[:6]]
        answered = set()
        while len(answered) < 3:  # three pieces have room; how much of the others' came first is chance
            answered.update(select.select([one for one in begun if one not in answered], [], [])[0])
            assert sum(incoming(fleet)) <= room
        for connection in answered:
            status, headers, body = read_answer(connection)
            assert (status, json.loads(body)["error"]["code"]) == (503, "busy")
            assert int(headers["retry-after"]) > 0
        assert len(answered) == 3
    wait_for(lambda: incoming(fleet) == [], what="the removal of what came")
    fleet.upload(fleet.devices[7], work).raise_for_status()  # the room is free again


def test_an_upload_that_trickles_is_ended(fleet):
    with begin(fleet, fleet.devices[0], size=SIZE) as connection:
        connection.settimeout(0.02)
        answer = b""
        for _ in range(5_000):  # far longer than the server waits
            with suppress(OSError):  # it may be closed by now; the answer is there then
                connection.sendall(b"x")
            try:
                answer = connection.recv(4096)
                break
            except TimeoutError:
                continue
    assert b"408 Request Timeout" in answer
