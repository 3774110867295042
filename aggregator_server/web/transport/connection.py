"""A client's connection: how long it may take for each part of a request, and how many there may be.

uvicorn bounds none of it: a connection that sends nothing, or half a request, would stay for ever.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import OrderedDict, deque
from collections.abc import Callable
from functools import partial

import h11
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from aggregator_server import limits
from aggregator_server.errors import BusyError
from aggregator_server.limits import BEGUN_AT_ONCE
from fleet_protocol.addresses import network_of

PROXIED_CLIENT = "auricle_proxied_client"
"""Of a transport: the client's address as a PROXY header names it (web/transport/proxy_protocol.py)."""

_OF_FLEET = re.compile(rb"[A-Z]+ /v1/(work|devices|blobs/[^/ ]*|rounds/[^/ ]*/(update|learned))[ ?]")


def is_of_fleet(head: bytes) -> bool:
    """Tell whether a request's head begins as those of devices do. People and probes wait for no device."""
    return _OF_FLEET.match(head) is not None


class Turns:
    """Lets few begin in each turn of the event loop, in the order of their arrival. It belongs to that loop.

    So health and people's requests need not wait for a fleet that comes as one (docs/security.md, "Load").
    """

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()

    def add(self, begin: Callable[[], None]) -> None:
        """Have a function called when it is its turn."""
        self._waiting.append(begin)
        if len(self._waiting) == 1:
            loop = asyncio.get_running_loop()
            loop.call_soon(self._let_some_begin, loop)

    def _let_some_begin(self, loop: asyncio.AbstractEventLoop) -> None:
        for _ in range(min(BEGUN_AT_ONCE, len(self._waiting))):
            loop.call_soon(self._waiting.popleft())
        if self._waiting:
            loop.call_soon(self._let_some_begin, loop)


_BUSY = json.dumps({"error": {"code": BusyError.code, "message": "too many connections are open; try again later"}})
_SHED = (
    f"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: {len(_BUSY)}\r\n"
    f"Retry-After: {limits.RETRY_AFTER_S}\r\nConnection: close\r\n\r\n{_BUSY}"
).encode()


class ConnectionTable:
    """Every open connection. Those that say nothing and whose client is not known make room for others, oldest first.

    Attributes:
        per_address: Largest number from one address; of IPv6, from one network of 64 bits.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.per_address = max(1, int(size * limits.ADDRESS_SHARE))
        self._strangers: OrderedDict[BoundedProtocol, None] = OrderedDict()
        self._of_address: dict[str, OrderedDict[BoundedProtocol, None]] = {}
        self._of_device: dict[str, OrderedDict[BoundedProtocol, None]] = {}
        self._open = 0

    def admit(self, connection: BoundedProtocol) -> bool:
        """Take in a new connection; False where there is no room, not even in place of a stranger's."""
        neighbours = self._of_address.get(connection.address, ())
        if len(neighbours) >= self.per_address and not self._drop_stranger(neighbours):
            return False
        if self._open >= self.size and not self._drop_stranger(self._strangers):
            return False
        self._open += 1
        self._strangers[connection] = None
        self._of_address.setdefault(connection.address, OrderedDict())[connection] = None
        return True

    def know(self, connection: BoundedProtocol, device_id: str) -> None:
        """Note that a connection's client showed a token; where it is a device's, that one's oldest makes room."""
        self._strangers.pop(connection, None)
        if device_id:
            own = self._of_device.setdefault(device_id, OrderedDict())
            own[connection] = None
            if len(own) > limits.CONNECTIONS_PER_DEVICE:
                next(iter(own)).drop()

    def forget(self, connection: BoundedProtocol) -> None:
        """Note that a connection that was admitted is gone."""
        self._open -= 1
        self._strangers.pop(connection, None)
        _leave(self._of_address, connection.address, connection)
        _leave(self._of_device, connection.device_id, connection)

    def _drop_stranger(self, among: OrderedDict[BoundedProtocol, None] | tuple[()]) -> bool:
        silent = (connection for connection in among if connection in self._strangers and connection.says_nothing)
        oldest = next(silent, None)
        if oldest is not None:
            oldest.drop()
        return oldest is not None


def _leave(groups: dict[str, OrderedDict[BoundedProtocol, None]], key: str, connection: BoundedProtocol) -> None:
    group = groups.get(key)
    if group is not None:
        group.pop(connection, None)
        if not group:
            del groups[key]


class BoundedProtocol(H11Protocol):
    """uvicorn's HTTP/1.1 protocol with bounds.

    Attributes:
        table: The connections of the server; a subclass for each server sets it.
        address: Address of the client, as the table counts it.
        device_id: The device that the client is; empty for others, and for those who are not known yet.
    """

    table: ConnectionTable
    turns: Turns
    app: ASGIApp
    address = ""
    device_id = ""
    _known = False
    _admitted = False
    _in_head = False
    _drained = 0
    _timer: asyncio.TimerHandle | None = None  # of the part of a request that the client is to send
    _write_timer: asyncio.TimerHandle | None = None

    async def run(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application, which finds this connection in a request's state."""
        scope["state"]["connection"] = self
        await self.config.loaded_app(scope, receive, send)

    def know(self, device_id: str = "") -> None:
        """Note that the client showed a token that the server knows, and which device it is, if it is one."""
        if self._admitted and not self._known:
            self._known, self.device_id = True, device_id
            self.table.know(self, device_id)

    @property
    def says_nothing(self) -> bool:
        """Whether no request of the client is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start with the time to the first byte, or answer that there is no room."""
        super().connection_made(transport)
        self.app = self.run
        self._read_at_most(limits.HEAD_BYTES)
        proxied: str | None = transport.get_extra_info(PROXIED_CLIENT)
        if proxied is not None:
            self.client = (proxied, 0)
        self.address = network_of(self.client[0] if self.client else "")
        self._admitted = self.table.admit(self)
        if self._admitted:
            self._wait(limits.FIRST_BYTE_S)
        else:
            transport.write(_SHED)
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Leave the table, and stop waiting."""
        self._stop_waiting()
        self.resume_writing()
        self._leave()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on, a device's request when it is its turn: to read a head costs ten times what it costs to receive it.

        A request's head must be whole in time, however its bytes arrive.
        """
        if self.conn.their_state is h11.IDLE and not self._in_head and is_of_fleet(data):
            self._wait(limits.HEAD_S)
            self.flow.pause_reading()
            self.turns.add(partial(self._read_in_turn, data))
        else:
            self._read(data)

    def _read_in_turn(self, data: bytes) -> None:
        self.flow.resume_reading()
        self._read(data)

    def _read(self, data: bytes) -> None:
        if not self._admitted or self.transport.is_closing():
            return
        was_idle = self.conn.their_state is h11.IDLE
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
            if not was_idle:  # the rest of a body that nobody read
                self._wait(self._idle_s)
            elif not self._in_head:
                self._in_head = True
                self._wait(limits.HEAD_S)
            return
        if was_idle:
            self._in_head = False
            self._stop_waiting()
        if self._is_draining():
            self._drained += len(data)
            if self._drained > limits.DRAINED_BYTES:
                self.drop()
        elif self.conn.their_state is h11.SEND_BODY:
            self.flow.pause_reading()  # until the application wants more
            self._read_at_most(limits.READ_BYTES)

    def on_response_complete(self) -> None:
        """Wait for the client's next request.

        A body that nobody read is drained for a while: else the client would see a reset in place of the answer.
        """
        super().on_response_complete()
        self._read_at_most(limits.HEAD_BYTES)
        self._unset_keepalive_if_required()
        if self.transport.is_closing():
            self._wait(limits.WRITE_S)
        elif self._is_draining():
            self._drained = 0
            self._wait(limits.DRAIN_S)
        elif self.conn.their_state is h11.IDLE:
            self._wait(self._idle_s)

    def pause_writing(self) -> None:
        """Give the client time to take what was sent."""
        super().pause_writing()
        if self._write_timer is None:
            self._write_timer = self.loop.call_later(limits.WRITE_S, self.drop)

    def resume_writing(self) -> None:
        """Go on."""
        super().resume_writing()
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def drop(self) -> None:
        """Close the connection at once, whatever was not sent."""
        self._leave()
        self.transport.abort()

    @property
    def _idle_s(self) -> float:
        return limits.IDLE_S if self._known else limits.STRANGER_IDLE_S

    def _is_draining(self) -> bool:
        return self.conn.our_state is h11.DONE and self.conn.their_state is h11.SEND_BODY

    def _read_at_most(self, size: int) -> None:
        """Set how much asyncio reads at once: of a head little, so that bodies stay where they are until their turn."""
        self.transport.max_size = size  # type: ignore[attr-defined]

    def _wait(self, seconds: float) -> None:
        self._stop_waiting()
        self._timer = self.loop.call_later(seconds, self.drop)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _leave(self) -> None:
        if self._admitted:
            self._admitted = False
            self.table.forget(self)


def bounded_protocol(table: ConnectionTable) -> type[BoundedProtocol]:
    """Return the protocol of a server whose connections a table holds."""
    return type("BoundedProtocol", (BoundedProtocol,), {"table": table, "turns": Turns()})
