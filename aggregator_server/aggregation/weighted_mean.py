"""The mean of the devices' weights (FedAvg: McMahan et al. 2017, algorithm 1).

theta = sum_k (n_k / sum_j n_j) theta_k
"""

import numpy as np

from aggregator_server.aggregation.rule import Combined, Rule, Values
from aggregator_server.aggregation.updates import Updates, in_blocks
from aggregator_server.errors import AggregationError
from fleet_protocol.arrays import Doubles, Floats
from fleet_protocol.setting import Setting

_COLUMNS = 8_192  # of one task
_FEW = 64  # rows that are averaged sooner than threads have started
_ROWS = 16  # summed in float32, which is fast; the sums are added in float64, which keeps the digits


def weighted_mean(updates: Updates, sizes: Doubles, columns: slice | None = None) -> Floats:
    """Return the weighted mean of rows, float32 [columns], right to about the last digit.

    Args:
        sizes: float64 [devices]: n_k, not negative; a device of size 0 does not count, and where all are 0, all
            count alike.

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
    kept = np.flatnonzero(sizes)
    if len(kept) == 1:  # to the last bit
        return updates.matrix[kept[0], columns or slice(None)].copy()
    part = updates.matrix[:, columns or slice(None)]
    # By a power of two, which changes no digit, to a sum of at most 1: no partial sum overflows.
    weights = (sizes / 2.0 ** np.ceil(np.log2(sizes.sum()))).astype(np.float32)
    total = np.zeros(part.shape[1])

    def add(block: slice) -> None:
        weighted = np.empty((_ROWS, block.stop - block.start), np.float32)
        for start in range(0, len(part), _ROWS):
            rows = part[start : start + _ROWS, block]
            products = np.multiply(rows, weights[start : start + _ROWS, None], out=weighted[: len(rows)])
            total[block] += products.sum(axis=0)

    in_blocks(add, len(total), _COLUMNS if len(part) > _FEW else len(total))
    mean: Floats = (total / weights.sum(dtype=np.float64)).astype(np.float32)
    return mean


def _combine(updates: Updates, sizes: Doubles, values: Values) -> Combined:
    return weighted_mean(updates, sizes if values["by_size"] else np.ones(len(updates))), {}


BY_SIZE = Setting(True, "weigh a device by its number of clips; false: all alike (FedKWS-UI)")
RULE = Rule("weighted_mean", {"by_size": BY_SIZE}, _combine)
