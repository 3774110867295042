"""TLS handshakes that have begun: they cost memory and a file before the table of connections knows of them."""

from __future__ import annotations

import asyncio
from collections import OrderedDict

from aggregator_server import limits


class Handshakes:
    """Every unfinished handshake. The oldest makes room for a new one: an honest one ends within two round trips.

    Attributes:
        size: Largest number of handshakes.
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
