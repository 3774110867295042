"""A TCP proxy on loopback that passes everything on and keeps every byte that the client sent."""

import contextlib
import socket
import threading
from dataclasses import dataclass

from tests.support.edge_process import wait_for
from tests.support.listener import Listener


@dataclass(frozen=True)
class Request:
    """One HTTP request that went through the proxy."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes


class RecordingProxy(Listener):
    """Stands in front of one server; ``sent`` grows while clients speak."""

    def __init__(self, port: int):
        self._server = port
        self._connections: list[list[bytes]] = []
        self._ended: list[list[bytes]] = []
        super().__init__()

    @property
    def sent(self) -> bytes:
        return b"".join(b"".join(chunks) for chunks in self._connections)

    @property
    def requests(self) -> list[Request]:
        """The requests that arrived whole, connection by connection; they account for every byte of ``sent``."""
        return [request for chunks in self._connections for request in requests_in(b"".join(chunks))]

    def serve(self, client: socket.socket) -> None:
        chunks: list[bytes] = []
        self._connections.append(chunks)
        try:
            with socket.create_connection(("127.0.0.1", self._server)) as server:
                answering = threading.Thread(target=_pass_on, args=(server, client, []), daemon=True)
                answering.start()
                _pass_on(client, server, chunks)
                answering.join()
        finally:
            self._ended.append(chunks)

    def close(self) -> None:
        """Take no more connections, and wait until all that clients sent by those that there were is kept."""
        super().close()
        wait_for(lambda: len(self._ended) == len(self._connections), what="the end of all connections")


def _pass_on(source: socket.socket, target: socket.socket, chunks: list[bytes]) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65_536):
            chunks.append(data)
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


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
