"""More TLS handshakes than a server can have open, from one address and from several: the oldest make room."""

import select
import socket

import pytest

from tests.support.aggregator_process import Aggregator
from tests.support.edge_process import wait_for

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
