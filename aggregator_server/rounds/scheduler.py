"""When rounds move forward in a running server: after an upload, at a deadline or a schedule's time, at the start."""

from __future__ import annotations

import asyncio
import logging
import time

from aggregator_server.rounds.candidates import write_seen
from aggregator_server.rounds.computation import Compute
from aggregator_server.rounds.lifecycle import advance
from aggregator_server.rounds.notifier import Notifier
from aggregator_server.rounds.queries import read_waiting
from aggregator_server.rounds.schedules import next_opening, open_scheduled
from aggregator_server.store import Store

_log = logging.getLogger(__name__)
_MAX_SLEEP_S = 30.0  # deadlines are wall-clock times, and somebody may set the clock
_RETRY_S = 5.0
_LEAST_PAUSE_S = 0.005  # uploads may come by the hundred in a second


class RoundScheduler:
    """Calls :func:`advance` whenever the open round may be due, one call at a time, in a worker thread."""

    def __init__(self, store: Store, new_work: Notifier, compute: Compute) -> None:
        """Make one that does not run yet, in the event loop that will run it.

        Args:
            store: the fleet's tables and blobs.
            new_work: is notified when a round closed.
            compute: makes a round's result.
        """
        self._store = store
        self._compute = compute
        self._new_work = new_work
        self._due = Notifier()
        self._write_seen_at = 0.0

    def wake(self) -> None:
        """Look at the open round now: something that it may have waited for has happened. Any thread may call this."""
        self._due.notify()

    async def run(self) -> None:
        """Move rounds forward until cancelled."""
        while True:
            event = self._due.subscribe()
            try:
                pause = await asyncio.to_thread(self._step)
            except Exception:
                _log.exception("the open round could not be moved forward; next try in %g s", _RETRY_S)
                pause = _RETRY_S
            await asyncio.sleep(_LEAST_PAUSE_S)
            await self._due.wait(event, pause)

    def _step(self) -> float:
        """Advance the open round; return after how many seconds the next step is due at the latest."""
        if time.monotonic() >= self._write_seen_at:
            self._write_seen_at = time.monotonic() + _MAX_SLEEP_S
            write_seen(self._store)
        with self._store.reading() as session:
            is_due, deadline = read_waiting(session, time.time())
            opening = next_opening(session)
        if is_due:
            closed = advance(self._store, time.time(), self._compute, self._new_work.notify)
            if closed is not None:
                _log.info("round %d closed", closed)
            return 0.0  # another round may have followed, and even be over already
        if opening is not None and opening <= time.time():
            opened = open_scheduled(self._store, time.time())
            if opened is not None:
                _log.info("round %d opened by its schedule", opened)
                self._new_work.notify()
            return 0.0
        pauses = [due - time.time() for due in (deadline, opening) if due is not None]
        return max(0.0, min([_MAX_SLEEP_S, *pauses]))
