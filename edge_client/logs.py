"""How a device's processes write their log, and warnings that may be due many times a second, for years."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time

from fleet_protocol.errors import printable


def set_up_log() -> None:
    """Log to standard error, with the time of each line unless systemd's journal notes it anyway."""
    found = os.fstat(sys.stderr.fileno())  # whose device and inode systemd names (systemd.exec(5), JOURNAL_STREAM)
    is_journal = os.environ.get("JOURNAL_STREAM", "") == f"{found.st_dev}:{found.st_ino}"
    stamp = "" if is_journal else "%(asctime)s "
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_OneLine(f"{stamp}%(levelname)s %(message)s", "%Y-%m-%d %H:%M:%S"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])


class _OneLine(logging.Formatter):
    """Names of files and words of servers can neither forge a line nor reach the terminal; a trace has its lines."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  (the library's name)
        return printable(super().formatMessage(record))


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
