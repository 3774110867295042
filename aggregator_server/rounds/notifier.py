"""Waking many waiting requests at once, without a thread for any of them."""

from __future__ import annotations

import asyncio
import contextlib


class Bell:
    """Rung when something changed. Belongs to the event loop that it was made in; any thread may ring it.

    A waiter takes a ticket, looks whether there is something for it, and only then waits for the ticket's bell: a
    ring between looking and waiting is not lost.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()
        self.silenced = False

    def ticket(self) -> asyncio.Event:
        """Return what the next ring sets."""
        return self._event

    def ring(self) -> None:
        """Wake everybody who holds a ticket."""
        self._loop.call_soon_threadsafe(self._ring)

    def silence(self) -> None:
        """Wake everybody for the last time: from now on nobody waits, because the server stops."""
        self.silenced = True
        self._event.set()

    async def wait(self, ticket: asyncio.Event, seconds: float) -> None:
        """Wait until the bell rings, or for so many seconds."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(ticket.wait(), max(0.0, seconds))

    def _ring(self) -> None:
        rung = self._event
        if not self.silenced:
            self._event = asyncio.Event()
        rung.set()
