"""The owner's live pages, opened all at once: no more are let in than their bound, and each that ends makes room."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from edge_client.owner_page.streams import MAX_VIEWERS
from tests.support.edge_process import EdgeDaemon, wait_for
from tests.support.owner_page import OwnerPage

AT_ONCE = 16


def let_in(page: OwnerPage) -> int:
    """Ask for the live page by many connections at the same time; return how many of them are let in."""
    everybody = threading.Barrier(AT_ONCE)

    def ask(_: int) -> int:
        with page.connect() as connection:
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
    page = OwnerPage(EdgeDaemon(tmp_path, "base", "").config)
    yield page
    page.end()


def test_the_owners_page_is_live_in_so_many_windows_and_no_more(page):
    assert let_in(page) == MAX_VIEWERS
    wait_for(lambda: let_in(page) == MAX_VIEWERS)
