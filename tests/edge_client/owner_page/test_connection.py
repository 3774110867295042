"""Connections that send no request lock nobody out of the owner's page, and do not stay."""

import select
import socket

import httpx
import pytest

from fleet_protocol.ready_bundles import find_bundle
from tests.support.edge_process import wait_for
from tests.support.owner_page import OwnerPage

PLACES = 64
HALF = b"GET / HTTP/1.1\r\nHost: localhost\r\n"


@pytest.fixture
def page(tmp_path):
    (tmp_path / "edge.toml").write_text(
        f'[device]\nname = "shelf"\nstate = "state"\n[model]\nbundle = "{find_bundle("cnn1")}"\n'
    )
    made = OwnerPage(tmp_path / "edge.toml")
    yield made
    status, errors = made.end()
    assert status == 0
    assert len(errors.splitlines()) < 10  # not one for each connection
    assert "Traceback" not in errors


@pytest.fixture
def connect(page):
    """Return what opens connections from an address, which send what they are given."""
    opened = []

    def connected(address, count, data=b""):
        for _ in range(count):
            opened.append(
                socket.create_connection(
                    ("127.0.0.1", int(page.url.rpartition(":")[2])), timeout=180, source_address=(address, 0)
                )
            )
            opened[-1].sendall(data)
        return opened[-count:]

    yield connected
    for one in opened:
        one.close()


def status_for(page, address):
    with httpx.Client(transport=httpx.HTTPTransport(local_address=address)) as browser:
        return browser.get(page.url, timeout=180).status_code


def all_ended(connections):
    return len(select.select(connections, [], [], 0)[0]) == len(connections)


def test_silent_connections_of_one_address_do_not_lock_the_owner_out_and_are_closed(page, connect):
    silent = connect("127.0.0.3", PLACES)
    begun = connect("127.0.0.3", PLACES, HALF)
    assert status_for(page, "127.0.0.2") == 200
    assert status_for(page, "127.0.0.3") == 200  # the oldest silent one makes room
    wait_for(lambda: all_ended(silent + begun), what="the end of the silent connections")
    assert status_for(page, "127.0.0.2") == 200


def test_silent_connections_of_many_addresses_do_not_lock_the_owner_out(page, connect):
    for number in range(3, 11):
        connect(f"127.0.0.{number}", PLACES // 4, HALF)
    assert status_for(page, "127.0.0.2") == 200


def test_what_is_no_request_is_refused_without_a_line_for_each(page, connect):
    for _ in range(PLACES):
        (one,) = connect("127.0.0.3", 1, b"no request\r\n\r\n")
        assert b"400" in one.recv(1000)
    assert status_for(page, "127.0.0.2") == 200
