"""The header by which a load balancer that passes TLS through says who its client is: PROXY protocol, version 1 and 2.

https://www.haproxy.org/download/2.9/doc/proxy-protocol.txt ("The PROXY protocol, versions 1 & 2", 2020). It comes
before anything else, from proxies that were named alone; the length of what is read is known or bounded before.
"""

import asyncio
import ipaddress
import logging
import socket
import struct
import time

from aggregator_server import limits
from aggregator_server.errors import ProxyHeaderError

ProxyNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network

_log = logging.getLogger(__name__)

_SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
_V1 = b"PROXY "
_V1_LONGEST = 107  # with its end of line
_V1_ADDRESSES = {"TCP4": ipaddress.IPv4Address, "TCP6": ipaddress.IPv6Address}
_LOCAL, _PROXY = 0x20, 0x21
# Of each family and transport: how an address of it is written, and its bytes. Those that are not here have none.
_V2_ADDRESSES = {0x11: (ipaddress.IPv4Address, 4), 0x21: (ipaddress.IPv6Address, 16)}
# What a header of that kind holds at least: two addresses and two ports.
_PORTS_BYTES = 4


def read_v1(line: bytes) -> str | None:
    """Return the client's address that a line of version 1, without its end, names; None where it names none.

    Raises:
        ProxyHeaderError: it is no such line.
    """
    try:
        words = line.decode("ascii").split(" ")
    except UnicodeDecodeError as error:
        raise ProxyHeaderError(f"no line of version 1: {line!r}") from error
    if words[:2] == ["PROXY", "UNKNOWN"]:
        return None
    kind = _V1_ADDRESSES.get(words[1]) if len(words) == 6 and words[0] == "PROXY" else None
    try:
        if kind is None:
            raise ValueError("not six words with TCP4 or TCP6")
        source, _ = kind(words[2]), kind(words[3])
        if not all(port.isdecimal() and int(port[:6]) < 2**16 for port in words[4:]):
            raise ValueError("a port is none")
    except ValueError as error:
        raise ProxyHeaderError(f"no line of version 1 ({error}): {line!r}") from error
    return str(source)


def read_v2(command: int, family: int, body: bytes) -> str | None:
    """Return the client's address that a header of version 2 names; None where it names none.

    Args:
        command: its 13th byte: version and command.
        family: its 14th byte: family of addresses, and transport.
        body: what follows the length.

    Raises:
        ProxyHeaderError: it is no such header.
    """
    if command == _LOCAL:  # the proxy speaks for itself, as for a health check
        return None
    if command != _PROXY:
        raise ProxyHeaderError(f"a header of version 2 with the unknown version and command {command:#04x}")
    if family not in _V2_ADDRESSES:
        return None
    kind, size = _V2_ADDRESSES[family]
    if len(body) < 2 * size + _PORTS_BYTES:
        raise ProxyHeaderError(f"a header of version 2 with {len(body)} bytes of addresses")
    return str(kind(body[:size]))


class ProxyHeaders:
    """Reads the headers of connections from proxies that were named. It belongs to one event loop."""

    def __init__(self, proxies: tuple[ProxyNetwork, ...], at_once: int) -> None:
        """Make one.

        Args:
            proxies: whose connections begin with a header, every one of them.
            at_once: number of connections whose header may be unread at a time.
        """
        self._proxies = proxies
        self._most = at_once
        self._reading = 0
        self._said = float("-inf")

    def expected_from(self, peer: str) -> bool:
        """Tell whether a connection from an address begins with a header."""
        try:
            address = ipaddress.ip_address(peer.partition("%")[0])
        except ValueError:
            return False
        if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        return any(address in network for network in self._proxies)

    async def read(self, connection: socket.socket, peer: str) -> str:
        """Read a header, and nothing behind it; return the client's address, which is the proxy's where it names none.

        Raises:
            ProxyHeaderError: what came is no header, or it did not come in time.
        """
        if self._reading >= self._most:
            raise ProxyHeaderError(f"{self._reading} connections have not sent theirs yet")
        self._reading += 1
        try:
            return await asyncio.wait_for(_read(connection), limits.PROXY_HEADER_S) or peer
        except TimeoutError as error:
            raise ProxyHeaderError(f"none came in {limits.PROXY_HEADER_S:g} s") from error
        except OSError as error:
            raise ProxyHeaderError(f"the connection broke off: {error}") from error
        finally:
            self._reading -= 1

    def note(self, peer: str, error: ProxyHeaderError) -> None:
        """Log, once a minute at most, that a proxy's connection was dropped."""
        now = time.monotonic()
        if now - self._said >= limits.PROXY_SAID_S:
            self._said = now
            _log.warning("no PROXY header from %s: %s. Does it send one (send-proxy-v2)?", peer, error)


async def _read(connection: socket.socket) -> str | None:
    # The shortest header of either version is longer than the signature.
    begin = await _receive(connection, len(_SIGNATURE))
    if begin == _SIGNATURE:
        command, family, length = struct.unpack("!BBH", await _receive(connection, 4))
        if length > limits.PROXY_HEADER_BYTES:
            raise ProxyHeaderError(f"{length} bytes long; at most {limits.PROXY_HEADER_BYTES} are taken")
        return read_v2(command, family, await _receive(connection, length))
    if not begin.startswith(_V1):
        raise ProxyHeaderError(f"it begins with {begin!r}")
    line = bytearray(begin)
    while not line.endswith(b"\r\n"):
        if len(line) >= _V1_LONGEST:
            raise ProxyHeaderError(f"a line of version 1 with more than {_V1_LONGEST} bytes")
        line += await _receive(connection, 1)  # what follows the line belongs to the client
    return read_v1(bytes(line[:-2]))


async def _receive(connection: socket.socket, size: int) -> bytes:
    """Receive exactly so many bytes. Raises ProxyHeaderError: there are fewer."""
    loop, data = asyncio.get_running_loop(), b""
    while len(data) < size:
        piece = await loop.sock_recv(connection, size - len(data))
        if not piece:
            raise ProxyHeaderError(f"it ends after {len(data)} bytes: {data!r}")
        data += piece
    return data
