"""The owner's live pages, opened all at once: no more are let in than their bound, and each that ends makes room."""

import socket
import threading
from urllib.parse import urlsplit

import pytest

from edge_client.owner_page.streams import MAX_VIEWERS
from tests.support.edge_process import wait_for
from tests.support.owner_page import OwnerPage

AT_ONCE = 16


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


def ask(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


def let_in(crowd: Crowd) -> int:
    assert set(crowd.statuses) <= {200, 503}
    return crowd.statuses.count(200)


@pytest.fixture
def page(tmp_path):
    (tmp_path / "edge.toml").write_text('[device]\nname = "x"\nstate = "state"\n[model]\nbundle = "base"\n')
    page = OwnerPage(tmp_path / "edge.toml")
    yield page
    page.end()


def test_the_owners_page_is_live_in_so_many_windows_and_no_more(page):
    def at_once() -> int:
        crowd = Crowd(page.url, [ask("/live")] * AT_ONCE)
        crowd.leave()
        return let_in(crowd)

    assert at_once() == MAX_VIEWERS
    wait_for(lambda: at_once() == MAX_VIEWERS)
