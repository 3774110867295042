"""More connections, or TLS handshakes, than a server can have open: the silent and oldest make room."""

import asyncio
import json
import resource
import select
import socket
import time
from contextlib import ExitStack

import pytest

from aggregator_server.security import hash_secret
from aggregator_server.store import Store
from aggregator_server.store.tables import DeviceRow
from tests.support.aggregator_process import ADMIN, SETTINGS, Aggregator, FakeDevice, read_answer, trickle
from tests.support.edge_process import wait_for

SILENT, POLLS = 1_013, 1_030


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
    servers = []

    def start(**options):
        servers.append(Aggregator(tmp_path / "server", **options))
        return servers[-1].start()

    yield start
    for server in servers:
        server.kill()


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
    """At 1,024 open files, as many services have."""
    server = start(files=(1_024, 1_024))
    with ExitStack() as attack:
        for number in range(SILENT):
            connection = attack.enter_context(server.connect())
            if number % 2:
                connection.sendall(b"GET /v1/heal")
        with server.client(token=None) as client:
            for _ in range(20):
                assert client.get("/v1/health").status_code == 200
        for _ in range(20):
            with server.connect() as connection:
                connection.sendall(request())
                assert read_answer(connection)[0] == 200
    assert len(server.log()) < 10_000, server.log()[:2_000]


@pytest.mark.slow
def test_a_thousand_devices_wait_for_work_at_once(start, tmp_path):
    """With 1,024 open files at first: the server takes as many as the system allows."""
    devices = [FakeDevice(number, ()) for number in range(1, POLLS + 1)]
    store = Store(tmp_path / "server")
    with store.writing() as session:
        session.add_all(row_of(device) for device in devices)
    store.close()
    server = start(files=(1_024, 8_192))
    answers = asyncio.run(poll_together(server, devices))
    assert answers == ["HTTP/1.1 204 No Content"] * POLLS
    assert len(server.log()) < 10_000, server.log()[:2_000]


def row_of(device):
    return DeviceRow(
        device_id=device.device_id,
        secret_hash=hash_secret(device.secret),
        name="device",
        architecture="cnn2",
        features=SETTINGS.to_json(),
        features_digest=SETTINGS.digest,
        labels=[],
        clips=0,
        enrolled_at=0.0,
        seen_at=time.time(),
        revoked_at=None,
    )


async def poll_together(server, devices):
    """Let all devices wait for work at once; return the first line of each answer."""
    host, port = server.url.removeprefix("http://").split(":")
    connected = asyncio.Barrier(len(devices) + 1)

    async def poll(device):
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(request("/v1/work?wait_s=15", device.secret))
        await connected.wait()
        line = await reader.readline()
        writer.close()
        return line.decode().strip()

    tasks = [asyncio.create_task(poll(device)) for device in devices]
    await connected.wait()
    reader, writer = await asyncio.open_connection(host, int(port))  # while all the others wait
    writer.write(request())
    assert b"200 OK" in await reader.readline()
    writer.close()
    return await asyncio.gather(*tasks)


def test_who_says_nothing_or_never_ends_a_head_is_cut_off(start):
    server = start(FIRST_BYTE_S=2.0, HEAD_S=2.0, STRANGER_IDLE_S=2.0)  # a busy machine is late by a second
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


def test_who_shows_a_token_keeps_the_connection_and_is_not_cut_off_for_strangers(start):
    server = start(CONNECTIONS=16, ADDRESS_SHARE=0.5, STRANGER_IDLE_S=0.5, FIRST_BYTE_S=60.0)
    with ExitStack() as open_:
        known = [open_.enter_context(server.connect()) for _ in range(7)]
        for connection in known:
            connection.sendall(request("/v1/rounds", ADMIN))
            assert read_answer(connection)[0] == 200
        strangers = [open_.enter_context(server.connect()) for _ in range(5)]
        for connection in strangers[:-1]:  # each made room for the next
            assert is_closed(connection)
        time.sleep(1)  # longer than a stranger may be idle
        for connection in known:
            connection.sendall(request("/v1/rounds", ADMIN))
            assert read_answer(connection)[0] == 200


def test_where_all_are_known_the_next_is_told_to_come_back(start):
    server = start(CONNECTIONS=16, ADDRESS_SHARE=0.5)
    with ExitStack() as open_:
        for _ in range(8):
            connection = open_.enter_context(server.connect())
            connection.sendall(request("/v1/rounds", ADMIN))
            assert read_answer(connection)[0] == 200
        with server.connect() as refused:
            status, headers, body = read_answer(refused)
        assert (status, headers["retry-after"], headers["connection"]) == (503, "5", "close")
        assert json.loads(body)["error"]["code"] == "busy"
        with server.connect(source="127.0.0.2") as elsewhere:
            elsewhere.sendall(request())
            assert read_answer(elsewhere)[0] == 200


def test_a_device_has_eight_connections_and_waits_on_one(start, tmp_path):
    device = FakeDevice(1, ())
    store = Store(tmp_path / "server")
    with store.writing() as session:
        session.add(row_of(device))
    store.close()
    server = start()
    with ExitStack() as open_:
        polls = [open_.enter_context(server.connect()) for _ in range(4)]
        for connection in polls:
            connection.sendall(request("/v1/work?wait_s=60", device.secret))
        waiting = set(polls)
        while len(waiting) > 1:  # in whatever order the server reads them, the last one waits
            for connection in select.select(list(waiting), [], [], 60)[0]:
                assert read_answer(connection)[0] == 204
                waiting.remove(connection)
        for _ in range(8):
            connection = open_.enter_context(server.connect())
            connection.sendall(request("/v1/devices/me", device.secret))
            assert read_answer(connection)[0] == 200
        for connection in polls:
            assert is_closed(connection)


SIZE, OF_ADDRESS, BEGUN = 8, 4, 20


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server that would wait for a handshake longer than the tests take."""
    process = Aggregator(tmp_path_factory.mktemp("server"), "--tls", "auto", HANDSHAKES=SIZE, HEAD_S=600.0).start()
    yield process
    process.kill()


def begin(server, source, stack):
    """Connect, and send the beginning of a handshake's first message."""
    port = int(server.url.rpartition(":")[2])
    connection = socket.create_connection(("127.0.0.1", port), timeout=180, source_address=(source, 0))
    connection.sendall(b"\x16\x03\x01\x02")
    stack.append(connection)
    return connection


def still_open(connections):
    """Return those that the server has not closed: nothing can be read of them, not even their end."""
    ended = select.select(connections, [], [], 0)[0]
    return [connection for connection in connections if connection not in ended]


@pytest.fixture
def stack():
    connections = []
    yield connections
    for connection in connections:
        connection.close()


def test_the_oldest_handshakes_of_an_address_make_room_and_others_are_served(server, stack):
    begun = [begin(server, "127.0.0.2", stack) for _ in range(BEGUN)]
    wait_for(lambda: len(still_open(begun)) == OF_ADDRESS, what="the end of the oldest")
    with server.client(None) as client:
        assert client.get("/v1/health").status_code == 200
    assert still_open(begun) == begun[-OF_ADDRESS:]


def test_handshakes_of_all_addresses_have_a_bound_and_an_honest_one_ends(server, stack):
    begun = [begin(server, f"127.0.0.{3 + number % 5}", stack) for number in range(BEGUN)]
    wait_for(lambda: len(still_open(begun)) == SIZE, what="the end of the oldest")
    for _ in range(BEGUN):  # each takes the place of one, and ends at once
        with server.client(None) as client:
            assert client.get("/v1/health").status_code == 200
    assert len(still_open(begun)) >= SIZE - 1
