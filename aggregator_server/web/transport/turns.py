"""Turns for what a whole fleet asks at once: a few requests are read, then others are looked at before the next few."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Callable

from aggregator_server.limits import BEGUN_AT_ONCE

_OF_FLEET = re.compile(rb"[A-Z]+ /v1/(work|devices|blobs/[^/ ]*|rounds/[^/ ]*/(update|learned))[ ?]")


def is_of_fleet(head: bytes) -> bool:
    """Tell whether a request's head begins as those of devices do. People and probes wait for no device."""
    return _OF_FLEET.match(head) is not None


class Turns:
    """Lets few begin in each turn of the event loop, in the order in which they came. It belongs to that loop."""

    def __init__(self) -> None:
        """Make one that nobody waits for."""
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
