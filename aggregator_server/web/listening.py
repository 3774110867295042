"""Where the server listens, and how it speaks: plain HTTP, or TLS by one of two kinds of certificate."""

import ipaddress
import logging
import socket
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from aggregator_server import tls
from aggregator_server.errors import InvalidRequestError, StartError
from aggregator_server.limits import RECEIVED_BYTES
from aggregator_server.server_address import note_address, reachable_host, require_address
from fleet_protocol.ground.addresses import is_loopback

_Tls = Literal["off", "auto", "proxy"]
ProxyNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network
_PROXY_PORT = 8470  # of the proxy in front, as systemd/nginx.conf has it

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Listening:
    """Where the server listens, and how it speaks."""

    host: str = "127.0.0.1"
    port: int = 8470
    # The fleet's servers as devices reach them; none: by the address that it listens on. Their hosts stand in the
    # certificate that the server makes.
    urls: tuple[str, ...] = ()
    # ``auto``: it has a certificate by an authority of its own; ``proxy``: that one is for the proxy in front,
    # which ends TLS, and this server speaks plain HTTP to it.
    tls_mode: _Tls = "off"
    tls_cert: Path | None = None  # file of a certificate from elsewhere
    tls_key: Path | None = None
    insecure_http: bool = False  # whether it may speak plain HTTP where others can read the network

    def certificate(self, data: Path) -> tls.Certificate | None:
        """Return what to speak TLS with; None: plain HTTP. Raises StartError: options or a file cannot be used."""
        try:
            for url in self.urls:
                require_address(url)
        except InvalidRequestError as error:
            raise StartError(str(error)) from error
        if self.tls_mode != "off" and (self.tls_cert or self.tls_key):
            raise StartError(f"--tls {self.tls_mode} makes a certificate; leave --tls-cert and --tls-key out, or it")
        if bool(self.tls_cert) != bool(self.tls_key):
            raise StartError("--tls-cert and --tls-key belong together; give both")
        if self.tls_cert and self.tls_key:
            return tls.given(self.tls_cert, self.tls_key)
        if self.tls_mode == "off":
            return None
        names = {reachable_host(self.host), *(urlsplit(url).hostname or "" for url in self.urls)} - {""}
        return tls.automatic(data, names, datetime.now(UTC))

    def note(self, data: Path, certificate: tls.Certificate | None, host: str, port: int) -> None:
        """Note in the data folder where devices reach a server that listens on ``host``, for invitations.

        Without a certificate it speaks plain HTTP. Raises StartError: that it may not, where others can read the
        network.
        """
        if certificate is None or self.tls_mode == "proxy":
            self.require_privacy(host)
        authority = None if certificate is None else certificate.authority
        if self.tls_mode == "proxy":
            host, port = "0.0.0.0", _PROXY_PORT  # noqa: S104  (where the proxy is reached)
        shown = self.urls[0] if self.urls else url_of(reachable_host(host), port, private=certificate is not None)
        note_address(data, shown, authority and tls.fingerprint(authority))

    def require_privacy(self, shown: str) -> None:
        """Check that plain HTTP stays on this machine, or is wanted. Raises StartError: it does not."""
        if is_loopback(shown):
            return
        if not self.insecure_http:
            raise StartError(
                f"on {shown}, others can read tokens and secrets that are sent by plain HTTP; use --tls auto, or "
                "--tls-cert and --tls-key, or say --insecure-http"
            )
        _log.warning("plain HTTP on %s: whoever can read the network reads tokens and secrets (--insecure-http)", shown)

    def listen(self) -> socket.socket:
        """Open the socket. Raises StartError: the address or the port is not this machine's, or taken."""
        if not 0 <= self.port < 2**16:  # the resolver would silently take another one
            raise StartError(f"--port must be from 0 to {2**16 - 1}, not {self.port}")
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)[0]
            listener = socket.socket(family, kind, protocol)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVED_BYTES)  # of its connections too
            listener.bind(address)
        except OSError as error:
            raise StartError(
                f"cannot listen on {self.host}, port {self.port} ({error}); choose --host and --port"
            ) from error
        return listener


def url_of(host: str, port: int, *, private: bool) -> str:
    """Return the address of a server; a ``private`` one speaks TLS."""
    name = f"[{host}]" if ":" in host else host
    return f"{'https' if private else 'http'}://{name}:{port}"
