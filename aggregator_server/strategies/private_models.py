"""Private rounds of strategies that train a network: each group's sum counts like the upload of one device.

The groups' mean weights go through the plan's rule, their mean scores through label-wise beta averaging, as devices'
would. Rules see groups alone, so what a liar does to its own group's sum is not taken back.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from aggregator_server.aggregation.contract import Contribution, RoundInputs, RoundResult, UploadTerms
from aggregator_server.aggregation.label_wise_beta import DeviceScores, label_wise
from aggregator_server.errors import AggregationError, MalformedUpdateError
from aggregator_server.strategies import weight_sharing
from aggregator_server.strategies.group_sums import GroupSum, check_masked, described, read_sums, require_one
from fleet_protocol.errors import PlanError, SecureSumError
from fleet_protocol.messages.rest import RoundPlan, Update
from fleet_protocol.numbers.arrays import Floats, Ints
from fleet_protocol.numbers.tensors import Arrays
from fleet_protocol.secure_sums.layouts import CHANGE, ScoreLayout, ScoreSums, WeightLayout
from fleet_protocol.secure_sums.masking import Words


def check_plan(plan: RoundPlan) -> None:
    """Check that a round's sums can be written. Raises PlanError: they cannot."""
    try:
        WeightLayout.of(plan, {})
    except SecureSumError as error:
        raise PlanError(f"{error}; ask for smaller groups") from error


def check_weights(terms: UploadTerms, update: Update, arrays: Arrays) -> None:
    """Check a masked upload of weights. Raises MalformedUpdateError: it does not fit."""
    assert terms.plan is not None
    if terms.manifest is None:
        raise MalformedUpdateError("the round has no shared model, so it takes no weights")
    check_masked(terms, update, arrays, WeightLayout.of(terms.plan, terms.manifest.weight_shapes).length)


def check_scores(terms: UploadTerms, update: Update, arrays: Arrays) -> None:
    """Check a masked upload of scores. Raises MalformedUpdateError: it does not fit."""
    assert terms.plan is not None
    check_masked(terms, update, arrays, ScoreLayout.of(terms.plan, len(terms.class_ids), terms.samples).length)


def aggregate_weights(inputs: RoundInputs) -> RoundResult:
    """Combine the groups' mean weights by the plan's rule (pure). Raises AggregationError: there are none."""
    if inputs.model is None:
        raise AggregationError("the round has no shared model")
    before, layout = inputs.model.weights, WeightLayout.of(inputs.plan, inputs.model.manifest.weight_shapes)
    sums = [one.judged(partial(_impossible_change, layout, one.devices)) for one in read_sums(inputs)]
    require_one(sums)
    groups = tuple(
        _as_device(inputs, one, partial(layout.mean, one.words, one.devices, before))
        for one in sums
        if one.words is not None
    )
    result = weight_sharing.aggregate(replace(inputs, contributions=groups))
    rule = result.details["aggregation"]
    out = {
        one.group.index: {"rule": rule["screened"][one.name]} for one in sums if one.name in rule.get("screened", ())
    }
    return replace(result, details=_with_rule(described(sums, out), rule))


def aggregate_scores(inputs: RoundInputs) -> RoundResult:
    """Average the groups' mean scores label by label (pure). Raises AggregationError: there are none."""
    public_set, settings = inputs.public_set, inputs.plan.aggregation.settings
    layout = ScoreLayout.of(inputs.plan, len(public_set.classes), len(public_set.labels))
    sums = [one.judged(partial(_impossible_scores, layout, one.devices)) for one in read_sums(inputs)]
    require_one(sums)
    averaged = label_wise(
        [_scores_of(one.name, layout.read(one.words), inputs.consensus) for one in sums if one.words is not None],
        public_set.labels,
        public_set.synthetic,
        inputs.consensus,
        above_chance=bool(settings["above_chance"]),
    )
    betas = {public_set.class_ids[column]: found for column, found in averaged.betas.items()}
    return RoundResult(
        public_set=public_set,
        consensus=averaged.scores,
        assignments=(),
        details=_with_rule(described(sums, {}), {"accuracies": averaged.accuracies, "betas": betas}),
    )


def _with_rule(details: dict[str, Any], rule: dict[str, Any]) -> dict[str, Any]:
    """Return details with what the rule says of groups, none of which is a device."""
    return {**details, "aggregation": {**details["aggregation"], "of_groups": rule}}


def _impossible_change(layout: WeightLayout, devices: int, words: Words) -> str | None:
    """Return what no sum of so many honest devices says; None where it may be one."""
    if np.abs(layout.point.decode(words)).max(initial=0.0) > devices * CHANGE:
        return "its sum says a change of weights that its devices may not send"
    return None


def _as_device(inputs: RoundInputs, one: GroupSum, mean: Callable[[], Arrays]) -> Contribution:
    """Return a group as if it were a device with as many clips as the group has devices; ``mean``: of weights."""
    update = Update(
        round_id=inputs.round_id,
        device_id=one.name,
        features=inputs.public_set.settings.digest,
        public_set="",
        classes=inputs.public_set.class_ids,
        clips=one.devices,
    )
    return Contribution(update, lambda: {weight_sharing.PREFIX + name: array for name, array in mean().items()})


def _impossible_scores(layout: ScoreLayout, devices: int, words: Words) -> str | None:
    table, slack = layout.read(words), layout.point.slack(devices)
    if (table.devices < 0).any() or (table.devices > devices).any() or (table.devices % 1).any():
        return "its sum says a number of devices that it has not"
    off = np.where(table.devices > 0, table.betas <= 0, table.betas != 0) | (table.betas > table.devices + slack)
    if off.any():
        return "its sum says weights that its devices do not have"
    if (table.scores < 0).any() or (table.scores > table.betas + slack).any():
        return "its sum says scores that are no probabilities"
    return None


def _scores_of(name: str, table: ScoreSums, consensus: Floats) -> DeviceScores:
    """Return a group's mean scores on top of the fleet's, of the classes that its devices have."""
    columns: Ints = np.flatnonzero(table.devices > 0)
    own = table.scores[:, columns] / table.betas[columns]
    return DeviceScores(name, columns, (consensus[:, columns] + own).astype(np.float32))
