"""Warnings that may be due many times a second, for years, on a small disk."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass


@dataclass
class _Kind:
    """Warnings of one format: when the next may be logged, on the monotonic clock, and how many were left out."""

    due_s: float
    omitted: int = 0


class RateLimitedLog:
    """Logs warnings of one format at most once per interval; the next one says how many were left out."""

    def __init__(self, log: logging.Logger, interval_s: float = 60.0) -> None:
        """Pass warnings on to a logger, one of each format per interval."""
        self._log = log
        self._interval_s = interval_s
        self._kinds: dict[str, _Kind] = {}
        self._lock = threading.Lock()

    def warning(self, message: str, *values: object, exc_info: bool = False) -> None:
        """Log a warning, or count it.

        Args:
            message: Format; warnings with the same format are the same warning.
            values: Values of the format.
            exc_info: Whether the present exception's trace is logged with it.
        """
        now = time.monotonic()
        with self._lock:
            kind = self._kinds.get(message)
            if kind is not None and now < kind.due_s:
                kind.omitted += 1
                return
            self._kinds[message] = _Kind(now + self._interval_s)
        more = f" ({kind.omitted} more since the last such line)" if kind is not None and kind.omitted else ""
        self._log.warning(message + "%s", *values, more, exc_info=exc_info)
