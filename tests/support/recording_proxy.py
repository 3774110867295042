"""A TCP proxy on loopback that passes everything on and keeps every byte that the client sent."""

import socket
import threading


class RecordingProxy:
    """Listens on a free port, in front of one server; ``sent`` grows while clients speak."""

    def __init__(self, host: str, port: int):
        self._server = (host, port)
        self._chunks: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def sent(self) -> bytes:
        return b"".join(self._chunks)

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # closed
            server = socket.create_connection(self._server)
            threading.Thread(target=self._pass_on, args=(client, server, self._chunks), daemon=True).start()
            threading.Thread(target=self._pass_on, args=(server, client, None), daemon=True).start()

    @staticmethod
    def _pass_on(source: socket.socket, target: socket.socket, keep: list[bytes] | None) -> None:
        try:
            while data := source.recv(65_536):
                if keep is not None:
                    keep.append(data)
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            source.close()
            target.close()
