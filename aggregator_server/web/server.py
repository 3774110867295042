"""The server process: a socket, uvicorn, and a clean end on SIGTERM."""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import Mapping
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from aggregator_server.errors import StartError
from aggregator_server.security import load_tokens
from aggregator_server.store import KeptUploads, Store
from aggregator_server.strategies.registry import strategies
from aggregator_server.web.app import create_app

_GRACE_S = 10
_KEEP_ALIVE_S = 75  # longer than the longest poll, so that a device keeps its connection


class _Server(uvicorn.Server):
    """Prints its address when it is ready, and answers waiting devices when it stops."""

    def __init__(self, app: FastAPI, address: str) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http="h11",
                ws="none",
                loop="asyncio",
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_keep_alive=_KEEP_ALIVE_S,
                timeout_graceful_shutdown=_GRACE_S,
            )
        )
        self._app = app
        self._address = address

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
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
            _Server(create_app(store, tokens), address).run(sockets=[listener])
    finally:
        store.close()


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
