"""A ring buffer between the thread that records and the thread that listens.

Its memory is allocated once. When nobody reads in time the oldest sound goes: a detector that fell behind should hear
what happens now.
"""

from __future__ import annotations

import threading
import time

import numpy as np

from fleet_protocol.arrays import Floats


class SampleRing:
    """Samples in order, from one thread that puts to one that takes."""

    def __init__(self, capacity: int) -> None:
        """Make it hold up to ``capacity`` samples."""
        self._samples = np.zeros(capacity, np.float32)
        self._first = 0
        self._held = 0
        self._closed = False
        self._changed = threading.Condition()

    def put(self, samples: Floats) -> int:
        """Append float32 [any]; return how many older samples had to go for it."""
        capacity = len(self._samples)
        with self._changed:
            dropped = max(0, self._held + len(samples) - capacity)
            samples = samples[-capacity:]
            gone = max(0, self._held + len(samples) - capacity)
            self._first = (self._first + gone) % capacity
            self._held -= gone
            start = (self._first + self._held) % capacity
            before_end = min(len(samples), capacity - start)
            self._samples[start : start + before_end] = samples[:before_end]
            self._samples[: len(samples) - before_end] = samples[before_end:]
            self._held += len(samples)
            self._changed.notify()
        return dropped

    def take(self, samples: int, timeout_s: float) -> Floats:
        """Return the oldest samples: float32 [samples], fewer when the timeout ends first or no more will arrive."""
        taken = np.empty(samples, np.float32)
        count = 0
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while True:
                count += self._move(taken[count:])
                left_s = deadline - time.monotonic()
                if count == samples or self._closed or left_s <= 0:
                    return taken[:count]
                self._changed.wait(left_s)

    def close(self) -> None:
        """Let nobody wait any longer."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def _move(self, target: Floats) -> int:
        """Fill a target as far as the samples go; return how many."""
        count = min(len(target), self._held)
        before_end = min(count, len(self._samples) - self._first)
        target[:before_end] = self._samples[self._first : self._first + before_end]
        target[before_end:count] = self._samples[: count - before_end]
        self._first = (self._first + count) % len(self._samples)
        self._held -= count
        return count
