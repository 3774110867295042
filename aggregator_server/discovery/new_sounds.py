"""New sounds in uploads of any strategy: the checks of their description, and the classes that they turn out to be."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from aggregator_server.aggregation.contract import Assigned, Contribution, RoundInputs, UploadTerms
from aggregator_server.aggregation.plausible import check_cosines
from aggregator_server.discovery.clustering import Discovery, Group, KnownClass, ReportedClass, discover
from aggregator_server.discovery.new_classes import Settled, settle
from aggregator_server.discovery.public_embedding import PublicEmbedding
from aggregator_server.errors import InvalidRequestError, MalformedUpdateError
from aggregator_server.limits import (
    IMPRESSION_RANGES,
    IMPRESSIONS,
    PROTOTYPE_RANGES,
    REFERENCES_PER_ROUND,
    REPORTS_PER_ROUND,
    SLOTS,
)
from aggregator_server.names import check_name
from fleet_protocol.arrays import Floats
from fleet_protocol.errors import TensorError
from fleet_protocol.limits import REPORTS
from fleet_protocol.messages import Update
from fleet_protocol.tensors import Arrays, require

_DESCRIPTIONS = ("impressions", "profiles", "prototypes")

Shapes = dict[str, tuple[int | None, ...]]


def check_document(terms: UploadTerms, update: Update) -> None:
    """Check the classes and new sounds that an upload's document names.

    Raises:
        MalformedUpdateError: naming what is wrong.
    """
    if not update.classes and not update.reports:
        raise MalformedUpdateError("the upload names no class and reports no new sound, so it says nothing")
    needed = len(terms.class_ids) + len(update.reports)
    if terms.manifest is not None and needed > terms.manifest.slots:
        raise MalformedUpdateError(
            f"{len(terms.class_ids)} classes and {len(update.reports)} new sounds do not fit the shared model's head "
            f"of capacity {terms.manifest.slots}; publish a model that was built with a larger --capacity"
        )
    for field, class_ids in (("classes", update.classes), ("known", update.known)):
        unknown = [class_id for class_id in class_ids if class_id not in terms.class_ids]
        if unknown:
            raise MalformedUpdateError(
                f"{field!r} names {unknown[0]!r}, which is no class of the fleet: {', '.join(terms.class_ids)}"
            )
        twice = [class_id for class_id, times in Counter(class_ids).items() if times > 1]
        if twice:
            raise MalformedUpdateError(f"{field!r} names class {twice[0]!r} twice")
    if len(update.reports) > REPORTS:
        raise MalformedUpdateError(
            f"{len(update.reports)} new sounds in one upload; at most {REPORTS} are taken; report the others later"
        )
    slots = [report.slot for report in update.reports]
    if len(set(slots)) != len(slots) or any(not 0 <= slot < SLOTS for slot in slots):
        raise MalformedUpdateError(f"reported slots must be different and from 0 to {SLOTS - 1}, not {slots}")
    for report in update.reports:
        if report.clips < 1:
            raise MalformedUpdateError(f"the sound in slot {report.slot} was learned from {report.clips} clips")
        try:
            check_name(report.name or "unnamed", f"the name of the sound in slot {report.slot}")
        except InvalidRequestError as error:
            raise MalformedUpdateError(str(error)) from error


def check_arrays(terms: UploadTerms, update: Update, arrays: Arrays, wanted: Shapes) -> None:
    """Check an upload's arrays: the strategy's own, and those that describe new sounds; no other may be there.

    Args:
        wanted: shapes of the strategy's own arrays by name; None is any size.

    Raises:
        MalformedUpdateError: naming the array, what was expected and what was given.
    """
    described = len(update.known) + len(update.reports)
    if described and terms.settings.is_embedding:
        wanted = wanted | {"prototypes": (described, *terms.settings.shape)}
    elif described:
        wanted = wanted | {"impressions": (described, None, *terms.settings.shape)}
        if "profiles" in arrays:
            wanted["profiles"] = (described, terms.samples)
    extra = sorted(set(arrays) - set(wanted))
    if extra:
        raise MalformedUpdateError(f"array {extra[0]!r} does not belong to this upload; expected: {', '.join(wanted)}")
    try:
        for name, shape in wanted.items():
            if require(arrays, name, shape).dtype != np.float32:
                raise MalformedUpdateError(f"array {name!r} must be float32, not {arrays[name].dtype}")
    except TensorError as error:
        raise MalformedUpdateError(str(error)) from error
    if "impressions" in wanted and not 1 <= arrays["impressions"].shape[1] <= IMPRESSIONS:
        raise MalformedUpdateError(
            f"array 'impressions' holds {arrays['impressions'].shape[1]} impressions of each class; "
            f"send 1 to {IMPRESSIONS}"
        )
    _check_descriptions(terms, arrays)


def _check_descriptions(terms: UploadTerms, arrays: Arrays) -> None:
    """Check that descriptions of sounds are such as sounds have."""
    if "profiles" in arrays:
        check_cosines("profiles", arrays["profiles"])
    for name, ranges in (("impressions", IMPRESSION_RANGES), ("prototypes", PROTOTYPE_RANGES)):
        if name in arrays and terms.feature_range is not None:
            terms.feature_range().check(name, arrays[name], ranges)


def recognise(
    inputs: RoundInputs, contributions: Sequence[Contribution]
) -> tuple[tuple[Assigned, ...], Settled | None]:
    """Return the classes of the reported sounds: (those assigned in an earlier round, the rest settled now).

    A device reports a sound again when the answer to its first report got lost.

    Args:
        inputs: Inputs of the round; the reports of its ``others`` are recognised along with the contributions.
    """
    reassigned: list[Assigned] = []
    reports: list[ReportedClass] = []
    known: list[KnownClass] = []
    for contribution in sorted((*contributions, *inputs.others), key=lambda c: c.update.device_id):
        update, device_id = contribution.update, contribution.update.device_id
        if not update.known and not update.reports:
            continue
        described, reported = descriptions(contribution)
        known += described
        for report in reported:
            earlier = inputs.assigned.get((device_id, report.slot))
            if earlier is None:
                reports.append(report)
            elif earlier not in inputs.class_terms.proposed:
                reassigned.append(Assigned(device_id, report.slot, earlier))
    if not reports:
        return tuple(reassigned), None
    found = _grouped_within_bounds(inputs, reports, known)
    settled = settle(inputs.public_set, inputs.round_id, reports, found, inputs.plan.seed, inputs.class_terms)
    return tuple(reassigned), settled


def _grouped_within_bounds(
    inputs: RoundInputs, reports: Sequence[ReportedClass], known: Sequence[KnownClass]
) -> Discovery:
    """Group as many reports as a round looks at, with as many descriptions of known classes as references."""
    chosen = _shared_out([report.device_id for report in reports], REPORTS_PER_ROUND)
    looked_at = [reports[index] for index in chosen]
    reporting = {report.device_id for report in looked_at}
    described = [item for item in known if item.device_id in reporting]
    references = _shared_out([item.device_id for item in described], REFERENCES_PER_ROUND)
    found = _grouped(inputs, looked_at, [described[index] for index in references])
    groups = (Group(tuple(chosen[index] for index in group.members), group.class_id) for group in found.groups)
    details = found.details | {"compared": [chosen[index] for index in found.details.get("compared", ())]}
    return Discovery(tuple(groups), details)


def _shared_out(device_ids: Sequence[str], most: int) -> list[int]:
    """Return indices of so many items at most, as many of each device as of the others: none crowds out another."""
    times: Counter[str] = Counter()
    turns = []
    for index, device_id in enumerate(device_ids):
        turns.append((times[device_id], index))
        times[device_id] += 1
    return sorted(index for _, index in sorted(turns)[:most])


def descriptions(contribution: Contribution) -> tuple[list[KnownClass], list[ReportedClass]]:
    """Return the known classes and the new sounds that an upload describes."""
    update, device_id = contribution.update, contribution.update.device_id
    described = _described(contribution.read(), len(update.known) + len(update.reports))
    known = [KnownClass(device_id, class_id, *item) for class_id, item in zip(update.known, described, strict=False)]
    reports = [
        ReportedClass(device_id, report.slot, report.name, *item)
        for report, item in zip(update.reports, described[len(update.known) :], strict=True)
    ]
    return known, reports


def _described(arrays: Arrays, count: int) -> list[tuple[Floats | None, Floats | None, Floats | None]]:
    """Return impressions, profile and prototype of the classes that an upload describes, without the rest of it."""
    parts = [arrays[name].copy() if name in arrays else [None] * count for name in _DESCRIPTIONS]
    return list(zip(*parts, strict=True))


def _grouped(inputs: RoundInputs, reports: Sequence[ReportedClass], references: Sequence[KnownClass]) -> Discovery:
    """Group the reports that are a class of the fleet already, and those that are new.

    A device never gets a class that it has clips of, or that another of its sounds was recognised as: its owner has two
    names for them. So an owner who disagrees gives the clips another label.
    """
    known: dict[str, list[int]] = {}
    if all(report.prototype is not None for report in reports):
        space, theirs = PublicEmbedding(inputs.public_set), {(item.device_id, item.class_id) for item in references}
        theirs |= {(device_id, class_id) for (device_id, _), class_id in inputs.assigned.items()}
        for index, report in enumerate(reports):
            class_id = space.known_as(report.prototype)
            if class_id is not None and (report.device_id, class_id) not in theirs:
                known.setdefault(class_id, []).append(index)
    taken = {index for members in known.values() for index in members}
    new = [index for index in range(len(reports)) if index not in taken]
    groups, details = [Group(tuple(members), class_id) for class_id, members in known.items()], {}
    if new:
        found = discover(
            [reports[i] for i in new], references, inputs.public_set, count=inputs.new_classes, seed=inputs.plan.seed
        )
        groups += [Group(tuple(new[index] for index in group.members)) for group in found.groups]
        details = found.details | {"compared": new}
    return Discovery(tuple(groups), details)
