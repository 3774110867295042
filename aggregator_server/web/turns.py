"""Turns for what a whole fleet asks at once: a few requests begin, then others are looked at before the next few."""

from __future__ import annotations

import asyncio
import re
from collections import deque

from aggregator_server.limits import BEGUN_AT_ONCE

_OF_FLEET = re.compile(r"/v1/(work|devices|blobs/[^/]*|rounds/[^/]*/(update|learned))")


def is_of_fleet(path: str) -> bool:
    """Tell whether devices ask for an address. People and probes that ask for another one wait for no device."""
    return _OF_FLEET.fullmatch(path) is not None


class Turns:
    """Lets few begin in each turn of the event loop, in the order in which they came."""

    def __init__(self) -> None:
        """Make one without anybody who waits."""
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def turn(self) -> None:
        """Wait for a turn."""
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        self._waiting.append(waiter)
        if len(self._waiting) == 1:
            loop.call_soon(self._let_some_begin, loop)
        await waiter

    def _let_some_begin(self, loop: asyncio.AbstractEventLoop) -> None:
        for _ in range(min(BEGUN_AT_ONCE, len(self._waiting))):
            waiter = self._waiting.popleft()
            if not waiter.done():  # the request was cancelled
                waiter.set_result(None)
        if self._waiting:
            loop.call_soon(self._let_some_begin, loop)
