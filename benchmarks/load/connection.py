"""HTTP/1.1 on one connection, in a few lines: a client of thousands must cost less than the server that it measures."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit


class Connection:
    """A connection that is opened with the first request and kept.

    Attributes:
        token: Bearer token of every request.
    """

    def __init__(self, url: str, token: str = "") -> None:
        self.token = token
        self._address = urlsplit(url)
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def request(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        """Send a request and return (status, body of the answer).

        Raises:
            OSError, EOFError: the connection broke.
        """
        if self._streams is None:
            host, port = self._address.hostname, self._address.port
            self._streams = await asyncio.open_connection(host, port)
        reader, writer = self._streams
        kind = "application/octet-stream" if method == "PUT" else "application/json"
        head = f"{method} {path} HTTP/1.1\r\nHost: load\r\n"
        if self.token:
            head += f"Authorization: Bearer {self.token}\r\n"
        if body:
            head += f"Content-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
        writer.write(f"{head}\r\n".encode() + body)
        await writer.drain()
        lines = (await reader.readuntil(b"\r\n\r\n")).lower().split(b"\r\n")
        length = next((int(line.partition(b":")[2]) for line in lines if line.startswith(b"content-length:")), 0)
        return int(lines[0].split()[1]), await reader.readexactly(length)

    def close(self) -> None:
        """Close the connection."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None
