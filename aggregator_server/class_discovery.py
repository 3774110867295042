"""Which reports of new sounds are the same class (Gudur & Perepu 2021, algorithm 1, global update, choice 2).

Every report is described by its device's data impressions alone: their mean, less the mean of the same device's
impressions of known classes, so that what is particular to the device drops out. Then k-medoids by cosine distance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class ReportedClass:
    """A new sound that a device met.

    Attributes:
        device_id: who reports it.
        slot: the slot that the device gave it.
        name: the owner's word, where it is shared; it helps to count, never to match.
        impressions: float32 [n, frames, coefficients].
    """

    device_id: str
    slot: int
    name: str | None
    impressions: NDArray[np.float32]


@dataclass(frozen=True)
class KnownImpressions:
    """A device's impressions of a class that the fleet has: float32 [n, frames, coefficients]."""

    device_id: str
    class_id: str
    impressions: NDArray[np.float32]


@dataclass(frozen=True)
class Group:
    """Reports that are the same class.

    Attributes:
        members: indices into the reports, ascending.
        class_id: the fleet's class where the group was recognised as one that exists.
    """

    members: tuple[int, ...]
    class_id: str | None = None


@dataclass(frozen=True)
class Discovery:
    """The groups, every report in exactly one of them, and what people may want to see.

    Attributes:
        groups: ordered by their first members.
        details: JSON-ready: ``counted_by``, and ``projection``: [x, y] of every report.
    """

    groups: tuple[Group, ...]
    details: dict[str, Any]


def discover(
    reports: Sequence[ReportedClass],
    known: Sequence[KnownImpressions],
    *,
    count: int | None,
    seed: int,
) -> Discovery:
    """Group the reports by class.

    Args:
        reports: at least one.
        known: impressions of known classes by the reporting devices.
        count: number of new classes; None: the number of different names where every report has one, else the
            number between the most reports of one device and all reports that has the best silhouette.
        seed: of the medoids' random start.
    """
    points = _descriptors(reports, known)
    distances = cosine_distances(points)
    most = max(Counter(report.device_id for report in reports).values())
    counted_by, counts = _counts(reports, most, count)
    labels = max((k_medoids(distances, k, seed)[0] for k in counts), key=lambda labels: _silhouette(distances, labels))
    members: dict[int, list[int]] = {}
    for index, label in enumerate(labels):
        members.setdefault(int(label), []).append(index)
    groups = tuple(sorted((Group(tuple(group)) for group in members.values()), key=lambda group: group.members))
    return Discovery(groups, {"counted_by": counted_by, "projection": _project(points).tolist()})


def k_medoids(distances: NDArray[np.float64], count: int, seed: int) -> tuple[NDArray[np.int64], float]:
    """Cluster by FasterPAM (Schubert & Rousseeuw 2021): (int64 [n] labels, sum of distances to the medoids)."""
    import kmedoids  # heavy: it pulls in scikit-learn where that is installed

    result = kmedoids.fasterpam(distances, count, init="build", random_state=seed, n_cpu=1)
    return np.asarray(result.labels, np.int64), float(result.loss)


def cosine_distances(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return float64 [n, n] of 1 - cosine for the rows of float64 [n, features]."""
    norms = np.linalg.norm(points, axis=1, keepdims=True)
    unit = points / np.where(norms == 0, 1.0, norms)
    distances = 1.0 - unit @ unit.T
    np.fill_diagonal(distances, 0.0)
    return np.asarray(np.clip(distances, 0.0, 2.0))


def _descriptors(reports: Sequence[ReportedClass], known: Sequence[KnownImpressions]) -> NDArray[np.float64]:
    centres: dict[str, NDArray[np.float64]] = {}
    for device_id in {report.device_id for report in reports}:
        own = [item.impressions for item in known if item.device_id == device_id]
        if own:
            centres[device_id] = np.concatenate(own).mean(axis=0, dtype=np.float64)
    means = [report.impressions.mean(axis=0, dtype=np.float64) for report in reports]
    return np.stack([(m - centres.get(r.device_id, 0.0)).ravel() for m, r in zip(means, reports, strict=True)])


def _counts(reports: Sequence[ReportedClass], most: int, count: int | None) -> tuple[str, range]:
    if count is None and all(report.name for report in reports):
        count = len({str(report.name).casefold() for report in reports})
        counted_by = "names"
    elif count is None:
        return "silhouette", range(most, len(reports) + 1)
    else:
        counted_by = "request"
    count = max(1, min(count, len(reports)))
    return counted_by, range(count, count + 1)


def _silhouette(distances: NDArray[np.float64], labels: NDArray[np.int64]) -> float:
    if len(set(labels.tolist())) < 2:
        return 0.0
    import kmedoids

    return float(kmedoids.silhouette(distances, labels, n_cpu=1)[0])


def _project(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Principal components for a picture, float64 [n, 2]."""
    centred = points - points.mean(axis=0)
    left, scale, _ = np.linalg.svd(centred, full_matrices=False)
    plane = np.zeros((len(points), 2))
    width = min(2, left.shape[1])
    plane[:, :width] = left[:, :width] * scale[:width]
    return plane
