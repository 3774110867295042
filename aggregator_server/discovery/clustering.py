"""Which reports of new sounds are the same class (Gudur & Perepu 2021, algorithm 1, global update, choice 2).

A report is described by its profile: how much every public recording sounds like it to the device, less the mean over
each public class. Two devices that mean the same sound find the same public recordings a little like it, whatever their
architectures. Then k-medoids by cosine distance. The devices' descriptions of KNOWN classes are the reference classes:
where nobody says how many new classes there are, the number is taken that gives reports and reference classes together
the best silhouette, which can also be one.

(The paper clusters data impressions. On Speech Commands, from networks of different designs, they agreed no better than
chance: docs/class-discovery.md. They are used where a device sent no profile.)

Where the features are embeddings of one network, reports are described by prototypes alone; of long words that share
their end by what comes before it too.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from aggregator_server.discovery.public_embedding import KNOWN_FROM, ORDER_FROM, PublicEmbedding
from fleet_protocol.messages.public_set import PublicSet
from fleet_protocol.numbers.arrays import Doubles, Floats, Ints

# Distance of two sounds that are known to differ: the largest cosine distance.
_APART = 2.0
# Maximum of the numbers of classes that are tried: each costs a clustering.
_MAX_COUNTS = 64
# Most reports that are compared with one another: time and memory grow with their square.
COMPARED = 512
# Maximum of the reports whose similarities are kept for people.
_MAX_SHOWN = 64


@dataclass(frozen=True)
class ReportedClass:
    """A new sound that a device met."""

    device_id: str
    slot: int
    name: str | None  # Name that the owner gave it; None where it is not shared. It helps to count, never to match
    # Data impressions, float32 [n, frames, coefficients]; None where the features are an embedding
    impressions: Floats | None = None
    # Scores of the public recordings for this sound, float32 [public samples]; None where the device sent none
    profile: Floats | None = None
    # Mean embedding of its clips, float32 [1, numbers]; None where the features are no embedding
    prototype: Floats | None = None
    # Mean embeddings of the windows before, float32 [states, 1, numbers]; None of a short sound
    before: Floats | None = None


@dataclass(frozen=True)
class KnownClass:
    """A device's description of a class that the fleet has; its arrays are those of :class:`ReportedClass`."""

    device_id: str
    class_id: str
    impressions: Floats | None = None
    profile: Floats | None = None
    prototype: Floats | None = None
    before: Floats | None = None


@dataclass(frozen=True)
class Group:
    """Reports that are the same class. ``class_id``: the fleet's class that they are; None for a new class."""

    members: tuple[int, ...]
    class_id: str | None = None


@dataclass(frozen=True)
class Discovery:
    """The groups, every report in one of them at most, and details for people."""

    groups: tuple[Group, ...]  # ordered by their first members
    details: dict[str, Any]  # JSON-ready: ``counted_by``; ``similarity``, the cosine of every two, where they are few


def discover(
    reports: Sequence[ReportedClass],
    known: Sequence[KnownClass],
    public_set: PublicSet,
    *,
    count: int | None,
    seed: int,
) -> Discovery:
    """Group the reports by class.

    Args:
        reports: Reports, at least one, at most ``COMPARED``.
        known: the reporting devices' descriptions of classes that the fleet has.
        public_set: the public set whose recordings the profiles score, or prototypes are compared by.
        count: number of new classes; None: the number of different names where every report has one, else the
            number between the most reports of one device and all reports that has the best silhouette.
    """
    items: list[ReportedClass | KnownClass] = [*reports, *known]
    points = _descriptors(items, known, public_set)
    device_ids = [report.device_id for report in reports]
    first = len(reports)
    distances = cosine_distances(points)
    if any(item.before is not None for item in items):
        in_order = PublicEmbedding(public_set).in_order([item.before for item in items])
        alike = distances <= 1 - KNOWN_FROM
        distances = np.where(alike & (in_order < ORDER_FROM), np.maximum(distances, 1 - in_order), distances)
    # Two sounds of one device differ: their owner gave them different names.
    devices = np.array(device_ids)
    different = (devices[:, None] == devices) & ~np.eye(len(devices), dtype=bool)
    among = np.where(different, _APART, distances[:first, :first])
    counted_by, counts = _counts(reports, max(Counter(device_ids).values()), count, first)
    names = np.array([item.class_id for item in known], np.str_)
    references = np.unique(names, return_inverse=True)[1].astype(np.int64).reshape(-1) + first
    candidates = [_k_medoids(among, k, seed) for k in counts]
    alone = _between_same_and_different(distances[first:, first:], references)
    labels = max(candidates, key=lambda labels: silhouette(distances, np.concatenate([labels, references]), alone))
    members: dict[int, list[int]] = {}
    for index, label in enumerate(labels):
        members.setdefault(int(label), []).append(index)
    groups = tuple(sorted((Group(tuple(group)) for group in members.values()), key=lambda group: group.members))
    details: dict[str, Any] = {"counted_by": counted_by}
    if first <= _MAX_SHOWN:
        details["similarity"] = (1.0 - distances[:first, :first]).round(3).tolist()
    return Discovery(groups, details)


def _k_medoids(distances: Doubles, count: int, seed: int) -> Ints:
    """Cluster by FasterPAM (Schubert & Rousseeuw 2021): int64 [n] labels."""
    import kmedoids  # heavy: it pulls in scikit-learn where that is installed

    result = kmedoids.fasterpam(distances, count, init="build", random_state=seed, n_cpu=1)
    return np.asarray(result.labels, np.int64)


def cosine_distances(points: Doubles) -> Doubles:
    """Return float64 [n, n] of 1 - cosine for the rows of float64 [n, features]."""
    norms = np.linalg.norm(points, axis=1, keepdims=True)
    unit = points / np.where(norms == 0, 1.0, norms)
    distances = 1.0 - unit @ unit.T
    np.fill_diagonal(distances, 0.0)
    return np.asarray(np.clip(distances, 0.0, 2.0))


def silhouette(distances: Doubles, labels: Ints, alone: float | None = None) -> float:
    """Return the mean silhouette (Rousseeuw 1987), in -1..1; 0 for a single cluster.

    ``distances``: float64 [n, n]. ``labels``: int64 [n]. ``alone`` stands for the distance to the others of a cluster
    that has no others; None: such points count 0.
    """
    numbers, sizes = np.unique(labels, return_counts=True)
    if len(numbers) < 2:
        return 0.0
    member = (labels[:, None] == numbers).astype(np.float64)
    sums = distances @ member
    own = member.argmax(axis=1)
    rows = np.arange(len(labels))
    others = np.maximum(sizes[own] - 1, 1)
    within = np.where(sizes[own] > 1, sums[rows, own] / others, alone or 0.0)
    means = sums / sizes
    means[rows, own] = np.inf
    nearest = means.min(axis=1)
    larger = np.maximum(np.maximum(within, nearest), np.finfo(np.float64).tiny)
    values = (nearest - within) / larger
    return float((values if alone is not None else np.where(sizes[own] > 1, values, 0.0)).mean())


def _between_same_and_different(distances: Doubles, labels: Ints) -> float | None:
    """Return the distance that a point without others of its class is assumed to have to its class."""
    # That is a third of the way from the mean distance within classes to the mean distance between them (a quarter and
    # two thirds did no worse); None where there is no pair of one of these kinds.
    pairs = np.triu(np.ones_like(distances, dtype=bool), 1)
    same, different = (distances[pairs & found] for found in (labels[:, None] == labels, labels[:, None] != labels))
    return float((2 * same.mean() + different.mean()) / 3) if len(same) and len(different) else None


def _descriptors(
    items: Sequence[ReportedClass | KnownClass], known: Sequence[KnownClass], public_set: PublicSet
) -> Doubles:
    """Return float64 [items, features], whose cosines say how alike two items are."""
    prototypes = [item.prototype for item in items if item.prototype is not None]
    if len(prototypes) == len(items):
        return PublicEmbedding(public_set).directions(np.stack(prototypes))
    profiles = [item.profile for item in items if item.profile is not None]
    if len(profiles) == len(items):
        return _residuals(np.stack(profiles), public_set)
    # What is particular to a device is in all of its impressions: their mean is taken out.
    scale = np.maximum(public_set.features.std(axis=(0, 1), dtype=np.float64), np.finfo(np.float32).tiny)
    impressions = {id(item): item.impressions for item in items if item.impressions is not None}
    means = {key: rows.mean(axis=0, dtype=np.float64) / scale for key, rows in impressions.items()}
    centres = {
        device_id: np.mean([means[id(item)] for item in known if item.device_id == device_id], axis=0)
        for device_id in {item.device_id for item in known}
    }
    return np.stack([(means[id(item)] - centres.get(item.device_id, 0.0)).ravel() for item in items])


def _residuals(profiles: Floats, public_set: PublicSet) -> Doubles:
    """Take the mean over each public class out of profiles: float64 [profiles, public recordings]."""
    # Which classes a device finds alike depends on the classes that it knows; which CLIPS of a class it finds alike
    # depends on the sound.
    real = ~public_set.synthetic
    residuals = profiles[:, real].astype(np.float64)
    for label in np.unique(public_set.labels[real]):
        rows = public_set.labels[real] == label
        residuals[:, rows] -= residuals[:, rows].mean(axis=1, keepdims=True)
    return residuals


def _counts(reports: Sequence[ReportedClass], min_count: int, count: int | None, most: int) -> tuple[str, range]:
    if count is None and all(report.name for report in reports):
        count = len({str(report.name).casefold() for report in reports})
        counted_by = "names"
    elif count is None:
        return "silhouette", range(min_count, min(most, min_count + _MAX_COUNTS - 1) + 1)
    else:
        counted_by = "request"
    count = max(1, min(count, most))
    return counted_by, range(count, count + 1)
