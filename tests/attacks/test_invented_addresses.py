"""Whoever guesses tokens must not choose the address that is noted, nor fill the audit, which stays."""

import time

import pytest

from aggregator_server.web.refused_requests import RefusedRequests
from tests.support.aggregator_process import Aggregator, read_answer
from tests.support.commands import command

GUESSES = 100
OF_ADDRESS, IN_ALL = 20, 60  # of the server's limits; the second is smaller here than it is


def guess(server: Aggregator, headers: dict[str, str], address: str = "127.0.0.1") -> int:
    """Ask with a wrong token, from an address of this machine; return the status."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    with server.connect(address) as connection:
        head = f"GET /v1/rounds HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer a-guess\r\n{lines}\r\n"
        connection.sendall(head.encode("latin-1"))
        return read_answer(connection)[0]


def forwarded(number: int) -> dict[str, str]:
    return {"X-Forwarded-For": f"198.51.{number // 250}.{number % 250 + 1}", "X-Forwarded-Proto": "https"}


def audit(server: Aggregator, what: str = "authentication_failed") -> list[dict]:
    with server.client() as admin:
        return admin.get("/v1/audit", params={"what": what, "limit": 1000}).json()


def test_a_client_that_is_no_proxy_cannot_invent_addresses(start_aggregator):
    server = start_aggregator()
    assert [guess(server, forwarded(number)) for number in range(GUESSES)] == [401] * GUESSES
    assert {entry["address"] for entry in audit(server)} == {"127.0.0.1"}
    assert len(audit(server)) == OF_ADDRESS


def test_only_the_proxy_that_was_named_is_believed(start_aggregator):
    server = start_aggregator("server", "--behind-proxy", "127.0.0.2", "--behind-proxy", "127.9.0.0/16")
    assert guess(server, forwarded(1), "127.0.0.2") == 401
    assert guess(server, forwarded(2), "127.9.8.7") == 401
    assert guess(server, forwarded(3), "127.0.0.3") == 401
    # Behind two proxies, and a client that wrote the first address itself.
    assert guess(server, {"X-Forwarded-For": "192.0.2.1, 198.51.0.99, 127.9.0.1"}, "127.0.0.2") == 401
    assert [entry["address"] for entry in audit(server)] == ["198.51.0.99", "127.0.0.3", "198.51.0.3", "198.51.0.2"]


def test_a_proxy_is_known_to_a_server_that_listens_for_both_kinds_of_addresses(start_aggregator):
    try:
        server = start_aggregator("server", "--host", "::", "--insecure-http", "--behind-proxy", "127.0.0.1")
    except AssertionError as error:
        if "Address family not supported" in str(error) or "Cannot assign" in str(error):
            pytest.skip("this system has no IPv6")
        raise
    server.url = server.url.replace("[::]", "127.0.0.1")
    assert guess(server, forwarded(1)) == 401
    assert [entry["address"] for entry in audit(server)] == ["198.51.0.2"]


def test_what_a_proxy_passes_on_that_is_no_address_is_not_noted(start_aggregator):
    server = start_aggregator("server", "--behind-proxy", "127.0.0.1")
    for written in ("unknown", "x" * 8_000, "fe80::1%" + "x" * 8_000, "", "<b>", "\x01\xff"):
        assert guess(server, {"X-Forwarded-For": written}) == 401
        assert audit(server)[0]["address"] in (None, "127.0.0.1", "fe80::1")


def test_guesses_from_many_addresses_leave_few_entries(start_aggregator):
    """From a proxy that is believed, each guess from another address: as a botnet, or a network of IPv6, would."""
    server = start_aggregator("server", "--behind-proxy", "127.0.0.1", REFUSALS_NOTED=IN_ALL)
    assert [guess(server, forwarded(number)) for number in range(GUESSES)] == [401] * GUESSES
    assert len(audit(server)) == IN_ALL


def test_each_hour_has_entries_of_its_own(monkeypatch):
    refused, now = RefusedRequests(None), [7.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    assert [refused.may_note("192.0.2.1") for _ in range(OF_ADDRESS + 1)] == [True] * OF_ADDRESS + [False]
    assert refused.may_note("192.0.2.2")
    now[0] += 3_600.0
    assert refused.may_note("192.0.2.1")


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("0.0.0.0/0", "is every address"),
        ("::/0", "is every address"),
        ("proxy.example", "name the proxy's address"),
        ("*", "name the proxy's address"),
        ("10.0.0.5/8", "host bits set"),
    ],
)
def test_a_proxy_is_an_address_or_a_network_and_not_everybody(tmp_path, named, said):
    refused = command("run", "--data", tmp_path / "server", "--behind-proxy", named)
    assert (refused.returncode, said in refused.stderr) == (2, True)
    assert not (tmp_path / "server").exists()
