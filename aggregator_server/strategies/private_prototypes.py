"""Prototypes in a private round: the server reads the sums of groups, and combines them as it does devices' prototypes.

A group counts like a device: the rule is the geometric median of the groups' means, weighted by their clips. Groups
that stand out are dropped, and their members suspected (aggregation/group_screen.py). Votes of open rounds are neither
used nor changed. A class that nobody in the round has keeps its prototype.

In a round with noise the sums are of whitened directions. A class is there if the count over all groups stands out of
the noise. A group's direction is divided by the groups' mean count, because its own is noisy, and the centre of the
groups becomes an embedding again.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from aggregator_server.aggregation.contract import RoundInputs, RoundResult, UploadTerms
from aggregator_server.aggregation.group_screen import FAR, is_undecided, ratios, stand_out
from aggregator_server.aggregation.prototype_mean import alike, combine, combine_order
from aggregator_server.discovery.public_embedding import PublicEmbedding
from aggregator_server.errors import AggregationError
from aggregator_server.strategies.group_sums import (
    GroupSum,
    check_masked,
    described,
    heard,
    impossible,
    read_sums,
    require_one,
)
from fleet_protocol.bundle.bundle_file import shipped_manifest
from fleet_protocol.errors import PlanError, SecureSumError
from fleet_protocol.limits import WORD_S
from fleet_protocol.messages.public_set import PublicSet
from fleet_protocol.messages.rest import RoundPlan, Update
from fleet_protocol.methods.setting import Value
from fleet_protocol.numbers.arrays import Bools, Doubles, Floats
from fleet_protocol.numbers.fleet_prototypes import FleetPrototypes
from fleet_protocol.numbers.tensors import Arrays
from fleet_protocol.numbers.word_order import WordOrder
from fleet_protocol.secure_sums.bounded_sums import BoundedLayout, means_of
from fleet_protocol.secure_sums.layouts import RANGE, ClassSums, SumLayout
from fleet_protocol.secure_sums.masking import Words
from fleet_protocol.secure_sums.roster import threshold_of

_NO_EMBEDDING = "its sum says numbers that no embedding has"


def check_plan(plan: RoundPlan) -> None:
    """Check that a round's sums can be written. Raises PlanError: they would be too large."""
    try:
        _layout_of(plan, 1, (1,))
    except SecureSumError as error:
        raise PlanError(f"{error}; ask for smaller groups, or for a smaller vote_cap") from error


def _layout_of(plan: RoundPlan, classes: int, shape: tuple[int, ...]) -> SumLayout | BoundedLayout:
    kind = BoundedLayout if plan.private is not None and plan.private.noise else SumLayout
    return kind.of(plan, classes, shape)


def check(terms: UploadTerms, update: Update, arrays: Arrays) -> None:
    """Check a masked upload, which says nothing but its numbers. Raises MalformedUpdateError: it says more, or less."""
    assert terms.plan is not None
    check_masked(terms, update, arrays, _layout_of(terms.plan, len(terms.class_ids), terms.settings.shape).length)


def aggregate(inputs: RoundInputs) -> RoundResult:
    """Combine the sums of a round's groups (pure: the same inputs give the same result, bit for bit).

    Raises AggregationError: no group's sum can be read.
    """
    layout = _layout_of(inputs.plan, len(inputs.public_set.classes), inputs.public_set.settings.shape)
    space = None if isinstance(layout, BoundedLayout) else PublicEmbedding(inputs.public_set)
    sums = [one.judged(_why_not(one, layout, space)) for one in read_sums(inputs)]
    require_one(sums)
    tables = _tables(layout, sums)
    settings = inputs.plan.aggregation.settings | {"vote_cap": float("inf")}  # each device's was capped by itself
    distances = np.stack([_distances(tables, column, space, settings) for column in range(layout.classes)], axis=1)
    compared = ratios(distances)
    out = stand_out(compared)
    combined = _combined([table for table, is_out in zip(tables, out, strict=True) if not is_out], space, settings)
    if space is None:
        combined = _as_embeddings(inputs, combined)
    has_order = isinstance(layout, SumLayout) and layout.windows > 0
    found = _with_former(inputs, combined, has_order=has_order, settings=inputs.plan.aggregation.settings)
    return RoundResult(
        public_set=inputs.public_set,
        consensus=inputs.consensus if inputs.has_consensus else None,
        assignments=(),
        details=_details(inputs.public_set, sums, compared, out, found),
        state=inputs.state,
        prototypes=found,
    )


def _tables(layout: SumLayout | BoundedLayout, sums: Sequence[GroupSum]) -> list[ClassSums]:
    read = [(one, one.words) for one in sums if one.words is not None]
    if isinstance(layout, SumLayout):
        return [layout.read(words) for _, words in read]
    return heard([layout.read(words) for _, words in read], [_deviation(layout, one) for one, _ in read])


def _deviation(layout: BoundedLayout, one: GroupSum) -> float:
    return layout.deviation_of(one.devices, threshold_of(len(one.group.members)))


def _why_not(
    one: GroupSum, layout: SumLayout | BoundedLayout, space: PublicEmbedding | None
) -> Callable[[Words], str | None]:
    """Return what says why so many honest devices have no such sum; None where they may."""

    def why(words: Words) -> str | None:
        if isinstance(layout, BoundedLayout):
            return impossible(layout.read(words), one.devices, _deviation(layout, one))
        table = layout.read(words)
        has = table.devices[:, 0] > 0
        if (found := _impossible(table, one.devices, layout)) is not None or space is None:
            return found
        return None if space.holds(table.numbers[has, 0] / table.weights[has, :1]) else _NO_EMBEDDING

    return why


def _impossible(table: ClassSums, devices: int, layout: SumLayout) -> str | None:
    """Return what no sum of so many honest devices says; None where it may be one."""
    counts, weights = table.devices[:, 0], table.weights
    slack = layout.point.slack(devices)
    if (counts < 0).any() or (counts > devices).any() or (counts != np.rint(counts)).any():
        return "its sum says a number of devices that it has not"
    if (weights < 0).any() or (weights > layout.vote_cap * counts[:, None] + slack).any():
        return "its sum says more clips than its devices may count"
    if ((counts > 0) & (weights[:, 0] <= 0)).any() or (np.diff(weights, axis=1) > slack).any():
        return "its sum says clips of windows, and none of the word"
    if (np.abs(table.numbers) > RANGE * weights[..., None] + slack).any():
        return _NO_EMBEDDING
    before = weights[:, 1] if layout.windows else np.zeros(len(counts))
    if (table.lengths < 0).any() or (table.lengths > WORD_S * before + slack).any():
        return "its sum says a length that no word has"
    return None


def _points(tables: Sequence[ClassSums], column: int) -> tuple[Bools, Doubles, Doubles]:
    """Return which groups have a class, bool [groups], their means, float64 [those, numbers], and weights."""
    has = np.array([table.devices[column, 0] > 0 for table in tables])
    weights = np.array([table.weights[column, 0] for table in tables])[has]
    rows = [table.numbers[column, 0] / table.weights[column, 0] for table in tables if table.devices[column, 0] > 0]
    return has, np.asarray(rows), weights


def _distances(
    tables: Sequence[ClassSums], column: int, space: PublicEmbedding | None, settings: Mapping[str, Value]
) -> Doubles:
    """Return how far groups' means of a class lie from their centre, float64 [groups]; NaN where one has none."""
    has, points, weights = _points(tables, column)
    result = np.full(len(tables), np.nan)
    if has.any():
        whitening = _whitening(space, points)
        centre = combine(points, weights, whitening, settings)
        result[has] = np.sqrt(weights) * np.linalg.norm((points - centre) @ whitening, axis=1)
    return result


def _whitening(space: PublicEmbedding | None, points: Doubles) -> Doubles:
    """Return what makes points scatter alike; directions do already."""
    return np.eye(points.shape[1]) if space is None else space.whitening


@dataclass(frozen=True)
class _Combined:
    """A class's prototype, and what comes before it."""

    mean: Doubles
    groups: int
    order: tuple[Floats, float]


def _combined(
    tables: Sequence[ClassSums], space: PublicEmbedding | None, settings: Mapping[str, Value]
) -> dict[int, _Combined]:
    """Return the prototypes of the classes that a group has, by column."""
    found: dict[int, _Combined] = {}
    for column in range(len(tables[0].devices)):
        has, points, weights = _points(tables, column)
        if not has.any():
            continue
        whitening = _whitening(space, points)
        mean = combine(points, weights, whitening, settings)
        if space is None:  # only the newest window travels in a round with noise
            found[column] = _Combined(mean, int(has.sum()), (np.zeros((0, 1, points.shape[1]), np.float32), 0.0))
            continue
        words = [_order_of(table, column) for table, one_has in zip(tables, has, strict=True) if one_has]
        order = combine_order(
            WordOrder.of(words, (1, points.shape[1])),
            weights,
            whitening,
            settings,
            lambda sent: alike(space.directions(sent)),
        )
        found[column] = _Combined(mean, int(has.sum()), order)
    return found


def _as_embeddings(inputs: RoundInputs, combined: Mapping[int, _Combined]) -> dict[int, _Combined]:
    """Return prototypes of directions. Raises AggregationError: the front end's statistics are others by now."""
    plan, manifest = inputs.plan.private, shipped_manifest(inputs.public_set.settings.digest)
    statistics = None if manifest is None else manifest.embedding_statistics
    if plan is None or manifest is None or statistics is None or manifest.statistics_digest != plan.statistics:
        raise AggregationError("this server has not the front end's statistics by which the round's devices whitened")
    return {
        column: replace(one, mean=means_of(statistics, one.mean[None])[0].astype(np.float64))
        for column, one in combined.items()
    }


def _order_of(table: ClassSums, column: int) -> tuple[Floats, float]:
    """Return a group's windows before the newest, float32 [states, 1, numbers], and the length, s.

    Those count that devices with more than half of the class's weight have.
    """
    weights = table.weights[column]
    count = 0
    while count + 1 < len(weights) and 2 * weights[count + 1] > weights[0]:
        count += 1
    if not count:
        return np.zeros((0, 1, table.numbers.shape[2]), np.float32), 0.0
    rows = table.numbers[column, 1 : count + 1] / weights[1 : count + 1, None]
    return rows.astype(np.float32)[:, None], float(table.lengths[column] / weights[1])


def _with_former(
    inputs: RoundInputs, combined: Mapping[int, _Combined], *, has_order: bool, settings: Mapping[str, Value]
) -> FleetPrototypes:
    """Return the fleet's prototypes: the round's, and the former ones of classes that no group has."""
    public_set, former, shape = inputs.public_set, inputs.prototypes, inputs.public_set.settings.shape
    place = {} if former is None else {class_id: row for row, class_id in enumerate(former.class_ids)}
    ids, means, counts, orders, provisional = list[str](), list[Floats](), list[int](), list[Any](), list[str]()
    for column, info in enumerate(public_set.classes):
        if (one := combined.get(column)) is not None:
            windows, length_s = one.order
            means.append(one.mean.reshape(shape).astype(np.float32))
            counts.append(one.groups)
            orders.append((windows.reshape(-1, *shape), length_s))
            few = one.groups < int(settings["provisional"]) and info.discovered_in is not None
        elif former is not None and info.class_id in place:
            row = place[info.class_id]
            means.append(former.means[row])
            counts.append(int(former.devices[row]))
            orders.append((np.zeros((0, *shape), np.float32), 0.0) if former.order is None else former.order.word(row))
            few = info.class_id in former.provisional
        else:
            continue
        ids.append(info.class_id)
        provisional += [info.class_id] if few else []
    return FleetPrototypes(
        features=public_set.settings.digest,
        class_ids=tuple(ids),
        means=np.asarray(means, np.float32).reshape(-1, *shape),
        devices=np.array(counts, np.int64),
        provisional=tuple(provisional),
        negatives=None if former is None or former.negatives is None else former.negatives.only(ids),
        order=WordOrder.of(orders, shape) if has_order else None,
    )


def _details(
    public_set: PublicSet, sums: Sequence[GroupSum], compared: Doubles, out: Bools, found: FleetPrototypes
) -> dict[str, Any]:
    """Return what people see: the outcome of each group, and whose sums stood out."""
    read, stood_out = [one.group.index for one in sums if one.words is not None], dict[int, dict[str, Any]]()
    for index, ratio, is_out in zip(read, compared.round(3).tolist(), out.tolist(), strict=True):
        if is_out:
            far = {one: value for one, value in zip(public_set.class_ids, ratio, strict=True) if value > FAR}
            stood_out[index] = {"distances": far}
    details = described(sums, stood_out)
    devices = dict(zip(found.class_ids, found.devices.tolist(), strict=True))
    provisional = list(found.provisional)
    details["aggregation"] |= {"devices": devices, "provisional": provisional, "undecided": is_undecided(compared)}
    return details
