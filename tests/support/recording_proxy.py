"""A TCP proxy on loopback that passes everything on and keeps every byte that the client sent."""

import contextlib
import socket
from dataclasses import dataclass

from tests.support.fallible_address import FallibleAddress


@dataclass(frozen=True)
class Request:
    """One HTTP request that went through the proxy."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes


class RecordingProxy(FallibleAddress):
    """Stands in front of one server; ``sent`` grows while clients speak."""

    def __init__(self, port: int):
        self._connections: list[list[bytes]] = []
        super().__init__(port)

    @property
    def sent(self) -> bytes:
        return b"".join(b"".join(chunks) for chunks in self._connections)

    @property
    def requests(self) -> list[Request]:
        """The requests that arrived whole, connection by connection; they account for every byte of ``sent``."""
        return [request for chunks in self._connections for request in requests_in(b"".join(chunks))]

    def ask(self, client: socket.socket, server: socket.socket) -> None:
        chunks: list[bytes] = []
        self._connections.append(chunks)
        with contextlib.suppress(OSError):
            while data := client.recv(65_536):
                chunks.append(data)
                server.sendall(data)
            server.shutdown(socket.SHUT_WR)


def requests_in(data: bytes) -> list[Request]:
    """Split what one connection sent into its HTTP/1.1 requests; each states the length of its body."""
    found = []
    while data:
        head, separator, rest = data.partition(b"\r\n\r\n")
        assert separator, f"bytes that are no whole request: {data[:200]!r}"
        first, *lines = head.decode().split("\r\n")
        method, target, version = first.split(" ")
        assert version == "HTTP/1.1", first
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        assert "transfer-encoding" not in headers
        length = int(headers.get("content-length", 0))
        assert len(rest) >= length, f"{first}: {len(rest)} bytes of {length}"
        path, _, query = target.partition("?")
        found.append(Request(method, path, query, headers, rest[:length]))
        data = rest[length:]
    return found
