"""The aggregator's public Python interface: how uploads become a fleet's model, scores and classes, without a server.

docs/python.md shows its use. What stands here keeps its name and meaning within a major version. All of it is pure:
equal input gives equal bytes.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from aggregator_server.aggregation.alpha_update import alpha_update
from aggregator_server.aggregation.label_wise_beta import DeviceScores, LabelWise, label_wise
from aggregator_server.aggregation.rule import aggregate_weights, weight_rules
from aggregator_server.aggregation.updates import Layout, stack_updates
from aggregator_server.discovery.clustering import KnownClass, ReportedClass, discover
from aggregator_server.errors import AggregationError, AggregatorError
from fleet_protocol.bundle.bundle_file import Layer
from fleet_protocol.errors import AuricleError
from fleet_protocol.messages.public_set import PublicSet
from fleet_protocol.messages.rest import Choice
from fleet_protocol.methods.setting import Value
from fleet_protocol.numbers.arrays import Array, Bools, Floats, Ints
from fleet_protocol.numbers.tensors import Arrays

__all__ = [
    "AggregationError",
    "AggregatorError",
    "Arrays",
    "AuricleError",
    "KnownClass",
    "LabelWise",
    "PublicSet",
    "ReportedClass",
    "WeightCombiner",
    "alpha_update",
    "average_scores",
    "discover_classes",
    "weight_rules",
]

Weights = Mapping[str, Array]


class WeightCombiner:
    """A rule of aggregation with its settings, and the state of its server optimiser.

    Attributes:
        details_: What the last :meth:`combine` reported, by device where it concerns one: ``clipped``, and what the
            rule says. Devices are called ``0``, ``1`` and so on, in the order of the uploads, filled up with zeros.
    """

    def __init__(self, rule: str = "weighted_mean", **settings: Value) -> None:
        """Choose a rule.

        Args:
            rule: one of :func:`weight_rules`; docs/methods.md describes them.
            settings: Settings of the rule, of norm clipping in front of it (``clip_norm``) and of the server optimiser
                behind it (``server_optimiser`` and the like); those that are left out have their defaults.
        """
        self._choice = Choice(rule, settings)
        self._state: Arrays = {}
        self.details_: dict[str, Any] = {}

    def combine(self, previous: Weights, uploads: Sequence[Weights], sizes: Sequence[float] | None = None) -> Arrays:
        """Return the fleet's new weights, float32, of the shapes of the previous ones.

        Args:
            previous: the weights that the devices started from, float32 arrays by name. Arrays whose names agree up to
                the last ``/`` make up a layer.
            uploads: each device's weights: the same names and shapes.
            sizes: how many clips each device learned from; None: all the same.

        Raises:
            AggregationError: there is no such rule, uploads are missing or do not fit, or the rule needs more of them.
            PlanError: a setting is unknown or out of its range.
        """
        layout = Layout(_layers(previous), {name: array.shape for name, array in previous.items()})
        digits = len(str(len(uploads)))
        rows = stack_updates(layout, {f"{i:0{digits}}": partial(dict, upload) for i, upload in enumerate(uploads)})
        counts = np.ones(len(uploads)) if sizes is None else np.asarray(sizes, np.float64)
        if counts.shape != (len(uploads),):
            raise AggregationError(f"{len(uploads)} uploads and {counts.size} sizes; give every upload one")
        combined, self._state, self.details_ = aggregate_weights(
            self._choice, rows, counts, {name: np.asarray(array) for name, array in previous.items()}, self._state
        )
        return combined


def average_scores(
    scores: Sequence[Floats],
    columns: Sequence[Sequence[int]],
    labels: Ints,
    *,
    previous: Floats | None = None,
    synthetic: Bools | None = None,
    normalise: bool = True,
    above_chance: bool = True,
) -> LabelWise:
    """Average devices' scores on the public set label by label, each weighted by beta, the device's accuracy on it.

    Gudur & Perepu 2021, algorithm 1. :func:`alpha_update` comes before it.

    Args:
        scores: Scores of each device, float32 [samples, its classes].
        columns: For each device and each of these columns, the column of its class in the result.
        labels: int64 [samples], the public samples' classes.
        previous: float32 [samples, classes], the fleet's scores so far; None: zeros.
        synthetic: bool [samples], True for data impressions; None: all are recordings.
        normalise: divide by sum(beta), label by label; False is the paper to the letter.
        above_chance: beta is the accuracy less that of guessing; False is the paper to the letter.

    Returns:
        The new scores, float32 [samples, classes], each device's accuracy and betas; devices are called as those of
        :class:`WeightCombiner`. A class that nobody scored keeps its column.

    Raises:
        AggregationError: scores do not fit the samples or the columns, or no longer fit float32.
    """
    if len(scores) != len(columns):
        raise AggregationError(f"scores of {len(scores)} devices and columns of {len(columns)}; give every device both")
    digits = len(str(len(scores)))
    devices = []
    for number, (own, classes) in enumerate(zip(scores, columns, strict=True)):
        if own.shape != (len(labels), len(classes)):
            raise AggregationError(
                f"the scores of device {number} have shape {own.shape}; give [{len(labels)}, {len(classes)}]: "
                "a row for each public sample, a column for each of its classes"
            )
        devices.append(DeviceScores(f"{number:0{digits}}", np.asarray(classes, np.int64), own))
    if previous is None:
        present = [int(np.max(labels, initial=-1)), *(int(max(classes)) for classes in columns if len(classes))]
        previous = np.zeros((len(labels), max(present) + 1), np.float32)
    real = np.zeros(len(labels), np.bool_) if synthetic is None else synthetic
    return label_wise(devices, np.asarray(labels, np.int64), real, previous, normalise, above_chance)


def discover_classes(
    reports: Sequence[ReportedClass],
    known: Sequence[KnownClass],
    public_set: PublicSet,
    *,
    count: int | None = None,
    seed: int = 0,
) -> list[tuple[int, ...]]:
    """Return which reports of new sounds are the same class: groups of indices into the reports.

    Args:
        reports: new sounds that devices met, described by ``edge_client.api.Classifier.describe``.
        known: the same devices' descriptions of classes that the fleet has.
        count: how many new classes there are; None: as many as there are names, if every report has one, else the
            number of the best silhouette.
    """
    found = discover(list(reports), list(known), public_set, count=count, seed=seed)
    return [group.members for group in found.groups]


def _layers(arrays: Weights) -> tuple[Layer, ...]:
    grouped: dict[str, list[str]] = {}
    for name in arrays:
        grouped.setdefault(name.rpartition("/")[0], []).append(name)
    return tuple(Layer(name, tuple(members)) for name, members in grouped.items())
