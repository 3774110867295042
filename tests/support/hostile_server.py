"""An HTTP server that answers whatever a test says, byte by byte if need be, on a real socket."""

import socket
import time
from collections.abc import Callable

from tests.support.listener import Listener

# Writes an answer to a request, given the request's first line.
Answer = Callable[[socket.socket, str], None]
MB = 1 << 20


class HostileServer(Listener):
    """``answer`` may be replaced at any time; ``asked`` has every request's first line."""

    def __init__(self, answer: Answer):
        self.answer = answer
        self.asked: list[str] = []
        super().__init__()

    def serve(self, client: socket.socket) -> None:
        request = self.read_request(client)
        self.asked.append(request.split("\r\n", 1)[0])
        self.answer(client, self.asked[-1])


def whole(body: bytes, status: str = "200 OK", headers: str = "") -> Answer:
    """Answer a body."""
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n{headers}\r\n"
    return lambda connection, _: connection.sendall(head.encode() + body)


def endless(size: int, *, announced: bool, status: str = "200 OK") -> Answer:
    """Answer so many bytes, in pieces of a megabyte."""

    def answer(connection: socket.socket, _: str) -> None:
        length = f"Content-Length: {size}" if announced else "Transfer-Encoding: chunked"
        connection.sendall(f"HTTP/1.1 {status}\r\n{length}\r\n\r\n".encode())
        for _ in range(size // MB):
            connection.sendall(b" " * MB if announced else b"%x\r\n%s\r\n" % (MB, b" " * MB))

    return answer


def dribble(start: bytes, each: bytes, every_s: float) -> Answer:
    """Answer a beginning at once, and then a few bytes now and then, for ever."""

    def answer(connection: socket.socket, _: str) -> None:
        connection.sendall(start)
        while True:
            time.sleep(every_s)
            connection.sendall(each)

    return answer
