"""The mean of the devices' weights (FedAvg: McMahan et al. 2017, algorithm 1).

theta = sum_k (n_k / sum_j n_j) theta_k
"""

from __future__ import annotations

import numpy as np

from aggregator_server.aggregation.updates import Sizes, Updates, Vector, in_blocks
from aggregator_server.errors import AggregationError

_ROWS = 16  # summed in float32; the sums of blocks are added in float64
_COLUMNS = 6_400


def weighted_mean(updates: Updates, sizes: Sizes, columns: slice | None = None) -> Vector:
    """Return the weighted mean of rows, float32 [columns], right to about the last digit.

    Args:
        updates: the uploads.
        sizes: float64 [devices]: n_k, not negative; a device of size 0 does not count, and where all are 0, all
            count alike.
        columns: of the matrix; None: all.

    Raises:
        AggregationError: a size is negative or not finite.
    """
    if not np.isfinite(sizes).all() or (sizes < 0).any():
        worst = int(np.flatnonzero(~np.isfinite(sizes) | (sizes < 0))[0])
        raise AggregationError(
            f"device {updates.device_ids[worst]} says that it learned from {sizes[worst]:g} clips; "
            "a weight in a mean must be 0 or more"
        )
    if not sizes.any():
        sizes = np.ones(len(sizes))
    # By a power of two, which changes no digit, to a sum of at most 1: no partial sum overflows.
    scaled = sizes / 2.0 ** np.ceil(np.log2(sizes.sum()))
    part, weights = updates.matrix[:, columns or slice(None)], scaled.astype(np.float32)
    mean = np.empty(part.shape[1], np.float32)

    def combine(block: slice) -> None:
        total = np.zeros(block.stop - block.start)
        for start in range(0, len(part), _ROWS):
            total += weights[start : start + _ROWS] @ part[start : start + _ROWS, block]
        mean[block] = total / weights.sum(dtype=np.float64)

    in_blocks(combine, part.shape[1], _COLUMNS)
    return mean
