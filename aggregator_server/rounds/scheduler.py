"""The loop that moves rounds, and waking many waiting requests at once, without a thread for any of them."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable

from aggregator_server.errors import LeaseLostError, RefusedError, StateAwayError
from aggregator_server.limits import UNNAMED_S, WOKEN_AT_ONCE
from aggregator_server.rounds.lifecycle import advance
from aggregator_server.rounds.queries import read_waiting
from aggregator_server.rounds.result import Compute
from aggregator_server.rounds.retention import remove_left_uploads
from aggregator_server.store.store import Store
from aggregator_server.store.unnamed_blobs import sweep


class Notifier:
    """Wakes its subscribers when something changed. It belongs to the event loop that it was made in.

    A subscriber takes an event, checks whether there is something for it, and only then waits for the event: a
    notification between check and wait is not lost. Who subscribes anew ends its former wait, so that nobody waits
    twice.
    """

    def __init__(self, tell: Callable[[], None] = lambda: None) -> None:
        """Make one; ``tell`` passes a notification on to other servers."""
        self._loop = asyncio.get_running_loop()
        self._tell = tell
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
        """Wake all subscribers, those at other servers too. Any thread may call this."""
        self.notify_here()
        self._tell()

    def notify_here(self) -> None:
        """Wake all subscribers of this server. Any thread may call this."""
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


_log = logging.getLogger(__name__)
_MAX_SLEEP_S = 30.0  # deadlines are wall-clock times, and somebody may set the clock
_RETRY_S = 5.0
# Uploads may come by the hundred in a second: between two looks at the round lie ten times what the last one took.
_LEAST_PAUSE_S, _MOST_PAUSE_S, _OF_LOOKING = 0.005, 0.2, 10
_ALONE = 0  # number of every step where no other server is
_LOOK_S = 1.0  # for what another server wrote and could not tell


Between = Callable[[Store, float], bool]


class RoundScheduler:
    """Calls :func:`advance` whenever the open round may be due, one call at a time, in a worker thread."""

    def __init__(self, store: Store, new_work: Notifier, compute: Compute, between: Between = lambda *_: False) -> None:
        """Make one that does not run yet, in the event loop that will run it; it notifies ``new_work`` of a result.

        ``between``: changes the fleet while no round is open, and says whether it did.
        """
        self._between = between
        self._store = store
        self._compute = compute
        self._new_work = new_work
        self._due = Notifier()
        self._cleaned: int | None = None  # since the steps of another server
        self._write_seen_at = 0.0
        self._sweep_at = 0.0

    def wake(self) -> None:
        """Check the open round now, because something that it may wait for has happened. Any thread may call this."""
        with self._store.leading() as number:
            leads = number is not None
        if leads:
            self.wake_here()
        else:
            self._store.tell("round")

    def wake_here(self) -> None:
        """Do the same where another server said so, or this one may lead by now."""
        self._due.notify_here()

    def clean(self) -> None:
        """Remove the uploads that a server left which moved rounds before, at the start or after another one."""
        with self._store.leading() as number:
            if number not in (None, self._cleaned):
                remove_left_uploads(self._store)
                self._cleaned = number

    async def run(self) -> None:
        """Move rounds forward until cancelled."""
        while True:
            event, began = self._due.subscribe(), time.monotonic()
            try:
                pause = await asyncio.to_thread(self._step)
            except LeaseLostError as error:
                _log.warning("%s; nothing of this step was written", error)
                pause = 0.0
            except StateAwayError as error:
                _log.warning("the open round could not be moved forward: %s; next try in %g s", error, _RETRY_S)
                pause = _RETRY_S
            except Exception:
                _log.exception("the open round could not be moved forward; next try in %g s", _RETRY_S)
                pause = _RETRY_S
            took = time.monotonic() - began if pause else 0.0
            await asyncio.sleep(min(_MOST_PAUSE_S, max(_LEAST_PAUSE_S, _OF_LOOKING * took)))
            await self._due.wait(event, pause)

    def _step(self) -> float:
        """Advance the open round; return after how many seconds the next step is due at the latest."""
        if time.monotonic() >= self._write_seen_at:
            self._write_seen_at = time.monotonic() + _MAX_SLEEP_S
            self._store.write_seen()
        with self._store.leading() as number:
            if number is None:
                return _MAX_SLEEP_S  # woken when the lease comes
            pause = self._move()
            return pause if number == _ALONE else min(pause, _LOOK_S)

    def _change_between(self) -> None:
        try:
            if self._between(self._store, time.time()):
                self._new_work.notify()
        except RefusedError as error:  # a round was opened meanwhile, or nothing else is there
            _log.info("a change between two rounds has to wait: %s", error)

    def _move(self) -> float:
        with self._store.reading() as session:
            is_due, deadline = read_waiting(session, time.time())
        if is_due:
            closed = advance(self._store, time.time(), self._compute, self._new_work.notify)
            if closed is not None:
                _log.info("round %d closed", closed)
            return 0.0  # another round may have followed, and even be over already
        self.clean()
        if deadline is None:
            self._change_between()
        if time.monotonic() >= self._sweep_at:  # while no round is due: to list a store takes its time
            self._sweep_at = time.monotonic() + UNNAMED_S
            sweep(self._store, time.time())
        return _MAX_SLEEP_S if deadline is None else max(0.0, min(_MAX_SLEEP_S, deadline - time.time()))
