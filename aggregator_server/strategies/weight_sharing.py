"""Strategies that share a model (FedAvg and its descendants): what the aggregator does with the devices' weights.

Slot k of the shared head is the fleet's k-th class, on every device. The columns of a device's new sounds come after
these, in the order of its reports, and mean something else on every device: they are left out of the aggregation. What
they hold becomes the start of the class that the sound turns out to be.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aggregator_server.aggregation.contract import (
    Assigned,
    Contribution,
    RoundInputs,
    RoundResult,
    SharedModel,
    UploadTerms,
)
from aggregator_server.aggregation.plausible import check_weights
from aggregator_server.aggregation.updates import Layout, Updates, stack_updates
from aggregator_server.aggregation.weights import aggregate_weights
from aggregator_server.discovery.new_classes import extend
from aggregator_server.discovery.new_sounds import check_arrays, check_document, recognise
from aggregator_server.errors import AggregationError, MalformedUpdateError
from fleet_protocol.arrays import Doubles
from fleet_protocol.messages import Choice, Update
from fleet_protocol.tensors import Arrays

PREFIX = "weights/"
Combine = Callable[[Choice, Updates, Doubles, Arrays, Arrays], tuple[Arrays, Arrays, dict[str, Any]]]


def check(terms: UploadTerms, update: Update, arrays: Arrays) -> None:
    """Check an upload: its document, and that its arrays are weights of the shared model.

    Raises:
        MalformedUpdateError: naming what is wrong.
    """
    check_document(terms, update)
    if terms.manifest is None:
        raise MalformedUpdateError("the round has no shared model, so it takes no weights")
    wanted = {PREFIX + name: tuple(shape) for name, shape in terms.manifest.weight_shapes.items()}
    check_arrays(terms, update, arrays, dict(wanted))
    for name in wanted:
        check_weights(name, arrays[name])
    if not 0.0 <= update.label_entropy <= 20.0:  # holds for NaN too
        raise MalformedUpdateError(f"label_entropy must be from 0 to 20 nats, not {update.label_entropy!r}")


def aggregate(inputs: RoundInputs, combine: Combine = aggregate_weights) -> RoundResult:
    """Combine the weights of a round (pure: the same inputs give the same result, bit for bit).

    Where nobody uploaded weights, because devices of other networks alone took part, they stay as they are.

    Args:
        inputs: of the round.
        combine: the rule: (the plan's aggregation, uploads, sizes, previous weights, state) -> (new weights, new
            state, JSON-ready details).

    Raises:
        AggregationError: the rule cannot combine these uploads.
    """
    if inputs.model is None:
        raise AggregationError("the round has no shared model")
    model = inputs.model
    contributions = sorted(inputs.contributions, key=lambda c: c.update.device_id)
    reassigned, settled = recognise(inputs, contributions)
    assigned = reassigned + (settled.assignments if settled else ())
    weights, state, rule_details = model.weights, model.state, dict[str, Any]()
    if contributions:
        uploads = {c.update.device_id: lambda c=c: _known_columns(model, c, inputs) for c in contributions}
        layout = Layout(model.manifest.layers, {n: tuple(shape) for n, shape in model.manifest.weight_shapes.items()})
        sizes = np.array([c.update.clips for c in contributions], np.float64)
        stacked = stack_updates(layout, uploads)
        weights, state, rule_details = combine(inputs.plan.aggregation, stacked, sizes, model.weights, model.state)
    public_set = settled.public_set if settled else inputs.public_set
    believed = [c for c in contributions if c.update.device_id not in rule_details.get("screened", ())]
    weights = _new_columns(model, weights, inputs, public_set.class_ids, believed, assigned)
    consensus = None
    if inputs.has_consensus:
        consensus = extend(inputs.consensus, len(public_set.labels), len(public_set.classes))
    details = {"aggregation": rule_details, "discovery": settled.details if settled else None}
    return RoundResult(
        public_set=public_set,
        consensus=consensus,
        assignments=assigned,
        details=details,
        weights=weights,
        state=state,
    )


def _known_columns(model: SharedModel, contribution: Contribution, inputs: RoundInputs) -> Arrays:
    """Return a device's weights with the head's columns beyond the fleet's classes as they were before."""
    read, classes = contribution.read(), len(inputs.public_set.classes)
    arrays = {name.removeprefix(PREFIX): array for name, array in read.items() if name.startswith(PREFIX)}
    for name in model.manifest.head.weights:
        column = arrays[name].copy()
        column[..., classes:] = model.weights[name][..., classes:]
        arrays[name] = column
    return arrays


def _new_columns(
    model: SharedModel,
    weights: Arrays,
    inputs: RoundInputs,
    class_ids: Sequence[str],
    contributions: Sequence[Contribution],
    assigned: Sequence[Assigned],
) -> Arrays:
    """Return the weights with a column for every class that was discovered: the mean of its reporters' columns.

    A class that only screened devices, or devices of other networks, reported keeps the column of its slot, which
    nobody has trained.
    """
    former, capacity = len(inputs.public_set.classes), model.manifest.slots
    reports = {
        (c.update.device_id, report.slot): (c, former + place)
        for c in contributions for place, report in enumerate(c.update.reports)
    }  # fmt: skip
    result = {name: array.copy() for name, array in weights.items()}
    for slot, class_id in enumerate(class_ids[former:capacity], start=former):
        reporters = [(a.device_id, a.slot) for a in assigned if a.class_id == class_id]
        places = [reports[reporter] for reporter in reporters if reporter in reports]
        found = [(contribution.read(), place) for contribution, place in places]
        if not found:
            continue
        for name in model.manifest.head.weights:
            columns = [arrays[PREFIX + name][..., place] for arrays, place in found]
            result[name][..., slot] = np.mean(columns, axis=0, dtype=np.float64)
    return result
