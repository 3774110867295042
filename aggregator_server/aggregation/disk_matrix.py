"""A matrix that is too large for the memory: float32 in a temporary file, in tiles.

Both a few whole rows and a few whole columns are read in pieces of some ten kilobytes, one after the other in the file.
The file has no name: it is gone with the process, however that ends.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fleet_protocol.arrays import Floats

BLOCK_BYTES = 2**23  # of a block of rows or columns; a thread holds about two
ROWS_TOGETHER = 32  # rows that a task of a rule works on: a block has a multiple, so that sums do not depend on it
_NUMBER = 4  # bytes


class DiskMatrix:
    """Rows and columns of numbers on disk. Threads may read at the same time, and write different rows.

    Attributes:
        shape: Numbers of rows and columns.
        folder: Folder of the file; None: the system's.
        row_step: Rows of a block that is read or written at once, a multiple of 32.
        column_step: Columns of a block that is read at once.
    """

    def __init__(self, rows: int, columns: int, folder: Path | None = None) -> None:
        """Make a matrix of zeros.

        Args:
            folder: on a disk with room for 4 bytes of each number; None: the system's folder for temporary files.

        Raises:
            OSError: the folder takes no file.
        """
        self.shape, self.folder = (rows, columns), folder
        at_once = BLOCK_BYTES // _NUMBER
        self.row_step = max(ROWS_TOGETHER, at_once // max(1, columns) // ROWS_TOGETHER * ROWS_TOGETHER)
        self.column_step = max(1, min(columns, at_once // rows))
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - open for as long as the matrix is there

    def write(self, first: int, block: Floats) -> None:
        """Write whole rows, float32 [some, columns].

        Raises:
            OSError: the disk is full.
        """
        for rows in self._row_parts(slice(first, first + len(block))):
            for columns in self._column_blocks():
                tile = np.ascontiguousarray(block[rows.start - first : rows.stop - first, columns])
                left, place = tile.data.cast("B"), self._place(rows.start, columns)
                while left:
                    written = os.pwrite(self._file.fileno(), left, place)
                    left, place = left[written:], place + written

    def rows(self, rows: slice) -> Floats:
        """Return whole rows, float32 [some, columns]: a copy."""
        block = np.empty((rows.stop - rows.start, self.shape[1]), np.float32)
        for part in self._row_parts(rows):
            for columns in self._column_blocks():
                block[part.start - rows.start : part.stop - rows.start, columns] = self._read(part, columns)
        return block

    def some_rows(self, numbers: NDArray[np.intp]) -> Floats:
        """Return whole rows by their numbers, which ascend: float32 [some, columns]; a copy."""
        ends = np.flatnonzero(np.diff(numbers // self.row_step)) + 1
        parts = [part for part in np.split(numbers, ends) if len(part)]  # one of each block: little else is read
        found = np.empty((len(numbers), self.shape[1]), np.float32)
        start = 0
        for part in parts:
            found[start : start + len(part)] = self.rows(slice(int(part[0]), int(part[-1]) + 1))[part - part[0]]
            start += len(part)
        return found

    def columns(self, columns: slice) -> Floats:
        """Return whole columns, each in one piece: float32 [some columns, rows]; a copy.

        The blocks of columns that they lie in are read.
        """
        block = np.empty((columns.stop - columns.start, self.shape[0]), np.float32)
        for whole in self._column_blocks():
            start, stop = max(columns.start, whole.start), min(columns.stop, whole.stop)
            for part in self._row_parts(slice(0, self.shape[0])) if start < stop else ():
                tile = self._read(part, whole)[:, start - whole.start : stop - whole.start]
                block[start - columns.start : stop - columns.start, part] = tile.T
        return block

    def _column_blocks(self) -> list[slice]:
        step, end = self.column_step, self.shape[1]
        return [slice(start, min(start + step, end)) for start in range(0, end, step)]

    def _row_parts(self, rows: slice) -> list[slice]:
        """Cut rows where blocks end."""
        parts, start = [], rows.start
        while start < rows.stop:
            stop = min(rows.stop, start - start % self.row_step + self.row_step)
            parts.append(slice(start, stop))
            start = stop
        return parts

    def _read(self, rows: slice, columns: slice) -> Floats:
        tile = np.empty((rows.stop - rows.start, columns.stop - columns.start), np.float32)
        left, place = tile.data.cast("B"), self._place(rows.start, columns)
        while left:
            count = os.preadv(self._file.fileno(), [left], place)
            if not count:  # nothing was ever written there
                left[:] = bytes(len(left))
                break
            left, place = left[count:], place + count
        return tile

    def _place(self, row: int, columns: slice) -> int:
        """Return where a row's piece of a tile begins: blocks of rows, in them blocks of columns, in them rows."""
        first = row - row % self.row_step
        height = min(self.row_step, self.shape[0] - first)
        before = first * self.shape[1] + height * columns.start
        return _NUMBER * int(before + (row - first) * (columns.stop - columns.start))
