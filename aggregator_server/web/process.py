"""The server's process: a socket, uvicorn by its public options, and a clean end.

What these do not bound, a reverse proxy does: slow heads, silent connections, handshakes (docs/security.md).
"""

import asyncio
import gc
import json
import logging
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

import uvicorn
from fastapi import FastAPI

from aggregator_server import limits, tls
from aggregator_server.fleet.audit import COMMAND_LINE
from aggregator_server.fleet.sessions import make_once
from aggregator_server.security import load_tokens
from aggregator_server.server_address import said_of_link, sign_in_link
from aggregator_server.store.location import Location
from aggregator_server.store.opening import open_store
from aggregator_server.strategies.plans import strategies
from aggregator_server.web.app import create_app
from aggregator_server.web.listening import Listening, ProxyNetwork, url_of
from aggregator_server.web.service import Terms

_GRACE_S = 10
_GOODBYE_S = 1.0
_DATABASE_S = 3.0  # that a database which answers nothing keeps the server from ending
_SWITCH_S = 0.0005
# A full collection of garbage stops everything for up to 0.1 s where a thousand devices are connected. One comes after
# so many of the generation before; Python's default is 10.
_FULL_COLLECTION_AFTER = 100


class _WithoutMalformedRequests(logging.Filter):
    """Keeps out of the log what any client can make uvicorn say, as often as it likes."""

    def filter(self, record: logging.LogRecord) -> bool:
        return record.levelno != logging.WARNING


class _Server(uvicorn.Server):
    """Says when it is ready, and answers waiting devices when it stops."""

    def __init__(
        self,
        app: FastAPI,
        certificate: tls.Certificate | None,
        proxies: tuple[ProxyNetwork, ...],
        ready: Callable[[], None],
    ) -> None:
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
                proxy_headers=bool(proxies),
                forwarded_allow_ips=_as_peers(proxies),
                backlog=limits.WAITING_TO_BE_ACCEPTED,
                limit_concurrency=_most_connections(),
                timeout_keep_alive=limits.IDLE_S,
                h11_max_incomplete_event_size=limits.HEAD_BYTES,
                timeout_graceful_shutdown=_GRACE_S,
                ssl_certfile=None if certificate is None else certificate.file,
                ssl_keyfile=None if certificate is None else certificate.key,
            )
        )
        logging.getLogger("uvicorn.error").addFilter(_WithoutMalformedRequests())
        self._app = app
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        # Leave out of collections whatever the server consists of by now, and have fewer full ones.
        gc.collect()
        gc.freeze()
        gc.set_threshold(*gc.get_threshold()[:2], _FULL_COLLECTION_AFTER)
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer waiting devices, and end."""
        self._app.state.service.store.hurry(_DATABASE_S)
        self._app.state.service.new_work.close()
        cutting = asyncio.create_task(self._cut_closing())
        try:
            await super().shutdown(sockets)
        finally:
            cutting.cancel()

    async def _cut_closing(self) -> None:
        """Cut connections that have been closing for a moment: over TLS, the other side may never say goodbye."""
        since: dict[object, float] = {}
        while True:
            for connection in list(self.server_state.connections):
                if connection.transport.is_closing():
                    began = since.setdefault(connection, time.monotonic())
                    if time.monotonic() - began >= _GOODBYE_S:
                        connection.transport.abort()
            await asyncio.sleep(_GOODBYE_S / 4)


def serve(
    place: Location,
    environment: Mapping[str, str],
    listening: Listening,
    terms: Terms,
    proxies: tuple[ProxyNetwork, ...] = (),
) -> None:
    """Run the server until SIGTERM or SIGINT; when it is ready it prints one JSON line with its address; at a
    terminal, also a link with which an administrator signs in once.

    ``proxies``: whose word on where a request comes from is believed; of nobody else's. Raises StartError: the data
    folder, a token, the address, a certificate, or an installed strategy cannot be used.
    """
    strategies()
    data = place.data
    store = open_store(place)
    try:
        tokens = load_tokens(data, environment)
        certificate = listening.certificate(data)
        with listening.listen() as listener:
            shown, port = listener.getsockname()[:2]
            listening.note(data, certificate, shown, port)
            speaks = None if listening.tls_mode == "proxy" else certificate
            address = url_of(shown, port, private=speaks is not None)
            terms = replace(terms, authority=None if certificate is None else certificate.authority)
            app = create_app(store, tokens, terms)

            def ready() -> None:
                print(json.dumps({"url": address}), flush=True)
                if sys.stdin.isatty() and sys.stderr.isatty():  # never into a log
                    once = make_once(store, tokens.admin, COMMAND_LINE, time.time())
                    print(f"the dashboard: {sign_in_link(address, once)}", file=sys.stderr)
                    print(said_of_link(data), file=sys.stderr)

            # uvicorn raises the signal again once it has stopped; that one is ignored.
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda *_: None)
            # Threads that compute would keep the loop waiting for 5 ms each, by default.
            sys.setswitchinterval(_SWITCH_S)
            _Server(app, speaks, proxies, ready).run(sockets=[listener])
    finally:
        store.close()


def _most_connections() -> int:
    """Allow this process as many open files as all connections need, or as the system lets it; return how many fit."""
    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = limits.FILES_OF_SERVER + limits.CONNECTIONS * limits.FILES_PER_CONNECTION
    if most != resource.RLIM_INFINITY:
        wanted = min(wanted, most)
    if allowed != resource.RLIM_INFINITY and allowed < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
    return max(16, min(limits.CONNECTIONS, (wanted - limits.FILES_OF_SERVER) // limits.FILES_PER_CONNECTION))


def _as_peers(proxies: tuple[ProxyNetwork, ...]) -> list[str]:
    """Return networks as a socket names them: one that listens for both kinds says ``::ffff:`` before those of IPv4."""
    mapped = [
        f"::ffff:{network.network_address}/{96 + network.prefixlen}" for network in proxies if network.version == 4
    ]
    return [str(network) for network in proxies] + mapped
