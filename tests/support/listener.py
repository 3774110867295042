"""A socket on loopback with a thread for each connection: what the servers and proxies of the tests are made of."""

import contextlib
import re
import socket
import threading


class Listener:
    """Listens on a free port, from the end of ``__init__`` until it is closed; ``serve`` says what it does.

    Attributes:
        url: Where it listens.
    """

    def __init__(self, scheme: str = "http"):
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"{scheme}://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self) -> None:
        self._listener.close()

    def serve(self, client: socket.socket) -> None:
        """Serve one connection, in its own thread; an OSError ends it, and it is closed afterwards."""
        raise NotImplementedError

    @staticmethod
    def read_request(client: socket.socket) -> str:
        """Read a whole request, head and body."""
        data, length = b"", None
        while length is None or len(data) < length:
            piece = client.recv(65_536)
            if not piece:
                raise OSError("the client hung up")
            data += piece
            head, end, _ = data.partition(b"\r\n\r\n")
            if end:
                stated = re.search(rb"(?i)^content-length: *(\d+)", head, re.MULTILINE)
                length = len(head) + len(end) + (int(stated[1]) if stated else 0)
        return data.decode("latin-1")

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):  # the other side hung up
            self.serve(client)
