"""The device's way to its aggregator: straight in the own network, by the environment's proxy to anywhere else."""

import http.server
import threading

import pytest

from fleet_protocol.client.identity import Identity
from fleet_protocol.client.server_client import ServerClient, is_local

IDENTITY = Identity("1" * 32, "a secret of the tests")


class Listening:
    """An HTTP server, or an HTTP proxy, that has no work for anybody and keeps what it was asked for."""

    def __init__(self):
        asked = self.asked = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                asked.append(self.path)
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def aggregator():
    server = Listening()
    yield server
    server.close()


@pytest.fixture
def proxy(monkeypatch):
    server = Listening()
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{server.port}")
        monkeypatch.setenv(name.lower(), f"http://127.0.0.1:{server.port}")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    yield server
    server.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_an_aggregator_nearby_is_spoken_to_directly(aggregator, proxy, host):
    link = ServerClient(f"http://{host}:{aggregator.port}", IDENTITY)
    assert link.work(0.0) is None
    link.close()
    assert (aggregator.asked, proxy.asked) == (["/v1/work?wait_s=0.0"], [])


def test_an_aggregator_far_away_is_spoken_to_through_the_proxy(proxy):
    link = ServerClient("http://aggregator.example.org:8470", IDENTITY)
    assert link.work(0.0) is None
    link.close()
    assert proxy.asked == ["http://aggregator.example.org:8470/v1/work?wait_s=0.0"]


NEAR = (
    "192.168.178.20",
    "10.1.2.3",
    "169.254.7.7",
    "::1",
    "fd12::3",
    "pi",
    "Kitchen.LOCAL",
    "nas.lan",
    "nas.home.arpa",
)
FAR = ("93.184.215.14", "2606:2800:21f::1", "example.org", "local.example.org")


@pytest.mark.parametrize("host", [*NEAR, *FAR])
def test_the_own_network_is_told_by_the_address(host):
    assert is_local(host) is (host in NEAR)
