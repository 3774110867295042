"""The devices' weights as one matrix, a row for each device: what every aggregation rule of weights looks at.

A layer is one run of columns, its kernel before its bias, for layer-wise rules treat it as one vector (Bai et al.
2025, section 4.3). The matrix is the only copy of the uploads. It is read in runs of some columns of all devices, which
lie one after the other. One that is too large for the memory is a mapped file without a name: it is gone with the
process, however that ends. What a rule computes does not depend on where the matrix lies, to the last bit.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from math import floor, prod
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from aggregator_server.errors import AggregationError
from fleet_protocol.bundle.bundle_file import Layer
from fleet_protocol.numbers.arrays import Array, Doubles, Floats
from fleet_protocol.numbers.tensors import Arrays

_THREADS = min(4, os.cpu_count() or 1)
_ALONE = 2**21  # numbers, at most, that one thread looks through before several had begun
IN_MEMORY_BYTES = 2**28  # of a matrix; a larger one is a mapped file
_NUMBERS, _FEWEST_COLUMNS = 2**18, 16  # of a run, and of rows that are written at once; among many devices it has more
_FEWEST_ROWS, _MOST_ROWS = 256, 2_048  # of a task that looks at some devices


@dataclass(frozen=True)
class Layout:
    """Where every array of weights lies in a row."""

    layers: tuple[Layer, ...]  # arrays of each layer, as the bundle's manifest groups them
    shapes: Mapping[str, tuple[int, ...]]

    @cached_property
    def columns(self) -> dict[str, slice]:
        """Columns of every array, layer after layer."""
        names = [name for layer in self.layers for name in layer.weights]
        ends = accumulate((prod(self.shapes[name]) for name in names), initial=0)
        return {name: slice(*ends) for name, ends in zip(names, pairwise(ends), strict=True)}

    @cached_property
    def layer_columns(self) -> dict[str, slice]:
        """Columns of every layer."""
        return {
            layer.name: slice(self.columns[layer.weights[0]].start, self.columns[layer.weights[-1]].stop)
            for layer in self.layers
        }

    @property
    def width(self) -> int:
        """Number of weights."""
        return sum(prod(self.shapes[name]) for name in self.columns)

    def flatten(self, arrays: Mapping[str, Array], into: Floats | None = None) -> Floats:
        """Write arrays into one row, float32 [width]; arrays that the layout does not name are left out.

        Raises AggregationError: an array is missing, has another shape, or is not float32.
        """
        row = np.empty(self.width, np.float32) if into is None else into
        for name, columns in self.columns.items():
            array = arrays.get(name)
            if array is None or array.shape != tuple(self.shapes[name]) or array.dtype != np.float32:
                given = "missing" if array is None else f"{array.dtype} {array.shape}"
                raise AggregationError(
                    f"weights {name!r} must be float32 {tuple(self.shapes[name])}, but are {given}; "
                    "send the weights of the round's model, all of them"
                )
            row[columns] = array.reshape(-1)
        return row

    def split(self, row: Floats) -> Arrays:
        """Cut a row, float32 [width], into its arrays."""
        return {name: row[columns].reshape(self.shapes[name]) for name, columns in self.columns.items()}


@dataclass(frozen=True)
class Updates:
    """What the devices uploaded."""

    layout: Layout  # Meaning of the columns
    device_ids: tuple[str, ...]  # Owners of the rows, ascending, so that no result depends on the order of uploads
    # Uploaded weights, float32 [devices * weights], finite, run after run; only norm clipping, before any rule, changes
    # them
    stored: Floats
    mapping: mmap.mmap | None = None  # File of ``stored``; None where it is in memory
    start: Floats | None = None  # Weights that the devices started from, float32 [weights]; None where nobody says it

    @classmethod
    def empty(cls, layout: Layout, device_ids: Sequence[str], scratch: Path | None = None) -> Updates:
        """Make room for uploads.

        Args:
            scratch: folder on disk, with room for 4 bytes of each number of a matrix that is too large for the memory;
                None: the system's.

        Raises:
            AggregationError: there is no device, or they are not ordered.
            OSError: the folder takes no file, or the disk is full.
        """
        if not device_ids:
            raise AggregationError("at least one device's weights are needed, and nobody uploaded any")
        if any(first >= second for first, second in pairwise(device_ids)):
            raise AggregationError("the rows must be ordered by device id, each once; stack_updates does that")
        numbers = len(device_ids) * layout.width
        if 4 * numbers <= IN_MEMORY_BYTES:
            return cls(layout, tuple(device_ids), np.empty(numbers, np.float32))
        with tempfile.TemporaryFile(dir=scratch) as file:
            os.posix_fallocate(file.fileno(), 0, 4 * numbers)  # a full disk is an error here, and no crash later
            mapping = mmap.mmap(file.fileno(), 4 * numbers)
        return cls(layout, tuple(device_ids), np.frombuffer(mapping, np.float32), mapping)

    @classmethod
    def of_rows(cls, layout: Layout, device_ids: Sequence[str], rows: Floats) -> Updates:
        """Return uploads that are given as rows, float32 [devices, weights]; the errors are those of :meth:`empty`."""
        updates = cls.empty(layout, device_ids)
        updates.write(slice(0, len(updates)), rows)
        return updates

    @cached_property
    def runs(self) -> tuple[tuple[str, slice], ...]:
        """Runs of columns that lie in one piece, in order, each with the name of its layer."""
        most = max(_FEWEST_COLUMNS, _NUMBERS // len(self))
        return tuple(
            (layer, slice(first, min(first + most, columns.stop)))
            for layer, columns in self.layout.layer_columns.items()
            for first in range(columns.start, columns.stop, most)
        )

    def run(self, columns: slice) -> Floats:
        """Return a run, float32 [devices, columns]: no copy."""
        run: Floats = self.stored[len(self) * columns.start : len(self) * columns.stop].reshape(len(self), -1)
        return run

    def write(self, rows: slice, block: Floats) -> None:
        """Write the rows of some devices, float32 [some, weights]."""
        for _, columns in self.runs:
            self.run(columns)[rows] = block[:, columns]
        self._release()

    def row(self, number: int) -> Floats:
        """Return a device's weights, float32 [weights]: a copy."""
        row: Floats = np.concatenate([self.run(columns)[number] for _, columns in self.runs])
        self._release()
        return row

    def in_runs(self, work: Callable[[str, slice, Floats], None]) -> None:
        """Call ``work`` on (layer, columns, float32 [devices, columns]) of every run, on several threads."""

        def of_runs(numbers: slice) -> None:
            for layer, columns in self.runs[numbers]:
                work(layer, columns, self.run(columns))
                self._release()

        in_blocks(of_runs, len(self.runs), 1, self._threads)

    def in_rows(self, work: Callable[[slice], None]) -> None:
        """Call ``work`` on some devices after the other, on several threads; it reads them by :meth:`runs_of`."""
        in_blocks(work, len(self), min(_MOST_ROWS, max(_FEWEST_ROWS, len(self) // 8)), self._threads)

    def runs_of(self, rows: slice) -> Iterator[tuple[str, slice, Floats]]:
        """Yield (layer, columns, float32 [some, columns]) of some devices, run after run."""
        for layer, columns in self.runs:
            yield layer, columns, self.run(columns)[rows]
            self._release()

    @property
    def _threads(self) -> int:
        return 1 if self.stored.size <= _ALONE else _THREADS

    def _release(self) -> None:
        """Let the system have the memory of what was looked at: it is in the file."""
        if self.mapping is not None:
            self.mapping.madvise(mmap.MADV_DONTNEED)

    def __len__(self) -> int:
        """Return the number of devices."""
        return len(self.device_ids)


def stack_updates(
    layout: Layout, uploads: Mapping[str, Callable[[], Mapping[str, Array]]], scratch: Path | None = None
) -> Updates:
    """Read every device's upload once, into its row of the matrix; several are read at the same time.

    Args:
        uploads: By device, a function that returns its arrays, for example out of a blob; called from other threads.
        scratch: Folder on disk for a matrix that is too large for the memory; None: the system's.

    Raises:
        AggregationError: nobody uploaded, or an upload does not fit the layout; names the device.
        OSError: the folder takes no file, or the disk is full.
    """
    updates = Updates.empty(layout, sorted(uploads), scratch)

    def fill(rows: slice) -> None:
        block = np.empty((rows.stop - rows.start, layout.width), np.float32)
        for row, device_id in zip(block, updates.device_ids[rows], strict=True):
            try:
                layout.flatten(uploads[device_id](), row)
            except AggregationError as error:
                raise AggregationError(f"the upload of device {device_id}: {error}") from error
        updates.write(rows, block)

    in_blocks(fill, len(updates), max(1, _NUMBERS // max(1, layout.width)))
    return updates


def in_blocks(work: Callable[[slice], None], length: int, size: int, threads: int = _THREADS) -> None:
    """Call ``work`` on every block of a range, on threads; the blocks are the same on every machine."""
    blocks = [slice(start, min(start + size, length)) for start in range(0, length, size)]
    if len(blocks) == 1 or threads == 1:
        for block in blocks:
            work(block)
        return
    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(work, blocks):
            pass


def stable_order(values: Sequence[float] | Doubles) -> NDArray[np.intp]:
    """Return the indices that sort ascending; values that agree to six digits count as equal and keep their order.

    The sixth digit is about as far as float32 sums can be trusted: beyond it, rounding would choose among devices.
    """
    given = np.asarray(values, np.float64)
    order = np.argsort(given, kind="stable")
    ordered = given[order]
    apart = np.diff(ordered) > 1e-6 * np.abs(ordered[1:])
    ranks = np.concatenate([[0], np.cumsum(apart)])
    stable: NDArray[np.intp] = order[np.lexsort((order, ranks))]
    return stable


def floor_of(share: float, count: int) -> int:
    """Return floor(share * count) as people compute it: of 0.29 and 100 it is 29, though the product is below."""
    return floor(share * count + 1e-9)


def layer_distances(updates: Updates, centre: Floats) -> dict[str, Doubles]:
    """Return every device's squared distance from a point, float32 [weights], by layer: float64 [devices]."""
    squares = {layer: np.zeros(len(updates)) for layer in updates.layout.layer_columns}

    def measure(rows: slice) -> None:
        for layer, columns, values in updates.runs_of(rows):
            difference = np.subtract(values, centre[columns], dtype=np.float64)
            squares[layer][rows] += np.einsum("ij,ij->i", difference, difference)

    updates.in_rows(measure)
    return squares
