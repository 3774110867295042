"""One of several addresses of a server: a TCP proxy on loopback that can be gone, in the middle of a request too."""

import contextlib
import socket
import threading

from tests.support.listener import Listener


class FallibleAddress(Listener):
    """Passes everything on to a server until it is killed; ``revive`` has it listen on the same port again.

    Attributes:
        cut_after: Bytes of one connection's requests after which the address is gone; None: never.
        drop_answers: Whether it is gone as soon as the server answers, of which the client gets nothing.
        served: Number of connections so far.
    """

    def __init__(self, port: int, scheme: str = "http"):
        self._server = port
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self.cut_after, self.drop_answers, self.served = None, False, 0
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
        self.cut_after, self.drop_answers = None, False
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
            self._ask(client, server)
            answering.join()
            with self._lock:
                self._open -= {client, server}

    def _ask(self, client: socket.socket, server: socket.socket) -> None:
        passed = 0
        with contextlib.suppress(OSError):
            while data := client.recv(65_536):
                if self.cut_after is not None and passed + len(data) > self.cut_after:
                    server.sendall(data[: max(0, self.cut_after - passed)])
                    self.kill()
                passed += len(data)
                server.sendall(data)
            server.shutdown(socket.SHUT_WR)

    def _answer(self, server: socket.socket, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(65_536):
                if self.drop_answers:
                    self.kill()
                client.sendall(data)
            client.shutdown(socket.SHUT_WR)
