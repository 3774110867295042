"""A browser's connection: how long it may take to send a request, and how many there may be.

uvicorn bounds neither: a connection that sends nothing, or half a request, would keep its place for ever.
"""

from __future__ import annotations

import asyncio
import logging

from uvicorn.protocols.http.h11_impl import H11Protocol

from edge_client.rate_limited_log import RateLimitedLog
from fleet_protocol.addresses import network_of

log = logging.getLogger(__name__)

# Open connections; each page that is open has one, and a browser opens a few more.
_CONNECTIONS = 64
# Of these, from one address or one IPv6 network of 64 bits.
_OF_ADDRESS = 32
# Connection to first byte, and first to last byte of a request's head.
_FIRST_BYTE_S, _HEAD_S = 10.0, 10.0


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
