"""How a device's processes write their log, and warnings that may be due many times a second, for years."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time


def set_up_log() -> None:
    """Log to standard error, with the time of each line unless systemd's journal notes it anyway."""
    stamp = "" if _is_journal(sys.stderr.fileno()) else "%(asctime)s "
    logging.basicConfig(
        level=logging.INFO, format=f"{stamp}%(levelname)s %(message)s", datefmt="%Y-%m-%d %H:%M:%S", stream=sys.stderr
    )


def _is_journal(descriptor: int) -> bool:
    """Return whether a file is the journal's: systemd names its device and inode (systemd.exec(5), JOURNAL_STREAM)."""
    found = os.fstat(descriptor)
    return os.environ.get("JOURNAL_STREAM", "") == f"{found.st_dev}:{found.st_ino}"


class RateLimitedLog:
    """Logs warnings of one format at most once per interval; the next one says how many were left out."""

    def __init__(self, log: logging.Logger, interval_s: float = 60.0) -> None:
        self._log, self._interval_s = log, interval_s
        # By format: when the next may be logged, on the monotonic clock, and how many were left out.
        self._kinds: dict[str, tuple[float, int]] = {}
        self._lock = threading.Lock()

    def warning(self, message: str, *values: object, exc_info: bool = False) -> None:
        """Log a warning, or count it."""
        now = time.monotonic()
        with self._lock:
            due, omitted = self._kinds.get(message, (now, 0))
            if now < due:
                self._kinds[message] = due, omitted + 1
                return
            self._kinds[message] = now + self._interval_s, 0
        more = f" ({omitted} more since the last such line)" if omitted else ""
        self._log.warning(message + "%s", *values, more, exc_info=exc_info)
