"""From groups of reports to new classes of the fleet (Gudur & Perepu 2021, algorithm 1: D_new = D_0 u X^i).

A group that is no class yet becomes one. Its rows in the public set are the average of its members' data impressions,
or, where the features are embeddings, draws around the mean of their prototypes.
"""

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from aggregator_server.aggregation.contract import Assigned, ClassTerms
from aggregator_server.discovery.clustering import Discovery, Group, ReportedClass
from aggregator_server.discovery.public_embedding import PublicEmbedding
from aggregator_server.limits import CLASSES_OF_A_DEVICE, NEW_CLASSES_OF_A_DEVICE
from aggregator_server.names import majority_name, unique_name
from fleet_protocol.messages.public_set import PublicSet
from fleet_protocol.messages.rest import ClassInfo
from fleet_protocol.numbers.arrays import Floats


@dataclass(frozen=True)
class Settled:
    """The groups as classes."""

    public_set: PublicSet  # the public set, grown by the new classes and their rows
    assignments: tuple[Assigned, ...]  # assignments, one for every report that found its class
    # JSON-ready: the reports, the groups with their classes, ``left_open`` and ``limits``; None without a new sound.
    details: dict[str, Any] | None


def settle(
    public_set: PublicSet,
    round_id: int,
    reports: Sequence[ReportedClass],
    discovery: Discovery,
    seed: int = 0,
    terms: ClassTerms | None = None,
) -> Settled:
    """Turn groups into classes, rows and assignments.

    Two sounds of one device are never the same class, because their owner gave them different names. The second in a
    group is left open, and the device reports it again. So are groups for which the fleet has no room.
    """
    terms = terms or ClassTerms()
    fitting = _fitting(discovery.groups, reports, terms, terms.max_classes - len(public_set.classes))
    grown = public_set
    assignments: list[Assigned] = []
    groups: list[dict[str, Any]] = []
    for group in fitting:
        taken = {*grown.class_ids, *terms.reserved}
        class_id = group.class_id or next(new for n in itertools.count(len(taken)) if (new := f"c{n}") not in taken)
        first_of = {reports[index].device_id: index for index in reversed(group.members)}
        members = sorted(first_of.values())
        if group.class_id is None:
            rows = rows_of(public_set, [reports[index] for index in members], np.random.default_rng([seed, members[0]]))
            name = majority_name([reports[index].name for index in members])
            name = name or f"sound-{class_id.removeprefix('c')}"
            grown = _add_class(grown, class_id, round_id, name, rows)
        assignments += [Assigned(reports[i].device_id, reports[i].slot, class_id) for i in members]
        groups.append({"class_id": class_id, "members": members, "known": group.class_id is not None})
    left_open = sorted(set(range(len(reports))) - {index for group in groups for index in group["members"]})
    details = {
        "reports": [{"device_id": r.device_id, "slot": r.slot, "name": r.name} for r in reports],
        "groups": groups,
        "left_open": left_open,
        "details": discovery.details,
        "limits": _limits(len(reports), len(discovery.details.get("broad", ())), discovery.groups, fitting, terms),
    }
    return Settled(grown, tuple(assignments), details)


def _fitting(groups: Sequence[Group], reports: Sequence[ReportedClass], terms: ClassTerms, room: int) -> list[Group]:
    """Return the groups that are classes already, and of the new ones those that may be made, largest first."""
    alone: Counter[str] = Counter()
    made: list[Group] = []
    for group in sorted((g for g in groups if g.class_id is None), key=lambda g: (-len(g.members), g.members)):
        device_ids = {reports[index].device_id for index in group.members}
        first = min(device_ids)
        left = min(NEW_CLASSES_OF_A_DEVICE, CLASSES_OF_A_DEVICE - terms.alone.get(first, 0))
        if len(made) < room and (len(device_ids) > 1 or alone[first] < left):
            made.append(group)
            alone.update(device_ids if len(device_ids) == 1 else ())
    return [group for group in groups if group.class_id is not None or group in made]


def _limits(
    reports: int, broad: int, groups: Sequence[Group], fitting: Sequence[Group], terms: ClassTerms
) -> list[str]:
    waiting, unmade = reports - broad - sum(len(group.members) for group in groups), len(groups) - len(fitting)
    found = []
    if broad:
        found.append(f"{broad} of {reports} reports are like many sounds, or like none; they become no class")
    if waiting:
        found.append(f"{waiting} of {reports} reports wait for a later round; one looks at {reports - waiting - broad}")
    if unmade:
        found.append(
            f"{unmade} new classes were not made: the fleet has no room beyond {terms.max_classes} classes, and one "
            f"device alone brings no more than {NEW_CLASSES_OF_A_DEVICE} in a round and {CLASSES_OF_A_DEVICE} in all; "
            "approve those that are good, retire those that should not be there"
        )
    return found


def extend(consensus: Floats, public_set: PublicSet) -> Floats:
    """Return the consensus with zero rows and columns for what a public set grew by: float32 [samples, classes]."""
    grown = np.zeros((len(public_set.labels), len(public_set.classes)), np.float32)
    grown[: consensus.shape[0], : consensus.shape[1]] = consensus
    return grown


def rows_of(public_set: PublicSet, members: Sequence[ReportedClass], rng: np.random.Generator) -> Floats:
    """Return the rows that stand for a new class of these reports, float32 [rows, frames, coefficients]."""
    prototypes = [member.prototype for member in members if member.prototype is not None]
    if len(prototypes) == len(members):
        return PublicEmbedding(public_set).draw(np.stack(prototypes), rng)
    impressions = [member.impressions for member in members if member.impressions is not None]
    count = min(map(len, impressions))
    return np.asarray(np.mean([rows[:count] for rows in impressions], axis=0, dtype=np.float64), np.float32)


def _add_class(public_set: PublicSet, class_id: str, round_id: int | None, name: str, rows: Floats) -> PublicSet:
    """Return a public set with another class as its last one, and its rows, float32 [rows, frames, coefficients].

    The name gets a number where it is taken.
    """
    name = unique_name(name, [info.name for info in public_set.classes])
    return PublicSet(
        public_set.settings,
        (*public_set.classes, ClassInfo(class_id, name, round_id)),
        np.concatenate([public_set.features, rows]),
        np.concatenate([public_set.labels, np.full(len(rows), len(public_set.classes), np.int64)]),
        np.concatenate([public_set.synthetic, np.ones(len(rows), np.bool_)]),
    )
