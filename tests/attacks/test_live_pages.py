"""Live pages that are opened all at once: no more are let in than their bound, and each that ends makes room."""

import socket
import threading
from urllib.parse import urlsplit

import pytest

from aggregator_server.limits import STREAMS, STREAMS_PER_SESSION
from edge_client.owner_page.streams import MAX_VIEWERS
from tests.support.dashboard_visitor import Visitor
from tests.support.edge_process import wait_for
from tests.support.owner_page import OwnerPage

AT_ONCE = 48
# Those of a crowd before may still be closing.
AT_ONCE_BY_ONE = 16


class Crowd:
    """Connections that ask for one thing each, all at the same time, and stay open."""

    def __init__(self, url: str, requests: list[bytes]) -> None:
        parts = urlsplit(url)
        address = (parts.hostname, parts.port)
        self.open = [socket.create_connection(address, timeout=180) for _ in requests]
        everybody = threading.Barrier(len(requests))
        self.statuses = [0] * len(requests)

        def ask(number: int) -> None:
            everybody.wait()
            self.open[number].sendall(requests[number])
            self.statuses[number] = int(self.open[number].recv(12).split()[1])

        threads = [threading.Thread(target=ask, args=[number]) for number in range(len(requests))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def leave(self) -> None:
        for connection in self.open:
            connection.close()


def ask(path: str, cookie: str = "") -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\nCookie: {cookie}\r\n\r\n".encode()


def let_in(crowd: Crowd) -> int:
    assert set(crowd.statuses) <= {200, 503}
    return crowd.statuses.count(200)


def sign_in(aggregator) -> str:
    """Begin a session; return its cookie."""
    visitor = Visitor(aggregator)
    visitor.sign_in()
    cookie = f"auricle={visitor.client.cookies['auricle']}"
    visitor.close()
    return cookie


def test_a_session_gets_its_share_of_the_dashboards_live_pages_and_all_together_get_theirs(aggregator):
    cookies = [sign_in(aggregator) for _ in range(8)]
    for cookie in cookies[:2]:
        crowd = Crowd(aggregator.url, [ask("/live/now", cookie)] * AT_ONCE)
        assert let_in(crowd) == STREAMS_PER_SESSION
        crowd.leave()

    def all_at_once() -> int:
        crowd = Crowd(aggregator.url, [ask("/live/now", cookie) for cookie in cookies for _ in range(7)])
        crowd.leave()
        return let_in(crowd)

    assert all_at_once() <= STREAMS
    # The server notes that a page was closed when it looks next; all that were open or refused have left.
    wait_for(lambda: all_at_once() == STREAMS)


def test_pages_whose_browsers_are_gone_before_they_were_answered_take_no_room(aggregator):
    cookie = sign_in(aggregator)
    for _ in range(AT_ONCE):
        with aggregator.connect() as connection:
            connection.sendall(ask("/live/now", cookie))

    def free() -> bool:
        crowd = Crowd(aggregator.url, [ask("/live/now", cookie)] * STREAMS_PER_SESSION)
        crowd.leave()
        return let_in(crowd) == STREAMS_PER_SESSION

    wait_for(free)


@pytest.fixture
def page(tmp_path):
    (tmp_path / "edge.toml").write_text('[device]\nname = "x"\nstate = "state"\n[model]\nbundle = "base"\n')
    page = OwnerPage(tmp_path / "edge.toml")
    yield page
    page.end()


def test_the_owners_page_is_live_in_so_many_windows_and_no_more(page):
    def at_once() -> int:
        crowd = Crowd(page.url, [ask("/live")] * AT_ONCE_BY_ONE)
        crowd.leave()
        return let_in(crowd)

    assert at_once() == MAX_VIEWERS
    wait_for(lambda: at_once() == MAX_VIEWERS)
