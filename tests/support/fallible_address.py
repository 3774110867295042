"""One of several addresses of a server: a TCP proxy on loopback that can be gone, in the middle of a request too."""

import contextlib
import socket
import threading

from tests.support.listener import Listener


class FallibleAddress(Listener):
    """Passes everything on to a server until it is killed; ``revive`` has it listen on the same port again.

    Attributes:
        cut_body_of: What stands in the head of a request in the middle of whose body the address is gone; None: never.
        drop_answers: Whether it is gone as soon as the server answers, of which the client gets nothing.
        served: Number of connections so far.
    """

    def __init__(self, port: int, scheme: str = "http"):
        self._server = port
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self.cut_body_of, self.drop_answers, self.served = None, False, 0
        super().__init__(scheme)

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def kill(self) -> None:
        """Refuse every connection from now on, and reset the open ones."""
        with contextlib.suppress(OSError):  # dead already
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def revive(self) -> None:
        self.cut_body_of, self.drop_answers = None, False
        self._listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, daemon=True).start()

    close = kill

    def serve(self, client: socket.socket) -> None:
        with socket.create_connection(("127.0.0.1", self._server)) as server:
            with self._lock:
                self.served += 1
                self._open |= {client, server}
            answering = threading.Thread(target=self._answer, args=(server, client), daemon=True)
            answering.start()
            self.ask(client, server)
            answering.join()
            with self._lock:
                self._open -= {client, server}

    def ask(self, client: socket.socket, server: socket.socket) -> None:
        """Pass on what a client sends."""
        found = False
        with contextlib.suppress(OSError):
            while data := client.recv(65_536):
                body = data if found else b""
                if self.cut_body_of is not None and self.cut_body_of in data:
                    found, body = True, data.partition(b"\r\n\r\n")[2]
                if body:
                    server.sendall(data[: len(data) - len(body) // 2])
                    self.kill()
                server.sendall(data)
            server.shutdown(socket.SHUT_WR)

    def _answer(self, server: socket.socket, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(65_536):
                if self.drop_answers:
                    self.kill()
                client.sendall(data)
            client.shutdown(socket.SHUT_WR)
