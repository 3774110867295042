"""Strategies that share a model (FedAvg and its descendants): what the aggregator does with the devices' weights.

Slot k of the shared head is the fleet's k-th class, on every device. The columns of a device's new sounds come after
these, in the order of its reports, and mean something else on every device: they are left out of the aggregation. What
they hold becomes the start of the class that the sound turns out to be.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aggregator_server.aggregation import contract
from aggregator_server.aggregation.input_bounds import check_weights
from aggregator_server.aggregation.rule import aggregate_weights
from aggregator_server.aggregation.updates import Layout, Updates, stack_updates
from aggregator_server.discovery.new_classes import extend
from aggregator_server.discovery.new_sounds import recognise
from aggregator_server.errors import AggregationError, MalformedUpdateError
from aggregator_server.strategies.upload_checks import check_arrays, check_document
from fleet_protocol.messages.rest import Choice, Update
from fleet_protocol.numbers.arrays import Doubles
from fleet_protocol.numbers.tensors import Arrays

PREFIX = "weights/"
Combine = Callable[[Choice, Updates, Doubles, Arrays, Arrays], tuple[Arrays, Arrays, dict[str, Any]]]


def check(terms: contract.UploadTerms, update: Update, arrays: Arrays) -> None:
    """Check an upload: its document, and that its arrays are weights of the shared model.

    Raises MalformedUpdateError: naming what is wrong.
    """
    check_document(terms, update)
    if terms.manifest is None:
        raise MalformedUpdateError("the round has no shared model, so it takes no weights")
    wanted = {PREFIX + name: tuple(shape) for name, shape in terms.manifest.weight_shapes.items()}
    check_arrays(terms, update, arrays, dict(wanted))
    for name in wanted:
        check_weights(name, arrays[name])


def aggregate(inputs: contract.RoundInputs, combine: Combine = aggregate_weights) -> contract.RoundResult:
    """Combine the weights of a round (pure: the same inputs give the same result, bit for bit).

    ``combine``: (the plan's aggregation, uploads, sizes, previous weights, state) -> (new weights, new state,
    JSON-ready details). Raises AggregationError: it cannot combine these uploads.
    """
    if inputs.model is None:
        raise AggregationError("the round has no shared model")
    model = inputs.model
    contributions = sorted(inputs.contributions, key=lambda c: c.update.device_id)
    settled = recognise(inputs, contributions)
    uploads = {c.update.device_id: lambda c=c: _known_columns(model, c, inputs) for c in contributions}
    layout = Layout(model.manifest.layers, {n: tuple(shape) for n, shape in model.manifest.weight_shapes.items()})
    sizes = np.array([c.update.clips for c in contributions], np.float64)
    stacked = stack_updates(layout, uploads, inputs.scratch)
    weights, state, rule_details = combine(inputs.plan.aggregation, stacked, sizes, model.weights, model.state)
    public_set = settled.public_set
    believed = [c for c in contributions if c.update.device_id not in rule_details.get("screened", ())]
    former = len(inputs.public_set.classes)
    new = _new_columns(model, former, public_set.class_ids[former:], believed, settled.assignments)
    weights = _with_columns(weights, former, list(new.values()))
    return contract.RoundResult(
        public_set=public_set,
        consensus=extend(inputs.consensus, public_set) if inputs.has_consensus else None,
        assignments=settled.assignments,
        details={"aggregation": rule_details, "discovery": settled.details},
        weights=weights,
        state=state,
    )


def _known_columns(
    model: contract.SharedModel, contribution: contract.Contribution, inputs: contract.RoundInputs
) -> Arrays:
    """Return a device's weights with the head's columns beyond the fleet's classes as they were before."""
    read, classes = contribution.read(), len(inputs.public_set.classes)
    arrays = {name.removeprefix(PREFIX): array for name, array in read.items() if name.startswith(PREFIX)}
    for name in model.manifest.head.weights:
        column = arrays[name].copy()
        column[..., classes:] = model.weights[name][..., classes:]
        arrays[name] = column
    return arrays


def _new_columns(
    model: contract.SharedModel,
    former: int,
    new: Sequence[str],
    contributions: Sequence[contract.Contribution],
    assigned: Sequence[contract.Assigned],
) -> dict[str, Arrays]:
    """Return the head's columns of classes that were discovered, by class and name of the weights."""
    # Each is the mean of its reporters' columns. A class that only screened devices reported, or for whose sound no
    # head had a column left, has none: its slot keeps the column that nobody has trained.
    reports = {
        (c.update.device_id, report.slot): (c, former + place)
        for c in contributions
        for place, report in enumerate(c.update.reports)
        if former + place < model.manifest.slots
    }
    columns: dict[str, Arrays] = {}
    for class_id in new[: model.manifest.slots - former]:
        reporters = [(a.device_id, a.slot) for a in assigned if a.class_id == class_id]
        places = [reports[reporter] for reporter in reporters if reporter in reports]
        found = [(contribution.read(), place) for contribution, place in places]
        columns[class_id] = {
            name: np.mean(
                [arrays[PREFIX + name][..., place] for arrays, place in found], axis=0, dtype=np.float64
            ).astype(np.float32)
            for name in model.manifest.head.weights
            if found
        }
    return columns


def _with_columns(weights: Arrays, first: int, columns: Sequence[Arrays]) -> Arrays:
    """Return weights with some columns of the head replaced, from one of them on."""
    changed = weights | {name: weights[name].copy() for column in columns for name in column}
    for slot, column in enumerate(columns, start=first):
        for name, values in column.items():
            changed[name][..., slot] = values
    return changed
