"""The server process: a socket, uvicorn, and a clean end on SIGTERM."""

from __future__ import annotations

import asyncio
import json
import logging
import resource
import signal
import socket
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI

from aggregator_server import limits, tls
from aggregator_server.security import load_tokens
from aggregator_server.server_address import note_address, reachable_host
from aggregator_server.store import KeptUploads, Store
from aggregator_server.strategies.registry import strategies
from aggregator_server.web.app import create_app
from aggregator_server.web.connection import ConnectionTable, bounded_protocol
from aggregator_server.web.endpoint import Endpoint, url_of
from aggregator_server.web.service import Terms

_GRACE_S = 10


class _WithoutMalformedRequests(logging.Filter):
    """Keeps out of the log what any client can make uvicorn say, as often as it likes."""

    def filter(self, record: logging.LogRecord) -> bool:
        return record.levelno != logging.WARNING


class _Loop(asyncio.SelectorEventLoop):
    """Bounds the parts of a TLS connection that the protocol does not see: its begin and its end."""

    async def create_server(self, *arguments: Any, **options: Any) -> asyncio.Server:  # noqa: ANN401  (asyncio's own)
        if options.get("ssl") is not None:
            options |= {"ssl_handshake_timeout": limits.HEAD_S, "ssl_shutdown_timeout": limits.DRAIN_S}
        return await super().create_server(*arguments, **options)


class _Server(uvicorn.Server):
    """Prints its address when it is ready, and answers waiting devices when it stops."""

    def __init__(self, app: FastAPI, address: str, certificate: tls.Certificate | None, connections: int) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=bounded_protocol(ConnectionTable(connections)),
                ws="none",
                loop="asyncio",
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                backlog=limits.ACCEPTED_AT_ONCE,
                h11_max_incomplete_event_size=limits.HEAD_BYTES,
                timeout_graceful_shutdown=_GRACE_S,
                ssl_certfile=None if certificate is None else certificate.file,
                ssl_keyfile=None if certificate is None else certificate.key,
            )
        )
        logging.getLogger("uvicorn.error").addFilter(_WithoutMalformedRequests())
        self._app = app
        self._address = address

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        with asyncio.Runner(loop_factory=_Loop) as runner:
            runner.run(self.serve(sockets))

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        # The backlog given to asyncio is both. It would accept as many at once, whatever files are left.
        for listener in sockets or ():
            listener.listen(limits.WAITING_TO_BE_ACCEPTED)
        print(json.dumps({"url": self._address}), flush=True)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._app.state.service.new_work.close()
        await super().shutdown(sockets)


def serve(
    data: Path,
    environment: Mapping[str, str],
    endpoint: Endpoint,
    terms: Terms,
    *,
    keep_uploads: KeptUploads = "last",
    review_classes: bool = False,
) -> None:
    """Run the server until SIGTERM or SIGINT; when it is ready it prints one JSON line with its address.

    Raises:
        StartError: the data folder, a token, the address, a certificate or an installed strategy cannot be used.
    """
    strategies()
    store = Store(data, keep_uploads=keep_uploads, review_classes=review_classes)
    try:
        tokens = load_tokens(data, environment)
        certificate = endpoint.certificate(data)
        with endpoint.listen() as listener:
            shown, taken = listener.getsockname()[:2]
            if certificate is None:
                endpoint.require_privacy(shown)
            private = certificate is not None
            authority = None if certificate is None else certificate.authority
            note_address(
                data,
                endpoint.url or url_of(reachable_host(shown), taken, private=private),
                authority and tls.fingerprint(authority),
            )
            # uvicorn raises the signal again once it has stopped; that one is ignored.
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda *_: None)
            connections = limits.most_connections(_allow_files())
            app = create_app(store, tokens, terms=replace(terms, authority=authority))
            _Server(app, url_of(shown, taken, private=private), certificate, connections).run(sockets=[listener])
    finally:
        store.close()


def _allow_files() -> int:
    """Allow this process as many open files as all connections need, or as the system lets it; return how many."""
    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = limits.files_for_all_connections()
    if most != resource.RLIM_INFINITY:
        wanted = min(wanted, most)
    if allowed != resource.RLIM_INFINITY and allowed < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
    return wanted
