"""The owner's live pages, opened all at once: no more are let in than their bound, and each that ends makes room."""

import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pytest

from edge_client.owner_page.streams import MAX_VIEWERS
from tests.support.edge_process import wait_for
from tests.support.owner_page import OwnerPage

AT_ONCE = 16


def let_in(url: str) -> int:
    """Ask for the live page by many connections at the same time; return how many of them are let in."""
    parts, everybody = urlsplit(url), threading.Barrier(AT_ONCE)

    def ask(_: int) -> int:
        with socket.create_connection((parts.hostname, parts.port), timeout=180) as connection:
            everybody.wait()
            connection.sendall(b"GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n")
            status = int(connection.recv(12).split()[1])
            everybody.wait()  # they stay until all were answered
        return status

    with ThreadPoolExecutor(AT_ONCE) as threads:
        statuses = list(threads.map(ask, range(AT_ONCE)))
    assert set(statuses) <= {200, 503}
    return statuses.count(200)


@pytest.fixture
def page(tmp_path):
    (tmp_path / "edge.toml").write_text('[device]\nname = "x"\nstate = "state"\n[model]\nbundle = "base"\n')
    page = OwnerPage(tmp_path / "edge.toml")
    yield page
    page.end()


def test_the_owners_page_is_live_in_so_many_windows_and_no_more(page):
    assert let_in(page.url) == MAX_VIEWERS
    wait_for(lambda: let_in(page.url) == MAX_VIEWERS)
