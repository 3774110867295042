"""An HTTP proxy on loopback, in front of one server, that treats requests as a bad network does."""

import contextlib
import http.client
import random
import socket
import threading
import time

from tests.support.listener import Listener

_PATIENCE_S = 90
_HOP_BY_HOP = {"connection", "content-length", "transfer-encoding"}
FAULTS = ("drop the request", "drop the answer", "cut the request", "cut the answer", "delay", "duplicate")


class FaultyProxy(Listener):
    """Stands in front of a server; ``server`` may be moved to another port at any time.

    Attributes:
        server: Port of the server.
        share: Share of the requests that suffer a fault.
        done: How often each fault was made.
    """

    def __init__(self, server: int, share: float, seed: int):
        self.server, self.share = server, share
        self.done = dict.fromkeys(FAULTS, 0)
        self._rng = random.Random(seed)
        self._lock = threading.Lock()
        super().__init__()

    def serve(self, client: socket.socket) -> None:
        """Pass on one request after another, until a side hangs up or a fault ends the connection."""
        with client.makefile("rb") as stream, contextlib.suppress(http.client.HTTPException):
            while head := _head(stream):
                body = stream.read(int(head[2].get("content-length", 0)))
                answer = self._pass_on(*head, body)
                if answer is None:
                    return
                client.sendall(answer[0])
                if not answer[1]:
                    return

    def _pass_on(self, method: str, target: str, headers: dict[str, str], body: bytes) -> tuple[bytes, bool] | None:
        """Return what the client gets, and whether the connection lasts; None where it gets nothing."""
        fault = self._draw()
        if fault == "drop the request":
            return None
        if fault == "cut the request":
            self._send_half(method, target, headers, body)
            return None
        if fault == "delay":
            time.sleep(0.3)
        if fault == "duplicate":
            self._ask(method, target, headers, body)
        answer = self._ask(method, target, headers, body)
        if fault == "drop the answer":
            return None
        return (answer[: len(answer) // 2], False) if fault == "cut the answer" else (answer, True)

    def _draw(self) -> str:
        with self._lock:
            if self._rng.random() >= self.share:
                return ""
            fault = self._rng.choice(FAULTS)
            self.done[fault] += 1
            return fault

    def _ask(self, method: str, target: str, headers: dict[str, str], body: bytes) -> bytes:
        """Ask the server; return its answer as bytes."""
        connection = http.client.HTTPConnection("127.0.0.1", self.server, timeout=_PATIENCE_S)
        with contextlib.closing(connection):
            connection.request(method, target, body, headers)
            answer = connection.getresponse()
            content = answer.read()
            kept = [(name, value) for name, value in answer.getheaders() if name.lower() not in _HOP_BY_HOP]
            lines = [f"HTTP/1.1 {answer.status} {answer.reason}"] + [f"{name}: {value}" for name, value in kept]
            if answer.status != 204:
                lines.append(f"Content-Length: {len(content)}")
            return ("\r\n".join(lines) + "\r\n\r\n").encode() + content

    def _send_half(self, method: str, target: str, headers: dict[str, str], body: bytes) -> None:
        lines = [f"{method} {target} HTTP/1.1"] + [f"{name}: {value}" for name, value in headers.items()]
        data = ("\r\n".join(lines) + "\r\n\r\n").encode() + body
        with socket.create_connection(("127.0.0.1", self.server), _PATIENCE_S) as server:
            server.sendall(data[: len(data) // 2])


def _head(stream) -> tuple[str, str, dict[str, str]] | None:
    """Read a request's first line and headers; None at the end."""
    first = stream.readline().decode()
    if not first:
        return None
    method, target, _ = first.split()
    headers = {}
    while line := stream.readline().decode().strip():
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    return method, target, headers
