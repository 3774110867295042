"""An HTTP server that answers whatever a test says, byte by byte if need be, on a real socket."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable

# Writes an answer to a request, given the request's first line.
Answer = Callable[[socket.socket, str], None]
MB = 1 << 20


class HostileServer:
    """Listens on a free port; ``answer`` may be replaced at any time; ``asked`` has every request's first line."""

    def __init__(self, answer: Answer):
        self.answer = answer
        self.asked: list[str] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):  # the client hung up, as it should
            request = _request(connection)
            self.asked.append(request.split("\r\n", 1)[0])
            self.answer(connection, self.asked[-1])


def _request(connection: socket.socket) -> str:
    """Read a whole request; return its head."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65_536)
        if not piece:
            raise OSError("the client said nothing")
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    lengths = [int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")]
    left = (lengths or [0])[0] - len(body)
    while left > 0:
        left -= len(connection.recv(65_536))
    return head.decode()


def whole(body: bytes, status: str = "200 OK", headers: str = "") -> Answer:
    """Answer a body."""
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n{headers}\r\n"
    return lambda connection, _: connection.sendall(head.encode() + body)


def endless(size: int, *, announced: bool, status: str = "200 OK", filler: bytes = b" ") -> Answer:
    """Answer so many bytes, in pieces of a megabyte."""

    def answer(connection: socket.socket, _: str) -> None:
        length = f"Content-Length: {size}" if announced else "Transfer-Encoding: chunked"
        connection.sendall(f"HTTP/1.1 {status}\r\n{length}\r\n\r\n".encode())
        for _ in range(size // MB):
            connection.sendall(filler * MB if announced else b"%x\r\n%s\r\n" % (MB, filler * MB))

    return answer


def dribble(start: bytes, each: bytes, every_s: float) -> Answer:
    """Answer a beginning at once, and then a few bytes now and then, for ever."""

    def answer(connection: socket.socket, _: str) -> None:
        connection.sendall(start)
        while True:
            time.sleep(every_s)
            connection.sendall(each)

    return answer
