"""How a device's processes write their log."""

from __future__ import annotations

import logging
import os
import sys


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
