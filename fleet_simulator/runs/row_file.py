"""A file of equally long float32 rows that several processes write at their own places, without mapping it."""

from __future__ import annotations

import os
import weakref
from functools import cached_property
from pathlib import Path

import numpy as np

from fleet_protocol.arrays import Floats


class RowFile:
    """Rows of ``width`` numbers. The file is as long as its last row that was written; holes read as zeros."""

    def __init__(self, path: Path, width: int) -> None:
        self.path = path
        self.width = width

    @cached_property
    def _descriptor(self) -> int:
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        weakref.finalize(self, os.close, descriptor)
        return descriptor

    def write(self, row: int, rows: Floats) -> None:
        """Write one row, float32 [width], or several, [n, width], from a place on."""
        data, place = np.ascontiguousarray(rows, np.float32).data.cast("B"), row * self.width * 4
        while data:
            written = os.pwrite(self._descriptor, data, place)
            data, place = data[written:], place + written

    def read(self, row: int, count: int) -> Floats:
        """Return float32 [count, width]."""
        rows = np.zeros((count, self.width), np.float32)
        data, place = rows.data.cast("B"), row * self.width * 4
        while data and (got := os.preadv(self._descriptor, [data], place)):
            data, place = data[got:], place + got
        return rows

    def flush(self) -> None:
        """Make what any process wrote survive a power cut."""
        os.fsync(self._descriptor)
