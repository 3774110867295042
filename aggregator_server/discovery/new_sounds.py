"""New sounds in uploads of any strategy: the classes that they turn out to be."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from aggregator_server.aggregation.contract import Assigned, Contribution, RoundInputs
from aggregator_server.discovery.clustering import COMPARED, Discovery, Group, KnownClass, ReportedClass, discover
from aggregator_server.discovery.new_classes import Settled, settle
from aggregator_server.discovery.public_embedding import KNOWN_FROM, ORDER_FROM, PublicEmbedding
from aggregator_server.limits import DESCRIPTION_BYTES, REFERENCES_PER_ROUND, REPORTS_PER_ROUND, REPORTS_WHATEVER_BYTES
from fleet_protocol.numbers.arrays import Floats
from fleet_protocol.numbers.fleet_prototypes import FleetPrototypes
from fleet_protocol.numbers.tensors import Arrays
from fleet_protocol.numbers.word_order import WordOrder

_DESCRIPTIONS = ("impressions", "profiles", "prototypes")


def recognise(inputs: RoundInputs, contributions: Sequence[Contribution]) -> Settled:
    """Return the classes of the reported sounds: those assigned in an earlier round, then the rest, settled now.

    A device reports a sound again when the answer to its first report got lost.
    """
    reassigned: list[Assigned] = []
    sounds: list[_Sound] = []
    for contribution in sorted(contributions, key=lambda c: c.update.device_id):
        update, device_id = contribution.update, contribution.update.device_id
        for row, report in enumerate(update.reports, len(update.known)):
            earlier = inputs.assigned.get((device_id, report.slot))
            if earlier is None:
                sounds.append(_Sound(contribution, row, ReportedClass(device_id, report.slot, report.name)))
            else:
                reassigned.append(Assigned(device_id, report.slot, earlier))
    if not sounds:
        return Settled(inputs.public_set, tuple(reassigned), None)
    chosen = _within_bounds(sounds)
    reports, known = _read(sounds, chosen)
    found = _grouped(inputs, [reports[index] for index in chosen], known)
    groups = tuple(Group(tuple(chosen[index] for index in group.members), group.class_id) for group in found.groups)
    places = {name: [chosen[index] for index in found.details.get(name, ())] for name in ("compared", "broad")}
    details = found.details | places
    found = Discovery(groups, details)
    settled = settle(inputs.public_set, inputs.round_id, reports, found, inputs.plan.seed, inputs.class_terms)
    return replace(settled, assignments=(*reassigned, *settled.assignments))


@dataclass(frozen=True)
class _Sound:
    """A reported sound, the row of the upload's arrays that describes it, and the report without that description."""

    contribution: Contribution
    row: int
    report: ReportedClass


def _within_bounds(sounds: Sequence[_Sound]) -> list[int]:
    """Return the sounds that a round looks at, ascending: as many of each device as of others while there is room."""
    # The first ones are looked at whatever they take.
    device_ids = [sound.report.device_id for sound in sounds]
    chosen, left = list[int](), DESCRIPTION_BYTES
    sizes: dict[str, int] = {}
    for index in _in_turns(device_ids)[:REPORTS_PER_ROUND]:
        device_id = device_ids[index]
        if device_id not in sizes:
            arrays = sounds[index].contribution.read()  # all of its descriptions have the same shapes
            sizes[device_id] = sum(arrays[name][0].nbytes for name in _DESCRIPTIONS if name in arrays)
            sizes[device_id] += arrays["before"].nbytes // len(arrays["counts"]) if "before" in arrays else 0
        if len(chosen) >= REPORTS_WHATEVER_BYTES:
            left -= sizes[device_id]
        if left < 0:
            break
        chosen.append(index)
    return sorted(chosen)


def _read(sounds: Sequence[_Sound], chosen: Sequence[int]) -> tuple[list[ReportedClass], list[KnownClass]]:
    """Return all reports, of which the chosen ones are described, and descriptions of known classes as references."""
    reports = [sound.report for sound in sounds]
    of_device: dict[str, list[int]] = {}
    for index in chosen:
        of_device.setdefault(sounds[index].report.device_id, []).append(index)
    updates = [sounds[indices[0]].contribution.update for indices in of_device.values()]
    known = [(update.device_id, row) for update in updates for row in range(len(update.known))]
    references = {known[place] for place in _shared_out([device_id for device_id, _ in known], REFERENCES_PER_ROUND)}
    described: list[KnownClass] = []
    for device_id, indices in of_device.items():
        contribution = sounds[indices[0]].contribution
        arrays, update = contribution.read(), contribution.update
        order = None
        if "before" in arrays:
            order = WordOrder.read(arrays, len(update.known) + len(update.reports), arrays["before"].shape[1:])
        for row, class_id in enumerate(update.known):
            if (device_id, row) in references:
                described.append(KnownClass(device_id, class_id, *_description(arrays, row, order)))
        for index in indices:
            report = reports[index]
            description = _description(arrays, sounds[index].row, order)
            reports[index] = ReportedClass(device_id, report.slot, report.name, *description)
    return reports, described


def _shared_out(device_ids: Sequence[str], most: int) -> list[int]:
    """Return indices of so many items at most, as many of each device as of the others: none crowds out another."""
    return sorted(_in_turns(device_ids)[:most])


def _in_turns(device_ids: Sequence[str]) -> list[int]:
    """Return all indices: every device's first, then every device's second, and so on."""
    times: Counter[str] = Counter()
    turns = []
    for index, device_id in enumerate(device_ids):
        turns.append((times[device_id], index))
        times[device_id] += 1
    return [index for _, index in sorted(turns)]


def _description(arrays: Arrays, row: int, order: WordOrder | None) -> tuple[Floats | None, ...]:
    """Return copies of the impressions, profile, prototype and windows before of a class that an upload describes."""
    before = None if order is None or not order.states[row] else order.word(row)[0].copy()
    return *(arrays[name][row].copy() if name in arrays else None for name in _DESCRIPTIONS), before


def _grouped(inputs: RoundInputs, reports: Sequence[ReportedClass], references: Sequence[KnownClass]) -> Discovery:
    """Group the reports that are a class of the fleet already, and those that are new."""
    # A device never gets a class that it has clips of, or that another of its sounds was recognised as: its owner has
    # two names for them. So an owner who disagrees gives the clips another label.
    known: dict[str, list[int]] = {}
    broad: set[int] = set()
    if all(report.prototype is not None for report in reports):
        space, theirs = PublicEmbedding(inputs.public_set), {(item.device_id, item.class_id) for item in references}
        theirs |= {(device_id, class_id) for (device_id, _), class_id in inputs.assigned.items()}
        for index, report in enumerate(reports):
            assert report.prototype is not None
            class_id = _known_as(report, space, inputs.prototypes)
            if class_id is not None and (report.device_id, class_id) not in theirs:
                known.setdefault(class_id, []).append(index)
            elif space.is_broad(report.prototype):
                broad.add(index)
    taken = {index for members in known.values() for index in members} | broad
    new = [index for index in range(len(reports)) if index not in taken]
    # The others are reported again, when those that are the same sound are a class.
    new = [new[at] for at in _shared_out([reports[index].device_id for index in new], COMPARED)]
    groups, details = [Group(tuple(members), class_id) for class_id, members in known.items()], {}
    if new:
        found = discover(
            [reports[i] for i in new], references, inputs.public_set, count=inputs.new_classes, seed=inputs.plan.seed
        )
        groups += [Group(tuple(new[index] for index in group.members)) for group in found.groups]
        details = found.details | {"compared": new}
    return Discovery(tuple(groups), details | ({"broad": sorted(broad)} if broad else {}))


def _known_as(report: ReportedClass, space: PublicEmbedding, fleet: FleetPrototypes | None) -> str | None:
    """Return the class of the fleet that a report is, which may not differ in what comes before its end; or None."""
    assert report.prototype is not None
    for class_id, cosine in space.cosines(report.prototype).items():
        if cosine < KNOWN_FROM:
            break
        before = None
        if fleet is not None and fleet.order is not None and class_id in fleet.class_ids:
            before, _ = fleet.order.word(fleet.class_ids.index(class_id))
        if report.before is None or space.in_order([report.before, before])[0, 1] >= ORDER_FROM:
            return class_id
    return None
