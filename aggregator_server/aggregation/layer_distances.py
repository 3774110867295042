"""How far every device's weights lie from a point, layer by layer: what LPA and the screened mean compare."""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike

from aggregator_server.aggregation.updates import Updates, in_blocks
from fleet_protocol.arrays import Doubles, Floats

_ROWS = 8  # looked at together: what a processor's cache holds
_TASK = 4 * _ROWS


def layer_distances(updates: Updates, centre: Floats) -> dict[str, Doubles]:
    """Return every device's squared distance from a point, by layer: float64 [devices].

    Args:
        updates: the uploads.
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
        differences = np.empty((_ROWS, len(centre)), dtype)
        with np.errstate(over="ignore"):
            for start in range(task.start, task.stop, _ROWS):
                rows = updates.matrix[start : start + _ROWS]
                difference = np.subtract(rows, centre, out=differences[: len(rows)], dtype=dtype)
                for layer, columns in enumerate(layers):
                    part = difference[:, columns]
                    squares[layer, start : start + _ROWS] = np.einsum("ij,ij->i", part, part)

    in_blocks(measure, len(updates), _TASK)
    return squares
