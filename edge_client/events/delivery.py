"""Delivers items to something slow in a thread of its own: listening never waits for a disk or a program."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from edge_client.logs import RateLimitedLog

Item = TypeVar("Item")


class Delivery(Generic[Item]):
    """A bounded queue and a thread that empties it, from the first item on; ``dropped``: items that found it full."""

    def __init__(self, name: str, deliver: Callable[[Item], None], capacity: int = 256) -> None:
        """Prepare. ``deliver``: called with one item at a time; what it raises is logged.

        ``name``: of the receiver, for the log; ``capacity``: how many items may wait; more are dropped, counted and
        logged.
        """
        self.dropped = 0
        self._name, self._deliver, self._capacity = name, deliver, capacity
        self._waiting: deque[Item] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._thread: threading.Thread | None = None
        self._trouble = RateLimitedLog(logging.getLogger(__name__))

    def put(self, item: Item) -> None:
        """Take an item; never waits."""
        with self._changed:
            full = len(self._waiting) >= self._capacity
            if full or self._closed:
                self.dropped += 1
            else:
                self._waiting.append(item)
                self._changed.notify()
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name=f"to {self._name}", daemon=True)
                    self._thread.start()
        if full:
            self._trouble.warning("%s is too slow: dropped one of what waits for it", self._name)

    def close(self, timeout_s: float) -> bool:
        """Take no more; wait until all that was taken is delivered, or the time is over. Return whether it is."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(timeout_s)
            return not self._thread.is_alive()
        return True

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                if not self._waiting:
                    return
                item = self._waiting.popleft()
            try:
                self._deliver(item)
            except Exception as error:
                self._trouble.warning("%s failed: %s", self._name, error, exc_info=True)
