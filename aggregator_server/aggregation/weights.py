"""From a plan's aggregation part to the fleet's new weights: bounds, then a rule, then a server optimiser."""

from __future__ import annotations

import dataclasses
from typing import Any

from aggregator_server.aggregation.norm_clipping import clip_norms
from aggregator_server.aggregation.plausible import capped_sizes
from aggregator_server.aggregation.rule import Rule, Values, rules, weight_rules
from aggregator_server.aggregation.server_optimisers import server_step
from aggregator_server.aggregation.updates import Updates
from aggregator_server.errors import AggregationError
from fleet_protocol.arrays import Doubles
from fleet_protocol.messages import Choice
from fleet_protocol.setting import complete
from fleet_protocol.tensors import Arrays


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
        JSON-ready details for people: ``clipped`` and what the rule reports, by device.

    Raises:
        PlanError: a setting is wrong.
        AggregationError: there is no such rule of weights, or it cannot combine these uploads.
    """
    rule = rules().get(choice.name)
    if not isinstance(rule, Rule):
        known = ", ".join(sorted(weight_rules()))
        raise AggregationError(f"{choice.name!r} combines no weights; rules that do: {known}")
    values: Values = complete(f"aggregation method {rule.name!r}", rule.all_settings, choice.settings)
    start = uploads.layout.flatten(previous)
    details: dict[str, Any] = {}
    if values["clip_norm"]:
        details["clipped"] = clip_norms(uploads, start, values["clip_norm"])
    uploads = dataclasses.replace(uploads, start=start)
    combined, more = rule.combine(uploads, capped_sizes(sizes, values["clips_cap"]), values)
    if values["server_optimiser"] == "none":
        return uploads.layout.split(combined), {}, details | more
    moved, state = server_step(
        values["server_optimiser"],
        start,
        combined,
        state,
        learning_rate=values["server_learning_rate"],
        beta_1=values["server_beta_1"],
        beta_2=values["server_beta_2"],
        tau=values["server_tau"],
    )
    return uploads.layout.split(moved), state, details | more
