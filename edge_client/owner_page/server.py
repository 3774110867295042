"""The page's process: a socket, uvicorn by its public options, and a clean end.

Connections that say nothing keep their places: who lets others in the network open the page without a proxy trusts them
(docs/security.md).
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import signal
import socket
import ssl
import sys
from pathlib import Path

import uvicorn

from edge_client.config import Config
from edge_client.config.sections import UiConfig
from edge_client.errors import ConfigError
from edge_client.logs import set_up_log
from edge_client.owner_page.access import Access, page_token, sign_in_link
from edge_client.owner_page.app import create_app
from edge_client.owner_page.own_certificate import fingerprint, own_certificate

# Open connections; each page that is open has one, and a browser opens a few more. Beyond them the answer is 503.
_CONNECTIONS = 256
_HEAD_BYTES = 16 * 2**10  # of a request's line and headers
_GRACE_S = 2
_CERTIFICATE_S = 3600  # after which its own certificate is looked at again: a page runs for years

log = logging.getLogger(__name__)


class _Server(uvicorn.Server):
    """Ends although pages are open: their streams would go on for ever."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # of streams that are cut off
        await super().shutdown(sockets)


class _OwnCertificate:
    """Keeps a page that runs for years from ending with its certificate."""

    def __init__(self, server: uvicorn.Config, state: Path, ui: UiConfig, shown: str) -> None:
        """``shown``: the fingerprint that the owner was told."""
        self._server, self._state, self._ui, self._shown = server, state, ui, shown

    async def renew(self) -> None:
        """Have new connections speak TLS by the file as it is now, made anew where it is old; say so in the log."""
        try:
            path = await asyncio.to_thread(own_certificate, self._state, self._ui)
            found = fingerprint(path)
            if self._server.ssl is not None:
                self._server.ssl.load_cert_chain(path)
        except (ConfigError, OSError, ValueError) as error:
            log.error("the page goes on with the certificate that it has: %s", error)
            return
        if found != self._shown:
            log.warning("the page's own certificate now has the SHA-256 fingerprint %s", found)
        self._shown = found


def serve(
    config_path: Path, config: Config, *, new_token: bool = False, phone: bool = False, offers: Path | None = None
) -> int:
    """Serve the owner's page until SIGTERM or SIGINT; return the exit status. ``offers``: of :class:`OfferingPage`.

    ``phone``: show the link that signs in as a QR code. Raises ConfigError if the certificate cannot be used or made,
    or a phone cannot reach the page; OSError if the address cannot be listened on, or the state folder belongs to
    another user.
    """
    set_up_log()
    _require_certificate(config.ui)
    if phone:
        require_phone(config.ui)
    own = own_certificate(config.device.state, config.ui) if config.ui.own_tls else None
    listener = _listen(config.ui.host, config.ui.port)
    # Only now: a page that cannot be served signs nobody out.
    access = Access.of(config.ui, page_token(config.device.state, new=new_token))
    host = f"[{config.ui.host}]" if ":" in config.ui.host else config.ui.host
    port = listener.getsockname()[1]
    print(f"the owner's page: {'https' if access.secure else 'http'}://{host}:{port}/", flush=True)
    if access.sign_in:
        print(f"its token: {access.token}", flush=True)
    if own is not None:
        print("its own certificate, of which browsers warn once, has the SHA-256 fingerprint:", flush=True)
        print(fingerprint(own), flush=True)
    if phone:
        _show(sign_in_link(dataclasses.replace(config.ui, port=port).address, access.token))
    settings = uvicorn.Config(
        create_app(config_path, config, access, offers),
        http="h11",
        loop="asyncio",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ssl_certfile=own or config.ui.certificate,
        ssl_keyfile=config.ui.key,
        limit_concurrency=_CONNECTIONS,
        h11_max_incomplete_event_size=_HEAD_BYTES,
        timeout_graceful_shutdown=_GRACE_S,
        timeout_notify=_CERTIFICATE_S,
    )
    if own is not None:
        settings.callback_notify = _OwnCertificate(settings, config.device.state, config.ui, fingerprint(own)).renew
    server = _Server(settings)
    # It would warn of each request that is none, of which anybody can send any number.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))  # the server sends itself the signal again when it has ended
    server.run([listener])
    return 0


def require_phone(config: UiConfig) -> None:
    """Raise ConfigError if no phone could open the page."""
    if not dataclasses.replace(config, port=config.port or 1).address:
        raise ConfigError(
            '--phone: a phone cannot reach the page. Let it listen beyond this machine: [ui] host = "0.0.0.0", or '
            "--host 0.0.0.0; or name the proxy before it in [ui] names"
        )


def _require_certificate(config: UiConfig) -> None:
    if config.certificate is not None:
        try:
            ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(config.certificate, config.key)
        except OSError as error:
            raise ConfigError(f"[ui] certificate = {config.certificate}, key = {config.key}: {error}") from error


def _show(link: str) -> None:
    import segno

    segno.make(link, error="l").terminal(sys.stdout, compact=True)
    print(f"open it with the phone's camera; whoever has it is signed in: {link}", flush=True)


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise OSError(
            f"cannot listen on {host} port {port}: {error.strerror or error}; choose another by --port, or end what "
            "listens there"
        ) from error
