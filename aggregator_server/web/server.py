"""The server process: a socket, uvicorn, and a clean end on SIGTERM."""

from __future__ import annotations

import json
import logging
import resource
import signal
import socket
from collections.abc import Mapping
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from aggregator_server import limits
from aggregator_server.errors import StartError
from aggregator_server.security import load_tokens
from aggregator_server.store import KeptUploads, Store
from aggregator_server.strategies.registry import strategies
from aggregator_server.web.app import create_app
from aggregator_server.web.connection import ConnectionTable, bounded_protocol

_GRACE_S = 10


class _WithoutMalformedRequests(logging.Filter):
    """Keeps out of the log what any client can make uvicorn say, as often as it likes."""

    def filter(self, record: logging.LogRecord) -> bool:
        return record.levelno != logging.WARNING


class _Server(uvicorn.Server):
    """Prints its address when it is ready, and answers waiting devices when it stops."""

    def __init__(self, app: FastAPI, address: str, connections: int) -> None:
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
            )
        )
        logging.getLogger("uvicorn.error").addFilter(_WithoutMalformedRequests())
        self._app = app
        self._address = address

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
    host: str,
    port: int,
    environment: Mapping[str, str],
    *,
    keep_uploads: KeptUploads = "last",
    review_classes: bool = False,
) -> None:
    """Run the server until SIGTERM or SIGINT; when it is ready it prints one JSON line with its address.

    Raises:
        StartError: the data folder, a token, the address or an installed strategy cannot be used.
    """
    strategies()
    store = Store(data, keep_uploads=keep_uploads, review_classes=review_classes)
    try:
        tokens = load_tokens(data, environment)
        with _listen(host, port) as listener:
            shown, taken = listener.getsockname()[:2]
            address = f"http://[{shown}]:{taken}" if ":" in shown else f"http://{shown}:{taken}"
            # uvicorn raises the signal again once it has stopped; that one is ignored.
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda *_: None)
            connections = limits.most_connections(_allow_files())
            _Server(create_app(store, tokens), address, connections).run(sockets=[listener])
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


def _listen(host: str, port: int) -> socket.socket:
    if not 0 <= port < 2**16:  # the resolver would silently take another one
        raise StartError(f"--port must be from 0 to {2**16 - 1}, not {port}")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        raise StartError(f"cannot listen on {host}, port {port} ({error}); choose --host and --port") from error
    return listener
