"""The devices' weights as one matrix, a row for each device: what every aggregation rule of weights looks at.

A layer is one run of columns, its kernel before its bias, for layer-wise rules treat it as one vector (Bai et al.
2025, section 4.3). The matrix is the only copy of the uploads; rules work on it block by block.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, pairwise
from math import floor, prod

import numpy as np
from numpy.typing import DTypeLike, NDArray

from aggregator_server.errors import AggregationError
from fleet_protocol.arrays import Array, Bools, Doubles, Floats
from fleet_protocol.bundle import Layer
from fleet_protocol.tensors import Arrays

_THREADS = min(4, os.cpu_count() or 1)
_ROWS = 32  # of one task that fills rows


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
        matrix: Uploaded weights, float32 [devices, weights], finite; only norm clipping, before any rule, changes them.
        start: Weights that the devices started from, float32 [weights]; None where nobody says it.
    """

    layout: Layout
    device_ids: tuple[str, ...]
    matrix: Floats
    start: Floats | None = None

    def __post_init__(self) -> None:
        if self.matrix.shape != (len(self.device_ids), self.layout.width) or not self.device_ids:
            raise AggregationError(
                f"{len(self.device_ids)} devices' rows of {self.layout.width} weights were expected, at least one, "
                f"not a matrix of shape {self.matrix.shape}"
            )
        if any(first >= second for first, second in pairwise(self.device_ids)):
            raise AggregationError("the rows must be ordered by device id, each once; stack_updates does that")

    def taken(self, devices: Bools) -> Updates:
        """Return the uploads of some of the devices, bool [devices], at least one: a copy of their rows."""
        ids = tuple(name for name, is_taken in zip(self.device_ids, devices, strict=True) if is_taken)
        return replace(self, device_ids=ids, matrix=self.matrix[devices])

    def __len__(self) -> int:
        """Return the number of devices."""
        return len(self.device_ids)


def stack_updates(layout: Layout, uploads: Mapping[str, Callable[[], Mapping[str, Array]]]) -> Updates:
    """Read every device's upload once, straight into its row of the matrix; several are read at the same time.

    Args:
        uploads: By device, a function that returns its arrays, for example out of a blob; called from other threads.

    Raises:
        AggregationError: nobody uploaded, or an upload does not fit the layout; names the device.
    """
    device_ids = tuple(sorted(uploads))
    matrix = np.empty((len(device_ids), layout.width), np.float32)

    def fill(rows: slice) -> None:
        for row in range(rows.start, rows.stop):
            try:
                layout.flatten(uploads[device_ids[row]](), matrix[row])
            except AggregationError as error:
                raise AggregationError(f"the upload of device {device_ids[row]}: {error}") from error

    in_blocks(fill, len(device_ids), _ROWS)
    return Updates(layout, device_ids, matrix)


def in_blocks(work: Callable[[slice], None], length: int, size: int) -> None:
    """Call ``work`` on every block of a range, on several threads; the blocks are the same on every machine."""
    blocks = [slice(start, min(start + size, length)) for start in range(0, length, size)]
    if len(blocks) == 1 or _THREADS == 1:
        for block in blocks:
            work(block)
        return
    with ThreadPoolExecutor(_THREADS) as pool:
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


def layer_distances(updates: Updates, centre: Floats) -> dict[str, Doubles]:
    """Return every device's squared distance from a point, by layer: float64 [devices].

    Args:
        centre: float32 [weights].
    """
    squares = _squares(updates, centre, np.float32)
    if not np.isfinite(squares).all():  # an upload is so far off that float32 holds no square of it
        squares = _squares(updates, centre, np.float64)
    return dict(zip(updates.layout.layer_columns, squares, strict=True))


def _squares(updates: Updates, centre: Floats, dtype: DTypeLike) -> Doubles:
    """Squared distances, float64 [layers, devices]."""
    layers = list(updates.layout.layer_columns.values())
    squares = np.empty((len(layers), len(updates)))

    def measure(task: slice) -> None:
        differences = np.empty((_AT_ONCE, len(centre)), dtype)
        with np.errstate(over="ignore"):
            for start in range(task.start, task.stop, _AT_ONCE):
                rows = updates.matrix[start : start + _AT_ONCE]
                difference = np.subtract(rows, centre, out=differences[: len(rows)], dtype=dtype)
                for layer, columns in enumerate(layers):
                    part = difference[:, columns]
                    squares[layer, start : start + _AT_ONCE] = np.einsum("ij,ij->i", part, part)

    in_blocks(measure, len(updates), _TASK)
    return squares
