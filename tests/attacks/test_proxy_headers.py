"""PROXY headers: believed from the proxies that were named, and read within bounds, whatever is sent in their place."""

import contextlib
import random
import select
import socket
import ssl
import struct

import pytest

from aggregator_server.errors import ProxyHeaderError
from aggregator_server.web.transport.proxy_protocol import read_v1, read_v2
from tests.support.aggregator_process import Aggregator, read_answer

PROXY, STRANGER = "127.0.0.2", "127.0.0.3"
SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
GUESS = b"GET /v1/rounds HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer a-guess\r\n"
V1 = b"PROXY TCP4 198.51.100.7 192.0.2.1 50000 8470\r\n"
_OPTIONS = ("--behind-proxy", PROXY, "--proxy-protocol")


def v2(family, *addresses, command=0x21, more=b""):
    body = b"".join(socket.inet_pton(family, address) for address in addresses) + struct.pack("!HH", 50_000, 8470)
    kind = {socket.AF_INET: 0x11, socket.AF_INET6: 0x21}[family]
    return SIGNATURE + struct.pack("!BBH", command, kind, len(body + more)) + body + more


V2 = v2(socket.AF_INET, "198.51.100.8", "192.0.2.1")
V2_6 = v2(socket.AF_INET6, "2001:db8::7", "2001:db8::1", more=b"\x04\x00\x10" + b"x" * 16)
LOCAL = SIGNATURE + struct.pack("!BBH", 0x20, 0, 0)
UNIX = SIGNATURE + struct.pack("!BBH", 0x21, 0x31, 216) + b"\0" * 216


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Aggregator(tmp_path_factory.mktemp("server"), *_OPTIONS, PROXY_HEADER_S=3.0).start() as process:
        yield process


def status(server, sent, source=PROXY):
    """Send bytes and then nothing; return the answer's status, None where the server hangs up without one."""
    with server.connect(source) as connection:
        connection.sendall(sent)
        try:
            return read_answer(connection)[0]
        except (AssertionError, OSError, ValueError, IndexError):
            return None


def noted(server):
    with server.client() as admin:
        return admin.get("/v1/audit", params={"limit": 1}).json()[0]["address"]


@pytest.mark.parametrize(
    ("header", "address"),
    [
        (V1, "198.51.100.7"),
        (b"PROXY TCP6 2001:db8::6 2001:db8::1 50000 8470\r\n", "2001:db8::6"),
        (b"PROXY UNKNOWN\r\n", PROXY),
        (b"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n", PROXY),
        (V2, "198.51.100.8"),
        (V2_6, "2001:db8::7"),
        (LOCAL, PROXY),
        (UNIX, PROXY),
    ],
)
def test_a_named_proxys_header_says_who_the_client_is_and_nothing_else_does(server, header, address):
    """The request comes in the same packet, and claims another address."""
    assert status(server, header + GUESS + b"X-Forwarded-For: 203.0.113.9\r\n\r\n") == 401
    assert noted(server) == address


@pytest.mark.parametrize("header", [V1, V2])
def test_nobody_elses_header_is_believed(server, header):
    assert status(server, header + GUESS + b"\r\n", STRANGER) in (None, 400)
    assert status(server, GUESS + b"X-Forwarded-For: 203.0.113.9\r\n\r\n", STRANGER) == 401
    assert noted(server) == STRANGER


BAD = {
    "none": GUESS + b"\r\n",
    "a long line": b"PROXY TCP4 " + b"1" * 200 + b"\r\n" + GUESS + b"\r\n",
    "a line without end": b"PROXY " + b"x" * 100_000,
    "no addresses": b"PROXY TCP4 a b 1 2\r\n" + GUESS + b"\r\n",
    "an address of the other kind": b"PROXY TCP4 ::1 ::2 1 2\r\n" + GUESS + b"\r\n",
    "no port": b"PROXY TCP4 192.0.2.1 192.0.2.2 1 65536\r\n" + GUESS + b"\r\n",
    "too few words": b"PROXY TCP4\r\n" + GUESS + b"\r\n",
    "no ASCII": b"PROXY TCP4 \xff\xfe 192.0.2.2 1 2\r\n" + GUESS + b"\r\n",
    "64 KiB": SIGNATURE + struct.pack("!BBH", 0x21, 0x11, 65_535) + b"x" * 65_535,
    "too short for its addresses": SIGNATURE + struct.pack("!BBH", 0x21, 0x11, 8) + b"x" * 8 + GUESS + b"\r\n",
    "another version": SIGNATURE + struct.pack("!BBH", 0x31, 0x11, 12) + b"x" * 12 + GUESS + b"\r\n",
    "another command": SIGNATURE + struct.pack("!BBH", 0x22, 0x11, 12) + b"x" * 12 + GUESS + b"\r\n",
    "garbage": bytes(range(256)) * 10,
    "nothing": b"",
    "half a signature": SIGNATURE[:6],
    "half a header": V2[:20],
    "half a line": V1[:20],
}


def test_a_header_that_does_not_come_in_time_ends_the_connection(server):
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(server.connect(PROXY)) for _ in range(4)]
        for connection, what in zip(
            connections, ("nothing", "half a signature", "half a header", "half a line"), strict=True
        ):
            connection.sendall(BAD[what])
        assert [connection.recv(1) for connection in connections] == [b""] * 4


def test_what_is_no_header_ends_the_connection_and_the_server_goes_on(server):
    for what in BAD:
        if not what.startswith(("half", "nothing")):
            assert status(server, BAD[what]) is None, what
    assert status(server, V2 + b"GET /v1/health HTTP/1.1\r\nHost: a\r\n\r\n") == 200
    assert 1 <= server.log().count("no PROXY header from 127.0.0.2") <= 3
    assert "Traceback" not in server.log()


def test_no_bytes_make_the_reader_fail_in_another_way():
    rng = random.Random(7)
    for family in range(256):
        for size in range(0, 40, 3):
            for command in (0x20, 0x21, 0xFF):
                with contextlib.suppress(ProxyHeaderError):
                    read_v2(command, family, rng.randbytes(size))
    words = ["PROXY", "TCP4", "TCP6", "UNKNOWN", "1.2.3.4", "::1", "fe80::1%x", "\xb2", "65535", "-1", "9" * 90, ""]
    for _ in range(20_000):
        line = " ".join(rng.choices(words, k=rng.randint(1, 7))).encode("latin-1")
        with contextlib.suppress(ProxyHeaderError):
            assert read_v1(line) in (None, "1.2.3.4", "::1", "fe80::1%x")


def test_tls_that_is_passed_through_has_the_clients_own_addresses(tmp_path):
    """Handshakes are counted by client: the proxy has more of them than one address may have."""
    with Aggregator(tmp_path / "server", "--tls", "auto", *_OPTIONS, HANDSHAKES=64).start() as server:
        port = int(server.url.rpartition(":")[2])
        context = ssl.create_default_context(cafile=server.data / "tls" / "authority.pem")
        begun = []
        for number in range(50):  # of two clients; one address may have 32
            begun.append(socket.create_connection(("127.0.0.1", port), 60, (PROXY, 0)))
            begun[-1].sendall((V1 if number % 2 else V2) + b"\x16\x03\x01\x02")
        with socket.create_connection(("127.0.0.1", port), 60, (PROXY, 0)) as connection:
            connection.sendall(V2_6)
            with context.wrap_socket(connection, server_hostname="127.0.0.1") as private:
                private.sendall(GUESS + b"\r\n")
                assert read_answer(private)[0] == 401
        assert select.select(begun, [], [], 0)[0] == []  # none was closed
        for connection in begun:
            connection.close()
        assert noted(server) == "2001:db8::7"


def test_proxy_headers_need_a_proxy_that_is_named(tmp_path, capsys):
    from aggregator_server.cli import main

    assert main(["run", "--create", "--data", str(tmp_path / "server"), "--proxy-protocol"]) == 1
    assert "--proxy-protocol needs --behind-proxy" in capsys.readouterr().err
    assert not (tmp_path / "server").exists()
