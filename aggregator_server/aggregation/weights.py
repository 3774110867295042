"""From a plan's aggregation part to the fleet's new weights: clipping, then a rule, then a server optimiser."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from aggregator_server.aggregation.krum import krum, multi_krum
from aggregator_server.aggregation.layer_wise_pruning import layer_wise_pruning
from aggregator_server.aggregation.median import coordinate_median
from aggregator_server.aggregation.norm_clipping import clip_norms
from aggregator_server.aggregation.server_optimisers import server_step
from aggregator_server.aggregation.trimmed_mean import trimmed_mean
from aggregator_server.aggregation.updates import Updates
from aggregator_server.aggregation.weighted_mean import weighted_mean
from aggregator_server.errors import AggregationError
from fleet_protocol.arrays import Doubles, Floats
from fleet_protocol.messages import Choice
from fleet_protocol.plans import complete
from fleet_protocol.tensors import Arrays

Settings = Mapping[str, Any]  # of the types that fleet_protocol.plans says
Combined = tuple[Floats, dict[str, Any]]


def _weighted_mean(updates: Updates, sizes: Doubles, settings: Settings) -> Combined:
    return weighted_mean(updates, sizes if settings["by_size"] else np.ones(len(updates))), {}


def _lpa(updates: Updates, sizes: Doubles, settings: Settings) -> Combined:
    pruned = layer_wise_pruning(updates, sizes, settings["v_l"], settings["v_h"])
    return pruned.weights, {"dropped_lowest": pruned.lowest, "dropped_highest": pruned.highest}


def _median(updates: Updates, _: Doubles, __: Settings) -> Combined:
    return coordinate_median(updates), {}


def _trimmed_mean(updates: Updates, _: Doubles, settings: Settings) -> Combined:
    return trimmed_mean(updates, settings["trim"]), {}


def _krum(updates: Updates, _: Doubles, settings: Settings) -> Combined:
    chosen = krum(updates, settings["byzantine"])
    return chosen.weights, {"chosen": list(chosen.device_ids)}


def _multi_krum(updates: Updates, _: Doubles, settings: Settings) -> Combined:
    chosen = multi_krum(updates, settings["byzantine"], settings["keep"])
    return chosen.weights, {"chosen": list(chosen.device_ids)}


RULES: dict[str, Callable[[Updates, Doubles, Settings], Combined]] = {
    "weighted_mean": _weighted_mean,
    "lpa": _lpa,
    "median": _median,
    "trimmed_mean": _trimmed_mean,
    "krum": _krum,
    "multi_krum": _multi_krum,
}


def aggregate_weights(
    choice: Choice, uploads: Updates, sizes: Doubles, previous: Arrays, state: Arrays
) -> tuple[Arrays, Arrays, dict[str, Any]]:
    """Combine the devices' weights as a plan says; the same bit for bit for the same inputs.

    Args:
        choice: the plan's aggregation part; settings that it leaves out have their defaults.
        uploads: one row of weights for each device, by device id; used up: ``clip_norm`` shortens rows in place.
        sizes: float64 [devices]: the number of clips behind every row.
        previous: the weights that the devices started from.
        state: what this returned after the fleet's last round; empty at first.

    Returns:
        The new weights (float32, of the layout's shapes); the server optimiser's new state, empty without one; and
        JSON-ready details for people: ``clipped`` and what the rule has to say, by device.

    Raises:
        PlanError: there is no such method, or a setting is wrong.
        AggregationError: the method combines no weights, or not these uploads.
    """
    settings: Settings = complete("aggregation", choice).settings
    if choice.name not in RULES:
        raise AggregationError(f"{choice.name!r} combines no weights; rules that do: {', '.join(sorted(RULES))}")
    start = uploads.layout.flatten(previous)
    details: dict[str, Any] = {}
    if settings["clip_norm"]:
        details["clipped"] = clip_norms(uploads, start, settings["clip_norm"])
    combined, said = RULES[choice.name](uploads, sizes, settings)
    if settings["server_optimiser"] == "none":
        return uploads.layout.split(combined), {}, details | said
    moved, state = server_step(
        settings["server_optimiser"],
        start,
        combined,
        state,
        learning_rate=settings["server_learning_rate"],
        beta_1=settings["server_beta_1"],
        beta_2=settings["server_beta_2"],
        tau=settings["server_tau"],
    )
    return uploads.layout.split(moved), state, details | said
