"""The device's way to its aggregator: straight in the own network, by the environment's proxy to anywhere else."""

import sys

import pytest

from fleet_protocol.client.identity import Identity
from fleet_protocol.client.server_client import ServerClient, is_local
from fleet_protocol.errors import LinkError
from tests.support.listener import Listener

IDENTITY = Identity("1" * 32, "a secret of the tests")


class Listening(Listener):
    """An HTTP server, or an HTTP proxy, that has no work for anybody and keeps what it was asked for."""

    def __init__(self):
        self.asked = []
        super().__init__()

    def serve(self, client):
        self.asked.append(client.recv(65_536).split()[1].decode())
        client.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")


@pytest.fixture
def aggregator():
    with Listening() as server:
        yield server


@pytest.fixture
def proxy(monkeypatch):
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    with Listening() as server:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, server.url)
            monkeypatch.setenv(name.lower(), server.url)
        yield server


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_an_aggregator_nearby_is_spoken_to_directly(aggregator, proxy, host):
    link = ServerClient(aggregator.url.replace("127.0.0.1", host), IDENTITY)
    assert link.work(0.0) is None
    link.close()
    assert (aggregator.asked, proxy.asked) == (["/v1/work?wait_s=0.0"], [])


def test_an_aggregator_far_away_is_spoken_to_through_the_proxy(proxy):
    link = ServerClient("http://aggregator.example.org:8470", IDENTITY)
    assert link.work(0.0) is None
    link.close()
    assert proxy.asked == ["http://aggregator.example.org:8470/v1/work?wait_s=0.0"]


def test_a_socks_proxy_keeps_no_device_from_an_aggregator_nearby_and_is_named_where_it_is_needed(
    aggregator, proxy, monkeypatch
):
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "socks5://127.0.0.1:9")
    monkeypatch.setitem(sys.modules, "socksio", None)
    link = ServerClient(aggregator.url, IDENTITY)
    assert link.work(0.0) is None
    link.close()
    with pytest.raises(LinkError, match=r"SOCKS proxy.*pip install socksio.*NO_PROXY"):
        ServerClient("https://aggregator.example.org:8470", IDENTITY)


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
