"""Ask for the server's health and for what an administrator asks, until standard input ends; print the latencies.

usage: python -m benchmarks.load.probe URL, with the administrator's token in AURICLE_ADMIN_TOKEN

A process of its own, so that it does not measure how busy the devices are. Prints one JSON object: seconds of every
request by kind, and the number of errors.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from urllib.parse import urlsplit


class Connection:
    """A connection that is opened with the first request and kept; it counts the bytes of requests and answers."""

    def __init__(self, url: str, token: str = "") -> None:
        self.token = token
        self.sent = self.received = 0
        self._address = urlsplit(url)
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def request(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        """Send a request and return (status, body of the answer). Raises OSError, EOFError: the connection broke."""
        if self._streams is None:
            host, port = self._address.hostname, self._address.port
            self._streams = await asyncio.open_connection(host, port)
        reader, writer = self._streams
        kind = "application/json" if body.startswith(b"{") else "application/octet-stream"
        head = f"{method} {path} HTTP/1.1\r\nHost: load\r\n"
        if self.token:
            head += f"Authorization: Bearer {self.token}\r\n"
        if body:
            head += f"Content-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
        writer.write(f"{head}\r\n".encode() + body)
        await writer.drain()
        answered = await reader.readuntil(b"\r\n\r\n")
        lines = answered.lower().split(b"\r\n")
        length = next((int(line.partition(b":")[2]) for line in lines if line.startswith(b"content-length:")), 0)
        self.sent += len(head) + 2 + len(body)
        self.received += len(answered) + length
        return int(lines[0].split()[1]), await reader.readexactly(length)

    def close(self) -> None:
        """Close the connection."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


_HEALTH_EVERY_S, _ADMIN_EVERY_S = 0.05, 0.2
_ADMIN_PATHS = ("/v1/rounds?limit=10", "/v1/classes", "/v1/public-set")


class Latencies:
    """What was measured."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {"health": [], "admin": []}
        self.errors = 0

    async def ask(self, kind: str, connection: Connection, path: str) -> None:
        """Send one request."""
        begun = time.perf_counter()
        try:
            status, _ = await connection.request("GET", path)
        except (OSError, EOFError):
            connection.close()
            status = 0
        self.seconds[kind].append(time.perf_counter() - begun)
        self.errors += status != 200


async def probe(url: str, token: str) -> Latencies:
    """Ask until standard input ends."""
    found, ended = Latencies(), asyncio.Event()

    async def repeat(kind: str, paths: tuple[str, ...], every_s: float) -> None:
        connection, number = Connection(url, token if kind == "admin" else ""), 0
        while not ended.is_set():
            await found.ask(kind, connection, paths[number % len(paths)])
            number += 1
            await asyncio.sleep(every_s)
        connection.close()

    repeating = (repeat("health", ("/v1/health",), _HEALTH_EVERY_S), repeat("admin", _ADMIN_PATHS, _ADMIN_EVERY_S))
    tasks = [asyncio.create_task(task) for task in repeating]
    await asyncio.to_thread(sys.stdin.read)
    ended.set()
    await asyncio.gather(*tasks)
    return found


def main() -> None:
    """Probe, and print what was found."""
    found = asyncio.run(probe(sys.argv[1], os.environ["AURICLE_ADMIN_TOKEN"]))
    print(json.dumps({**found.seconds, "errors": found.errors}))


if __name__ == "__main__":
    main()
