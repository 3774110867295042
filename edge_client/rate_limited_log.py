"""Warnings that may be due many times a second, for years, on a small disk."""

from __future__ import annotations

import logging
import re
import time

_INTERVAL_S = 600.0
_NUMBERS = re.compile(r"\d+")


class RateLimitedLog:
    """Passes a warning on when it is new, and after that once in ten minutes."""

    def __init__(self, log: logging.Logger) -> None:
        """Pass warnings on to a logger."""
        self._log = log
        self._last: dict[str, float] = {}

    def warning(self, message: str) -> None:
        """Log a warning; two that differ in numbers alone are the same."""
        now = time.monotonic()
        self._last = {text: at for text, at in self._last.items() if now - at < _INTERVAL_S}
        key = _NUMBERS.sub("", message)
        if key not in self._last:
            self._last[key] = now
            self._log.warning("%s", message)
