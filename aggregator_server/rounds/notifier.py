"""Waking many waiting requests at once, without a thread for any of them."""

from __future__ import annotations

import asyncio
import contextlib

from aggregator_server.limits import WOKEN_AT_ONCE


class Notifier:
    """Wakes its subscribers when something changed. It belongs to the event loop that it was made in.

    A subscriber takes an event, checks whether there is something for it, and only then waits for the event: a
    notification between check and wait is not lost. Who subscribes anew ends its former wait, so that nobody waits
    twice.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._events: dict[str, asyncio.Event] = {}
        self.closed = False

    def subscribe(self, who: str = "") -> asyncio.Event:
        """Return the event that the next notification sets."""
        former = self._events.get(who)
        if former is not None:
            former.set()
        event = self._events[who] = asyncio.Event()
        return event

    def is_replaced(self, who: str, event: asyncio.Event) -> bool:
        """Tell whether a subscriber has subscribed anew since it took an event."""
        return self._events.get(who, event) is not event

    def notify(self) -> None:
        """Wake all subscribers. Any thread may call this."""
        self._loop.call_soon_threadsafe(self._set)

    def close(self) -> None:
        """Wake all subscribers for the last time: the server stops, so from now on nobody waits."""
        self.closed = True
        self._set()

    async def wait(self, event: asyncio.Event, seconds: float) -> None:
        """Wait until a notification sets the event, at most for so many seconds."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(event.wait(), max(0.0, seconds))

    def _set(self) -> None:
        events, self._events = self._events, {}
        self._set_some(list(events.values()))

    def _set_some(self, events: list[asyncio.Event]) -> None:
        """Wake a few; other requests get their turn before the next few."""
        for event in events[:WOKEN_AT_ONCE]:
            event.set()
        if events[WOKEN_AT_ONCE:]:
            self._loop.call_soon(self._set_some, events[WOKEN_AT_ONCE:])
