"""What moves rounds forward in a running server: after every upload, at every deadline, and when the server starts."""

from __future__ import annotations

import asyncio
import logging
import time

from aggregator_server.rounds.lifecycle import advance, next_deadline
from aggregator_server.rounds.notifier import Bell
from aggregator_server.store import Store

_log = logging.getLogger(__name__)
_LONGEST_NAP_S = 30.0  # a wall clock may be set; deadlines are wall-clock
_RETRY_S = 5.0


class RoundClock:
    """Runs the step of the open round whenever it may be due, one at a time, in a worker thread."""

    def __init__(self, store: Store, work: Bell) -> None:
        self._store = store
        self._work = work
        self._due = Bell()

    def nudge(self) -> None:
        """Something happened that the open round may have waited for. Any thread may call this."""
        self._due.ring()

    async def run(self) -> None:
        """Move rounds forward until cancelled."""
        while True:
            ticket = self._due.ticket()
            try:
                nap = await asyncio.to_thread(self._step)
            except Exception:
                _log.exception("the open round could not be moved forward; next try in %g s", _RETRY_S)
                nap = _RETRY_S
            await self._due.wait(ticket, nap)

    def _step(self) -> float:
        """Advance; return how many seconds until the next step is due at the latest."""
        closed = advance(self._store, time.time())
        if closed is not None:
            _log.info("round %d closed", closed)
            self._work.ring()
            return 0.0  # another round may have followed, and even be over already
        deadline = next_deadline(self._store)
        return _LONGEST_NAP_S if deadline is None else min(_LONGEST_NAP_S, max(0.0, deadline - time.time()))
