"""Layer-wise pruning aggregation, LPA (Bai et al. 2025, "FedMLAC", equations 9 to 13).

For every layer l over the devices S:
    mean_l = (1 / |S|) sum_k theta_{k,l}                                                     (9)
    delta_{k,l} = || theta_{k,l} - mean_l ||_2                                               (10)
    T_l = S without the floor(v_h |S|) largest and the floor(v_l |S|) smallest delta_{k,l}   (11, 12)
    theta_l = sum over k in T_l of (n_k / n_{T_l}) theta_{k,l}                               (13)
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aggregator_server.aggregation.rule import LESS_THAN_HALF, Combined, Rule, Values
from aggregator_server.aggregation.updates import Updates, floor_of, layer_distances, stable_order
from aggregator_server.aggregation.weighted_mean import weighted_mean, weighted_means
from fleet_protocol.methods.setting import Setting
from fleet_protocol.numbers.arrays import Doubles, Floats


@dataclass(frozen=True)
class Pruned:
    """What LPA made of the uploads."""

    weights: Floats  # mean of what was kept, float32 [weights]
    lowest: dict[str, list[str]]  # devices dropped for the smallest deviations, by layer, smallest first
    highest: dict[str, list[str]]  # devices dropped for the largest deviations, by layer, largest last


def layer_wise_pruning(updates: Updates, sizes: Doubles, v_l: float, v_h: float) -> Pruned:
    """Average every layer over the devices whose deviation from the mean is neither small nor large.

    ``sizes``: float64 [devices], n_k. ``v_l``, ``v_h``: shares dropped for the smallest and the largest deviations,
    each below 0.5; of devices that deviate alike the first by id is taken for the smaller.
    """
    count = len(updates)
    low, high = floor_of(v_l, count), floor_of(v_h, count)
    if not low + high:
        nobody: dict[str, list[str]] = {layer.name: [] for layer in updates.layout.layers}
        return Pruned(weighted_mean(updates, sizes), nobody, nobody)
    mean = weighted_mean(updates, np.ones(count))  # (9)
    lowest, highest, left = {}, {}, {}
    for layer, squares in layer_distances(updates, mean).items():  # (10)
        lowest[layer], kept, highest[layer] = np.split(stable_order(np.sqrt(squares)), [low, count - high])
        left[layer] = _only(sizes, kept)
    return Pruned(weighted_means(updates, left), _names(updates, lowest), _names(updates, highest))


def _only(sizes: Doubles, kept: NDArray[np.intp]) -> Doubles:
    """Sizes with 0 for everybody who is not kept; all alike where the kept ones have none."""
    chosen = np.zeros(len(sizes))
    chosen[kept] = sizes[kept] if sizes[kept].any() else 1.0
    return chosen


def _names(updates: Updates, dropped: dict[str, NDArray[np.intp]]) -> dict[str, list[str]]:
    return {layer: [updates.device_ids[row] for row in rows] for layer, rows in dropped.items()}


def _combine(updates: Updates, sizes: Doubles, values: Values) -> Combined:
    pruned = layer_wise_pruning(updates, sizes, values["v_l"], values["v_h"])
    return pruned.weights, {"dropped_lowest": pruned.lowest, "dropped_highest": pruned.highest}


RULE = Rule(
    "lpa",
    {
        "v_l": Setting(0.1, "share of the devices dropped from a layer for the least deviation", 0.0, LESS_THAN_HALF),
        "v_h": Setting(0.1, "share of the devices dropped from a layer for the most deviation", 0.0, LESS_THAN_HALF),
    },
    _combine,
)
