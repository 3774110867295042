"""The mean of the devices' weights (FedAvg: McMahan et al. 2017, algorithm 1).

theta = sum_k (n_k / sum_j n_j) theta_k
"""

from collections.abc import Sequence

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
    return weighted_means(updates, [(columns or slice(0, updates.layout.width), sizes)])


def weighted_means(updates: Updates, parts: Sequence[tuple[slice, Doubles]]) -> Floats:
    """Return a weighted mean, as :func:`weighted_mean`, for each of several runs of columns, one behind the other."""
    means = [_Mean(updates, columns, sizes) for columns, sizes in parts]
    if any(mean.only is None for mean in means):
        for first, block in updates.row_blocks():
            for mean in means:
                mean.add(first, block)
    return np.concatenate([mean.value() for mean in means])


class _Mean:
    """The weighted mean of a run of columns, added up block of rows by block of rows."""

    def __init__(self, updates: Updates, columns: slice, sizes: Doubles) -> None:
        if not np.isfinite(sizes).all() or (sizes < 0).any():
            worst = int(np.flatnonzero(~np.isfinite(sizes) | (sizes < 0))[0])
            raise AggregationError(
                f"device {updates.device_ids[worst]} says that it learned from {sizes[worst]:g} clips; "
                "a weight in a mean must be 0 or more"
            )
        if not sizes.any():
            sizes = np.ones(len(sizes))
        kept = np.flatnonzero(sizes)
        self.only = int(kept[0]) if len(kept) == 1 else None
        self._updates, self._columns = updates, columns
        # By a power of two, which changes no digit, to a sum of at most 1: no partial sum overflows.
        self._weights = (sizes / 2.0 ** np.ceil(np.log2(sizes.sum()))).astype(np.float32)
        self._total = np.zeros(columns.stop - columns.start)

    def add(self, first: int, block: Floats) -> None:
        """Add a block of rows, float32 [some, all weights]."""
        part, weights = block[:, self._columns], self._weights[first : first + len(block)]

        def add(columns: slice) -> None:
            weighted = np.empty((_ROWS, columns.stop - columns.start), np.float32)
            for start in range(0, len(part), _ROWS):
                rows = part[start : start + _ROWS, columns]
                products = np.multiply(rows, weights[start : start + _ROWS, None], out=weighted[: len(rows)])
                self._total[columns] += products.sum(axis=0)

        in_blocks(add, len(self._total), _COLUMNS if len(self._updates) > _FEW else len(self._total))

    def value(self) -> Floats:
        """Return the mean of all blocks, float32 [columns]; of one device alone its weights, to the last bit."""
        if self.only is not None:
            return self._updates.rows(slice(self.only, self.only + 1))[0, self._columns].copy()
        mean: Floats = (self._total / self._weights.sum(dtype=np.float64)).astype(np.float32)
        return mean


def _combine(updates: Updates, sizes: Doubles, values: Values) -> Combined:
    return weighted_mean(updates, sizes if values["by_size"] else np.ones(len(updates))), {}


BY_SIZE = Setting(True, "weigh a device by its number of clips; false: all alike (FedKWS-UI)")
RULE = Rule("weighted_mean", {"by_size": BY_SIZE}, _combine)
