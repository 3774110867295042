"""The devices' weights as one matrix, a row for each device: what every aggregation rule of weights looks at.

A layer is one run of columns, its kernel before its bias, for layer-wise rules treat it as one vector (Bai et al.
2025, section 4.3). The matrix is the only copy of the uploads; rules work on it block by block. One that is too large
for the memory lies on disk (disk_matrix.py). A rule reads it by :meth:`Updates.row_blocks` or
:meth:`Updates.column_blocks`; what it computes does not depend on where the matrix lies, to the last bit.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, pairwise
from math import floor, prod
from pathlib import Path

import numpy as np
from numpy.typing import DTypeLike, NDArray

from aggregator_server.aggregation.disk_matrix import ROWS_TOGETHER, DiskMatrix
from aggregator_server.errors import AggregationError
from fleet_protocol.arrays import Array, Bools, Doubles, Floats
from fleet_protocol.bundle import Layer
from fleet_protocol.tensors import Arrays

_threads = min(4, os.cpu_count() or 1)
_ROWS = 32  # of one task that fills rows
_COLUMNS = 256  # of one task that sorts columns of a matrix in memory
IN_MEMORY_BYTES = 2**28  # of a matrix; a larger one lies on disk


@dataclass(frozen=True)
class Layout:
    """Where every array of weights lies in a row.

    Attributes:
        layers: Arrays of each layer, as the bundle's manifest groups them.
    """

    layers: tuple[Layer, ...]
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

        Raises:
            AggregationError: an array is missing, has another shape, or is not float32.
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
    """What the devices uploaded.

    Attributes:
        layout: Meaning of the columns.
        device_ids: Owners of the rows, ascending, so that no result depends on the order of uploads.
        stored: Uploaded weights, float32 [devices, weights], finite, in memory or on disk; only norm clipping, before
            any rule, changes them.
        start: Weights that the devices started from, float32 [weights]; None where nobody says it.
        kept: Rows of ``stored`` that are the devices', ascending; None: all. Only where it lies on disk.
    """

    layout: Layout
    device_ids: tuple[str, ...]
    stored: Floats | DiskMatrix
    start: Floats | None = None
    kept: NDArray[np.intp] | None = None

    def __post_init__(self) -> None:
        rows = self.stored.shape[0] if self.kept is None else len(self.kept)
        if (rows, *self.stored.shape[1:]) != (len(self.device_ids), self.layout.width) or not self.device_ids:
            raise AggregationError(
                f"{len(self.device_ids)} devices' rows of {self.layout.width} weights were expected, at least one, "
                f"not a matrix of shape {(rows, *self.stored.shape[1:])}"
            )
        if any(first >= second for first, second in pairwise(self.device_ids)):
            raise AggregationError("the rows must be ordered by device id, each once; stack_updates does that")

    @property
    def matrix(self) -> Floats:
        """All weights in memory, float32 [devices, weights]. One that lies on disk is read whole: it may be large."""
        return self.stored if isinstance(self.stored, np.ndarray) else self.rows(slice(0, len(self)))

    def rows(self, rows: slice) -> Floats:
        """Return the rows of some devices, float32 [some, weights]: of the matrix in memory, or read from disk."""
        if isinstance(self.stored, np.ndarray):
            return self.stored[rows]
        if self.kept is None:
            return self.stored.rows(rows)
        return self.stored.some_rows(self.kept[rows])

    def row_blocks(self) -> Iterator[tuple[int, Floats]]:
        """Yield (number of the first row, rows) of all devices in order: float32 [some, weights].

        Every block but the last has a multiple of 32 rows. A matrix in memory is one block, and not copied.
        """
        step = len(self) if isinstance(self.stored, np.ndarray) else self.stored.row_step
        for start in range(0, len(self), step):
            yield start, self.rows(slice(start, min(start + step, len(self))))

    def write(self, first: int, block: Floats) -> None:
        """Write a changed block of :meth:`row_blocks` back; in memory it is there already."""
        if isinstance(self.stored, DiskMatrix):
            assert self.kept is None  # what changes rows comes before what leaves some out
            self.stored.write(first, block)

    def columns(self, columns: slice) -> Floats:
        """Return whole columns, float32 [devices, some weights]: of the matrix in memory, or read from disk."""
        if isinstance(self.stored, np.ndarray):
            return self.stored[:, columns]
        values = np.ascontiguousarray(self.stored.columns(columns).T)
        return values if self.kept is None else values[self.kept]

    def column_blocks(self, work: Callable[[slice, Floats], None]) -> None:
        """Call ``work`` on (columns, their values, float32 [some columns, devices], a copy), on several threads."""
        stored = self.stored

        def of_columns(columns: slice) -> None:
            if isinstance(stored, np.ndarray):
                work(columns, np.ascontiguousarray(stored[:, columns].T))
            else:
                values = stored.columns(columns)
                work(columns, values if self.kept is None else values[:, self.kept])

        in_blocks(of_columns, self.layout.width, _COLUMNS if isinstance(stored, np.ndarray) else stored.column_step)

    def taken(self, devices: Bools) -> Updates:
        """Return the uploads of some of the devices, bool [devices], at least one: a copy of rows in memory."""
        ids = tuple(name for name, is_taken in zip(self.device_ids, devices, strict=True) if is_taken)
        if isinstance(self.stored, np.ndarray):
            return replace(self, device_ids=ids, stored=self.stored[devices])
        kept = np.arange(len(self)) if self.kept is None else self.kept
        return replace(self, device_ids=ids, kept=kept[devices])

    def __len__(self) -> int:
        """Return the number of devices."""
        return len(self.device_ids)


def stack_updates(
    layout: Layout, uploads: Mapping[str, Callable[[], Mapping[str, Array]]], scratch: Path | None = None
) -> Updates:
    """Read every device's upload once, straight into its row of the matrix; several are read at the same time.

    Args:
        uploads: By device, a function that returns its arrays, for example out of a blob; called from other threads.
        scratch: Folder on disk for a matrix that is too large for the memory; None: the system's.

    Raises:
        AggregationError: nobody uploaded, or an upload does not fit the layout; names the device.
    """
    device_ids = tuple(sorted(uploads))

    def fill(first: int, block: Floats) -> Floats:
        def fill_rows(rows: slice) -> None:
            for row in range(rows.start, rows.stop):
                device_id = device_ids[first + row]
                try:
                    layout.flatten(uploads[device_id](), block[row])
                except AggregationError as error:
                    raise AggregationError(f"the upload of device {device_id}: {error}") from error

        in_blocks(fill_rows, len(block), _ROWS)
        return block

    if 4 * len(device_ids) * layout.width <= IN_MEMORY_BYTES:
        matrix = np.empty((len(device_ids), layout.width), np.float32)
        return Updates(layout, device_ids, fill(0, matrix) if device_ids else matrix)
    on_disk = DiskMatrix(len(device_ids), layout.width, scratch)
    block = np.empty((min(on_disk.row_step, len(device_ids)), layout.width), np.float32)
    for first in range(0, len(device_ids), on_disk.row_step):
        on_disk.write(first, fill(first, block[: len(device_ids) - first]))
    return Updates(layout, device_ids, on_disk)


def use_threads(count: int) -> None:
    """Let this process compute on so many threads; the results do not depend on it."""
    global _threads
    _threads = count


def in_blocks(work: Callable[[slice], None], length: int, size: int) -> None:
    """Call ``work`` on every block of a range, on several threads; the blocks are the same on every machine."""
    blocks = [slice(start, min(start + size, length)) for start in range(0, length, size)]
    if len(blocks) == 1 or _threads == 1:
        for block in blocks:
            work(block)
        return
    with ThreadPoolExecutor(_threads) as pool:
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


_AT_ONCE = 8  # looked at together: what a processor's cache holds
_TASK = 4 * _AT_ONCE
assert _TASK == ROWS_TOGETHER


class LayerDistances:
    """Every device's squared distance from a point, by layer, added up block of rows by block of rows."""

    def __init__(self, updates: Updates, centre: Floats) -> None:
        """Begin with a point, float32 [weights]."""
        self._updates = updates
        self._layers = updates.layout.layer_columns
        self._centre = centre
        self._squares = np.empty((len(self._layers), len(updates)))

    def measure(self, first: int, block: Floats) -> None:
        """Measure a block that :meth:`Updates.row_blocks` yields."""
        self._measure(first, block, np.float32)

    def by_layer(self) -> dict[str, Doubles]:
        """Return the squared distances, by layer: float64 [devices], when all blocks were measured."""
        if not np.isfinite(self._squares).all():  # an upload is so far off that float32 holds no square of it
            for first, block in self._updates.row_blocks():
                self._measure(first, block, np.float64)
        return dict(zip(self._layers, self._squares, strict=True))

    def _measure(self, first: int, block: Floats, dtype: DTypeLike) -> None:
        squares = self._squares[:, first : first + len(block)]

        def measure(task: slice) -> None:
            differences = np.empty((_AT_ONCE, len(self._centre)), dtype)
            with np.errstate(over="ignore"):
                for start in range(task.start, task.stop, _AT_ONCE):
                    rows = block[start : start + _AT_ONCE]
                    difference = np.subtract(rows, self._centre, out=differences[: len(rows)], dtype=dtype)
                    for layer, columns in enumerate(self._layers.values()):
                        part = difference[:, columns]
                        squares[layer, start : start + _AT_ONCE] = np.einsum("ij,ij->i", part, part)

        in_blocks(measure, len(block), _TASK)


def layer_distances(updates: Updates, centre: Floats) -> dict[str, Doubles]:
    """Return every device's squared distance from a point, by layer: float64 [devices].

    Args:
        centre: float32 [weights].
    """
    distances = LayerDistances(updates, centre)
    for first, block in updates.row_blocks():
        distances.measure(first, block)
    return distances.by_layer()
