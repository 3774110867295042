"""The page's process: a socket, uvicorn, and a clean end; and how long and how many its connections may be.

uvicorn bounds neither: a connection that sends nothing, or half a request, would keep its place for ever.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
from pathlib import Path
from types import FrameType

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from edge_client.config import Config
from edge_client.logs import RateLimitedLog, set_up_log
from edge_client.owner_page.access import Access, page_token
from edge_client.owner_page.app import create_app
from fleet_protocol.addresses import network_of

log = logging.getLogger(__name__)

# Open connections; each page that is open has one, and a browser opens a few more.
_CONNECTIONS = 64
# Of these, from one address or one IPv6 network of 64 bits.
_OF_ADDRESS = 32
# Connection to first byte, and first to last byte of a request's head.
_FIRST_BYTE_S, _HEAD_S = 10.0, 10.0
_GRACE_S = 2


class BoundedProtocol(H11Protocol):
    """uvicorn's HTTP/1.1 protocol with bounds. Where there is no room, the oldest silent connection makes some."""

    # In the order of their arrival.
    _open: dict[BoundedProtocol, str] = {}  # noqa: RUF012  (of all connections of the process)
    _trouble = RateLimitedLog(log)
    _timer: asyncio.TimerHandle | None = None
    _in_head = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start with the time to the first byte, if there is room."""
        super().connection_made(transport)
        address = network_of(self.client[0] if self.client else "")
        neighbours = [connection for connection, other in self._open.items() if other == address]
        if len(neighbours) >= _OF_ADDRESS:
            self._trouble.warning("%d connections from %s; the oldest silent ones are closed", _OF_ADDRESS, address)
            admitted = _drop_silent(neighbours)
        else:
            admitted = len(self._open) < _CONNECTIONS or _drop_silent(list(self._open))
        if not admitted:
            transport.abort()
            return
        self._open[self] = address
        self._wait(_FIRST_BYTE_S)

    def connection_lost(self, exc: Exception | None) -> None:
        """Give the place away."""
        self._stop_waiting()
        self._open.pop(self, None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on; a request's head must be whole in time, however its bytes arrive."""
        if self.transport.is_closing():
            return
        if self.is_silent and not self._in_head:
            self._in_head = True
            self._wait(_HEAD_S)
        request = self.cycle
        super().data_received(data)
        if self.cycle is not request:  # the head of another one is whole
            self._in_head = False
            self._stop_waiting()

    @property
    def is_silent(self) -> bool:
        """Whether no request of the client is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def drop(self) -> None:
        """Close the connection at once."""
        self._stop_waiting()
        self._open.pop(self, None)
        self.transport.abort()

    def _wait(self, seconds: float) -> None:
        self._stop_waiting()
        self._timer = self.loop.call_later(seconds, self.drop)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _drop_silent(connections: list[BoundedProtocol]) -> bool:
    """Close the first connection that is silent; return whether there was one."""
    oldest = next((connection for connection in connections if connection.is_silent), None)
    if oldest is not None:
        oldest.drop()
    return oldest is not None


class _Server(uvicorn.Server):
    """Ends although pages are open: their streams would go on for ever."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # of streams that are cut off
        await super().shutdown(sockets)


def serve(config_path: Path, config: Config, *, new_token: bool = False) -> int:
    """Serve the owner's page until SIGTERM or SIGINT; return the exit status.

    Raises ConfigError if the page would be reachable from elsewhere, and nobody said so; OSError if the address cannot
    be listened on, or the state folder belongs to another user.
    """
    set_up_log()
    access = Access.of(config.ui, page_token(config.device.state, new=new_token))
    listener = _listen(config.ui.host, config.ui.port)
    host = f"[{config.ui.host}]" if ":" in config.ui.host else config.ui.host
    print(f"the owner's page: http://{host}:{listener.getsockname()[1]}/", flush=True)
    if access.sign_in:
        print(f"its token: {access.token}", flush=True)
    server = _Server(
        uvicorn.Config(
            create_app(config_path, config, access),
            http=BoundedProtocol,
            loop="asyncio",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=_GRACE_S,
        )
    )
    # It would warn of each request that is none, of which anybody can send any number.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end)  # the server sends itself the signal again when it has ended
    server.run([listener])
    return 0


def _end(_: int, __: FrameType | None) -> None:
    sys.exit(0)


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise OSError(
            f"cannot listen on {host} port {port}: {error.strerror or error}; choose another by --port, or end what "
            "listens there"
        ) from error
