"""More connections than a server can have open, and slow ones, through nginx as it comes with the aggregator."""

import json
import resource
import select
import socket
import time
from contextlib import ExitStack, closing

import pytest

from aggregator_server.fleet.enrolment import enrol
from aggregator_server.store.opening import open_store
from fleet_protocol.messages.rest import Enrolment, parse
from tests.support.aggregator_process import Aggregator, FakeDevice, read_answer, trickle
from tests.support.edge_process import wait_for
from tests.support.proxy import behind_proxy

SILENT = 1_013


@pytest.fixture(autouse=True)
def many_files():
    """The tests open some thousand sockets of their own."""
    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 8_192
    if most != resource.RLIM_INFINITY and most < wanted:
        pytest.skip(f"this system allows {most} open files; the test needs {wanted}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(allowed, wanted), most))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, most))


@pytest.fixture
def start(tmp_path):
    with ExitStack() as stack:

        def start(devices=(), tls=False, **changes):
            server = Aggregator(tmp_path / "server")
            if devices:
                with closing(open_store(server.data)) as store:
                    for device in devices:
                        enrol(store, parse(Enrolment, device.enrolment()), time.time())
            return stack.enter_context(behind_proxy(server, tls=tls, **changes))

        yield start


def request(path="/v1/health", token=None):
    authorization = f"Authorization: Bearer {token}\r\n" if token else ""
    return f"GET {path} HTTP/1.1\r\nHost: a\r\n{authorization}\r\n".encode()


def is_closed(connection):
    """Wait for the other side to close a connection, and drop what it sends before."""
    try:
        while connection.recv(4096):
            pass
    except ConnectionResetError:
        pass
    return True


def test_a_thousand_silent_and_half_sent_connections_do_not_keep_others_out(start):
    """With 1,024 of its own, nginx closes the oldest that are silent."""
    server = start(worker_connections="1024")
    with ExitStack() as attack:
        for number in range(SILENT):
            connection = attack.enter_context(server.connect())
            if number % 4 == 0:
                connection.sendall(b"GET /v1/heal")
        with server.client(token=None) as client:
            for _ in range(20):
                assert client.get("/v1/health").status_code == 200
        for _ in range(20):
            with server.connect() as connection:
                connection.sendall(request())
                assert read_answer(connection)[0] == 200
    assert len(server.log()) < 10_000, server.log()[:2_000]


def test_who_says_nothing_or_never_ends_a_head_is_cut_off(start):
    server = start(client_header_timeout="2s", keepalive_timeout="2s")
    with server.connect() as silent:
        assert is_closed(silent)
    with server.connect() as trickling, pytest.raises(OSError, match=r"reset|[Bb]roken pipe"):
        trickle(trickling)
    with server.connect() as idle:
        idle.sendall(request())
        assert read_answer(idle)[0] == 200
        assert is_closed(idle)
    with server.connect() as pipelined:
        pipelined.sendall(request() + b"GET /v1/hea")
        assert is_closed(pipelined)


def test_of_one_address_so_many_requests_are_answered_at_once_and_the_next_is_told_to_come_back(start):
    devices = [FakeDevice(number, ()) for number in range(1, 9)]
    server = start(devices, limit_conn="address 8")
    with ExitStack() as open_:
        for device in devices:
            connection = open_.enter_context(server.connect())
            connection.sendall(request("/v1/work?wait_s=60", device.secret))

        def refused():
            with server.connect() as connection:
                connection.sendall(request())
                status, headers, body = read_answer(connection)
            return (headers["retry-after"], json.loads(body)["error"]["code"]) if status == 503 else None

        assert wait_for(refused, what="all that wait") == ("5", "busy")
        with server.connect(source="127.0.0.2") as elsewhere:
            elsewhere.sendall(request())
            assert read_answer(elsewhere)[0] == 200


def test_of_one_device_one_request_waits(start):
    device = FakeDevice(1, ())
    server = start([device])
    with ExitStack() as open_:
        polls = [open_.enter_context(server.connect()) for _ in range(4)]
        for connection in polls:
            connection.sendall(request("/v1/work?wait_s=60", device.secret))
        waiting = set(polls)
        while len(waiting) > 1:  # in whatever order the server reads them, the last one waits
            for connection in select.select(list(waiting), [], [], 60)[0]:
                assert read_answer(connection)[0] == 204
                waiting.remove(connection)


def test_handshakes_that_do_not_end_are_cut_off_and_honest_ones_end_meanwhile(start):
    server = start(tls=True, client_header_timeout="5s")
    port = int(server.url.rpartition(":")[2])
    with ExitStack() as stack:
        begun = [stack.enter_context(socket.create_connection(("127.0.0.1", port), 180)) for _ in range(200)]
        for connection in begun:
            connection.sendall(b"\x16\x03\x01\x02")
        with server.client(None) as client:
            assert client.get("/v1/health").status_code == 200
        assert all(is_closed(connection) for connection in begun)


def test_a_server_that_is_away_is_said_in_the_shape_of_all_errors(start):
    server = start()
    server.kill()
    with server.client() as client:
        answer = client.get("/v1/rounds")
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "busy")
