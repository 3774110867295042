"""TLS handshakes that have begun: they cost memory and a file before the table of connections knows of them."""

import asyncio
import gc
import json
import logging
import resource
import signal
import socket
import ssl
import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import uvicorn
from fastapi import FastAPI

from aggregator_server import limits, tls
from aggregator_server.errors import ProxyHeaderError
from aggregator_server.security import load_tokens
from aggregator_server.store import KeptUploads, Store
from aggregator_server.store.location import Location
from aggregator_server.strategies.registry import strategies
from aggregator_server.web.app import create_app
from aggregator_server.web.service import Terms
from aggregator_server.web.transport.connection import PROXIED_CLIENT, ConnectionTable, bounded_protocol
from aggregator_server.web.transport.endpoint import Endpoint, url_of
from aggregator_server.web.transport.proxy_protocol import ProxyHeaders, ProxyNetwork
from fleet_protocol.addresses import network_of


class Handshakes:
    """Every unfinished handshake. The oldest makes room for a new one: an honest one ends within two round trips.

    Attributes:
        per_address: Largest number from one address, as the table of connections counts it.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.per_address = max(1, int(size * limits.ADDRESS_SHARE))
        self._open: OrderedDict[asyncio.Transport, str] = OrderedDict()
        self._of_address: dict[str, OrderedDict[asyncio.Transport, None]] = {}

    def begin(self, transport: asyncio.Transport, address: str) -> None:
        """Take in a handshake that has just begun."""
        neighbours = self._of_address.setdefault(address, OrderedDict())
        if len(neighbours) >= self.per_address:
            self._drop(next(iter(neighbours)))
        elif len(self._open) >= self.size:
            self._drop(next(iter(self._open)))
        self._open[transport] = address
        self._of_address.setdefault(address, OrderedDict())[transport] = None

    def end(self, transport: asyncio.Transport) -> None:
        """Forget a handshake that has ended, however it did."""
        address = self._open.pop(transport, None)
        if address is None:
            return
        neighbours = self._of_address[address]
        del neighbours[transport]
        if not neighbours:
            del self._of_address[address]

    def _drop(self, transport: asyncio.Transport) -> None:
        self.end(transport)
        # Not at once: of a connection that was accepted in this very turn, the transport has no socket yet.
        asyncio.get_running_loop().call_soon(transport.abort)


_GRACE_S = 10
_DATABASE_S = 3.0  # that a database which answers nothing keeps the server from ending
_LOOK_S = 0.1
_SWITCH_S = 0.0005
# A full collection of garbage stops everything for up to 0.1 s where a thousand devices are connected. One comes after
# so many of the generation before; Python's default is 10.
_FULL_COLLECTION_AFTER = 100


class _WithoutMalformedRequests(logging.Filter):
    """Keeps out of the log what any client can make uvicorn say, as often as it likes."""

    def filter(self, record: logging.LogRecord) -> bool:
        return record.levelno != logging.WARNING


class _Loop(asyncio.SelectorEventLoop):
    """Bounds the parts of a TLS connection that the protocol does not see: its begin and its end."""

    def __init__(self, handshakes: Handshakes, headers: ProxyHeaders | None) -> None:
        super().__init__()
        self._handshakes = handshakes
        self._headers = headers

    async def create_server(self, *arguments: Any, **options: Any) -> asyncio.Server:  # noqa: ANN401  (asyncio's own)
        if options.get("ssl") is not None:
            options |= {"ssl_handshake_timeout": limits.HEAD_S, "ssl_shutdown_timeout": limits.DRAIN_S}
        return await super().create_server(*arguments, **options)

    async def _accept_connection2(  # what asyncio does with a connection, before TLS
        self,
        protocol_factory: Callable[[], asyncio.Protocol],
        conn: socket.socket,
        extra: dict[str, Any],
        *arguments: Any,  # noqa: ANN401
        **options: Any,  # noqa: ANN401
    ) -> None:
        peer = str(extra["peername"][0])
        if self._headers is not None and self._headers.expected_from(peer):
            try:
                extra[PROXIED_CLIENT] = await self._headers.read(conn, peer)
            except ProxyHeaderError as error:
                self._headers.note(peer, error)
                conn.close()
                return
            except BaseException:  # the loop ends
                conn.close()
                raise
        accept = super()._accept_connection2  # type: ignore[misc]  # not in the stubs
        await accept(protocol_factory, conn, extra, *arguments, **options)

    def _make_ssl_transport(  # what asyncio begins a handshake with
        self,
        rawsock: socket.socket,
        protocol: asyncio.Protocol,
        sslcontext: ssl.SSLContext,
        waiter: asyncio.Future[None],
        **options: Any,  # noqa: ANN401
    ) -> asyncio.Transport:
        try:
            address = network_of(options["extra"].get(PROXIED_CLIENT) or rawsock.getpeername()[0])
        except OSError:  # it is gone already
            address = ""
        make = super()._make_ssl_transport  # type: ignore[misc]  # not in the stubs
        transport: asyncio.Transport = make(rawsock, protocol, sslcontext, waiter, **options)
        self._handshakes.begin(transport, address)
        waiter.add_done_callback(lambda _: self._handshakes.end(transport))
        return transport


class _Server(uvicorn.Server):
    """Says when it is ready, and answers waiting devices when it stops."""

    def __init__(
        self,
        app: FastAPI,
        certificate: tls.Certificate | None,
        proxies: tuple[ProxyNetwork, ...],
        ready: Callable[[], None],
        *,
        proxy_protocol: bool,
        drain_s: float,
    ) -> None:
        connections = limits.most_connections(_allow_files())
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
                # The client that a PROXY header names must not name another one.
                proxy_headers=bool(proxies) and not proxy_protocol,
                forwarded_allow_ips=_as_peers(proxies),
                backlog=limits.ACCEPTED_AT_ONCE,
                h11_max_incomplete_event_size=limits.HEAD_BYTES,
                timeout_graceful_shutdown=_GRACE_S,
                ssl_certfile=None if certificate is None else certificate.file,
                ssl_keyfile=None if certificate is None else certificate.key,
            )
        )
        logging.getLogger("uvicorn.error").addFilter(_WithoutMalformedRequests())
        self._app = app
        self._ready = ready
        self._drain_s = drain_s
        self._most_handshakes = limits.most_handshakes(connections)
        self._headers = ProxyHeaders(proxies, self._most_handshakes) if proxy_protocol else None

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        handshakes = Handshakes(self._most_handshakes)
        with asyncio.Runner(loop_factory=lambda: _Loop(handshakes, self._headers)) as runner:
            runner.run(self.serve(sockets))

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        # The backlog given to asyncio is both. It would accept as many at once, whatever files are left.
        for listener in sockets or ():
            listener.listen(limits.WAITING_TO_BE_ACCEPTED)
        _collect_less()
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Say that the server is not ready, serve on until that was noticed, then answer waiting devices and end."""
        self._app.state.service.readiness.ending = True
        over = time.monotonic() + self._drain_s
        while time.monotonic() < over and not self.force_exit:  # Ctrl-C once more ends it at once
            await asyncio.sleep(min(_LOOK_S, self._drain_s))
        self._app.state.service.store.hurry(_DATABASE_S)
        self._app.state.service.new_work.close()
        await super().shutdown(sockets)


def serve(
    place: Location,
    environment: Mapping[str, str],
    endpoint: Endpoint,
    terms: Terms,
    *,
    keep_uploads: KeptUploads = "last",
    review_classes: bool = False,
    proxies: tuple[ProxyNetwork, ...] = (),
    docs_url: str | None = None,
    proxy_protocol: bool = False,
    drain_s: float = 0.0,
) -> None:
    """Run the server until SIGTERM or SIGINT; when it is ready it prints one JSON line with its address.

    Args:
        proxies: whose word on where a request comes from is believed; of nobody else's.
        docs_url: where the documentation's site is; None: the server shows the documents itself.
        proxy_protocol: whether connections from those begin with a PROXY header, which alone says who the client is.
        drain_s: seconds that it serves on after the signal to end, while it says that it is not ready.

    Raises:
        StartError: the data folder, a token, the address, a certificate, or an installed strategy cannot be used.
    """
    strategies()
    data = place.data
    store = Store(place, keep_uploads=keep_uploads, review_classes=review_classes)
    try:
        tokens = load_tokens(data, environment)
        certificate = endpoint.certificate(data)
        with endpoint.listen() as listener:
            shown, port = listener.getsockname()[:2]
            endpoint.note(data, certificate, shown, port)
            address = url_of(shown, port, private=certificate is not None)
            terms = replace(terms, authority=None if certificate is None else certificate.authority)
            app = create_app(store, tokens, terms, docs_url)

            def ready() -> None:
                print(json.dumps({"url": address}), flush=True)

            # uvicorn raises the signal again once it has stopped; that one is ignored.
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda *_: None)
            # Threads that compute would keep the loop waiting for 5 ms each, by default.
            sys.setswitchinterval(_SWITCH_S)
            _Server(app, certificate, proxies, ready, proxy_protocol=proxy_protocol, drain_s=drain_s).run(
                sockets=[listener]
            )
    finally:
        store.close()


def _collect_less() -> None:
    """Leave out of collections whatever the server consists of by now, and have fewer full ones."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*gc.get_threshold()[:2], _FULL_COLLECTION_AFTER)


def _allow_files() -> int:
    """Allow this process as many open files as all connections need, or as the system lets it; return how many."""
    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = limits.files_for_all_connections()
    if most != resource.RLIM_INFINITY:
        wanted = min(wanted, most)
    if allowed != resource.RLIM_INFINITY and allowed < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
    return wanted


def _as_peers(proxies: tuple[ProxyNetwork, ...]) -> list[str]:
    """Return networks as a socket names them: one that listens for both kinds says ``::ffff:`` before those of IPv4."""
    mapped = [
        f"::ffff:{network.network_address}/{96 + network.prefixlen}" for network in proxies if network.version == 4
    ]
    return [str(network) for network in proxies] + mapped
