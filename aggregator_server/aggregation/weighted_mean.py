"""The mean of the devices' weights (FedAvg: McMahan et al. 2017, algorithm 1).

theta = sum_k (n_k / sum_j n_j) theta_k
"""

from collections.abc import Mapping

import numpy as np

from aggregator_server.aggregation.rule import Combined, Rule, Values
from aggregator_server.aggregation.updates import Updates
from aggregator_server.errors import AggregationError
from fleet_protocol.methods.setting import Setting
from fleet_protocol.numbers.arrays import Doubles, Floats

_ROWS = 16  # summed in float32, which is fast; the sums are added in float64, which keeps the digits


def weighted_mean(updates: Updates, sizes: Doubles) -> Floats:
    """Return the weighted mean of rows, float32 [weights], right to about the last digit.

    Args:
        sizes: float64 [devices]: n_k, not negative; a device of size 0 does not count, and where all are 0, all
            count alike.

    Raises AggregationError: a size is negative or not finite.
    """
    return weighted_means(updates, dict.fromkeys(updates.layout.layer_columns, sizes))


def weighted_means(updates: Updates, sizes: Mapping[str, Doubles]) -> Floats:
    """Return the weighted mean, as :func:`weighted_mean`, with sizes of their own for every layer."""
    weights = {layer: _weights(updates, of_layer) for layer, of_layer in sizes.items()}
    mean = np.empty(updates.layout.width, np.float32)
    updates.in_runs(lambda layer, columns, values: np.copyto(mean[columns], _mean(values, weights[layer])))
    return mean


def _weights(updates: Updates, sizes: Doubles) -> Floats:
    if not np.isfinite(sizes).all() or (sizes < 0).any():
        worst = int(np.flatnonzero(~np.isfinite(sizes) | (sizes < 0))[0])
        raise AggregationError(
            f"device {updates.device_ids[worst]} says that it learned from {sizes[worst]:g} clips; "
            "a weight in a mean must be 0 or more"
        )
    if not sizes.any():
        sizes = np.ones(len(sizes))
    # By a power of two, which changes no digit, to a sum of at most 1: no partial sum overflows.
    return np.asarray(sizes / 2.0 ** np.ceil(np.log2(sizes.sum())), np.float32)


def _mean(values: Floats, weights: Floats) -> Floats:
    """Return the mean of a run; of one device alone its weights, to the last bit."""
    kept = np.flatnonzero(weights)
    if len(kept) == 1:
        return np.asarray(values[kept[0]])
    products = values * weights[:, None]
    whole = len(products) // _ROWS * _ROWS
    sums = products[:whole].reshape(-1, _ROWS, products.shape[1]).sum(axis=1)
    total = sums.sum(axis=0, dtype=np.float64) + products[whole:].sum(axis=0)
    return np.asarray(total / weights.sum(dtype=np.float64), np.float32)


def _combine(updates: Updates, sizes: Doubles, values: Values) -> Combined:
    return weighted_mean(updates, sizes if values["by_size"] else np.ones(len(updates))), {}


BY_SIZE = Setting(True, "weigh a device by its number of clips; false: all alike (FedKWS-UI)")
RULE = Rule("weighted_mean", {"by_size": BY_SIZE}, _combine)
