"""A TLS server with an authority of its own, whose certificate and answers are what a test wants."""

import socket
import ssl
from datetime import UTC, datetime
from pathlib import Path

from aggregator_server import certificates, tls
from tests.support.listener import Listener


class TlsServer(Listener):
    """``received`` is every byte that a client sent over TLS, ``asked`` the requests' lines."""

    def __init__(self, folder: Path, made: datetime | None = None, names: list[str] | None = None):
        made = datetime.now(UTC) if made is None else made
        certificate = tls.automatic(folder, [], made)
        self.authority = str(certificate.authority)
        if names is not None:  # not those of this machine
            key, authority = certificates.read(folder / "tls" / "authority.pem")
            certificates.make_certificate(certificate.file, key, authority, names, made)
        self.received, self.asked = "", []
        self._answers: dict[str, bytes] = {}
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._context.load_cert_chain(certificate.file)
        super().__init__("https")

    def answer(self, path: str, body: bytes) -> None:
        self._answers[path] = body

    def serve(self, client: socket.socket) -> None:
        with self._context.wrap_socket(client, server_side=True) as stream:  # fails where it is not trusted
            request = self.read_request(stream)
            self.received += request
            method, path, _ = request.split(" ", 2)
            self.asked.append(f"{method} {path}")
            body = self._answers.get(path, b"")
            status = "200 OK" if path in self._answers else "404 Not Found"
            head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            stream.sendall(head.encode() + body)
