"""How alike the reports of new sounds in a round are: a picture of them on a fixed scale, and their similarities."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from aggregator_server.schemas import DiscoveryInfo
from fleet_protocol.arrays import Doubles

_FEWEST = 3  # reports that make a picture
_COMPARED = 24  # reports whose similarities fit a page
_WIDTH, _HEIGHT, _EDGE = 320.0, 220.0, 18.0  # of the plane, in its own units
# Of the picture for a distance of 1 between two directions of length 1. The largest distance, 2, just fits.
_SCALE = (_HEIGHT - 2 * _EDGE) / 2


@dataclass(frozen=True, kw_only=True)
class Dot:
    """A report in the plane.

    Attributes:
        x: Place in the picture, from the left.
        y: Place in the picture, from the top.
        letter: Letter of its group.
        group: Index of its group; None where it found no class.
        class_id: Class that it became; empty where it became none.
        name: Name that its owner gave it; empty where that is not shared.
        device_id: Device that reported it.
    """

    x: float
    y: float
    letter: str
    group: int | None
    class_id: str
    name: str
    device_id: str
    device: str


@dataclass(frozen=True, kw_only=True)
class Plane:
    """The reports of new sounds in a round, by how alike they are.

    Attributes:
        dots: The reports that were compared, group by group.
        drawn: Whether they are enough for a picture.
        alike: Cosine similarity of the two reports where there are two; None: there are not, or none was kept.
        joins_from: Cosine similarity from which two reports were taken for one class; None where that did not decide.
        reach: Length in the picture of this similarity; None: the picture has no such scale.
        by_names: Whether the names that owners gave said how many classes there are.
        matrix: Cosine similarity of every two, as rows of (hundredths, shade from 0 to 9); empty where there are too
            many, or none was kept.
        known: Reports that were a class of the fleet already, as (device, name or empty, class).
    """

    dots: tuple[Dot, ...]
    drawn: bool
    alike: float | None
    joins_from: float | None
    reach: float | None
    by_names: bool
    matrix: tuple[tuple[tuple[int, int], ...], ...]
    known: tuple[tuple[str, str, str], ...]
    left_open: int


def plane_of(discovery: DiscoveryInfo, names: Mapping[str, str]) -> Plane:
    """Return the picture of a round's discovery."""
    group_of = {index: number for number, group in enumerate(discovery.groups) for index in group.members}
    compared, projection = (discovery.details.get(name, ()) for name in ("compared", "projection"))
    order = sorted(range(len(compared)), key=lambda at: (group_of.get(compared[at], len(group_of)), compared[at]))
    similarity = _similarity(discovery.details.get("similarity"), order)
    places = _places([projection[at] for at in order]) if similarity is None else _places_to_scale(similarity)
    dots = [
        _dot(discovery, compared[at], place, group_of.get(compared[at]), names)
        for at, place in zip(order, places, strict=True)
    ]
    known = [
        (names.get(report.device_id, report.device_id), report.name or "", group.class_id)
        for group in discovery.groups
        if group.known
        for report in (discovery.reports[index] for index in group.members)
    ]
    joins_from = discovery.details.get("joins_from")
    return Plane(
        dots=tuple(dots),
        drawn=len(dots) >= _FEWEST,
        alike=float(similarity[0, 1]) if similarity is not None and len(dots) == 2 else None,
        joins_from=joins_from,
        reach=None if joins_from is None or similarity is None else round(_SCALE * _apart(joins_from), 1),
        by_names=discovery.details.get("counted_by") == "names",
        matrix=_matrix(similarity),
        known=tuple(known),
        left_open=len(discovery.left_open),
    )


def _dot(
    discovery: DiscoveryInfo, index: int, place: tuple[float, float], group: int | None, names: Mapping[str, str]
) -> Dot:
    report = discovery.reports[index]
    return Dot(
        x=place[0],
        y=place[1],
        letter="?" if group is None else _letter(group),
        group=group,
        class_id="" if group is None else discovery.groups[group].class_id,
        name=report.name or "",
        device_id=report.device_id,
        device=names.get(report.device_id, report.device_id[:8]),
    )


def _places(points: Sequence[Sequence[float]]) -> list[tuple[float, float]]:
    """Fit points into the picture, whose similarities were not kept; both axes have one scale."""
    if not points:
        return []
    centre = [(max(axis) + min(axis)) / 2 for axis in zip(*points, strict=True)]
    widths = [max(axis) - min(axis) for axis in zip(*points, strict=True)]
    rooms = (_WIDTH - 2 * _EDGE, _HEIGHT - 2 * _EDGE)
    scale = min((room / width for room, width in zip(rooms, widths, strict=True) if width > 0), default=1.0)
    return [
        (round(_WIDTH / 2 + scale * (x - centre[0]), 1), round(_HEIGHT / 2 - scale * (y - centre[1]), 1))
        for x, y in points
    ]


def _similarity(kept: Any, order: Sequence[int]) -> Doubles | None:  # noqa: ANN401
    """Return the cosines of every two reports in an order, float64 [n, n]; None where they were not kept."""
    if not kept or len(kept) != len(order):
        return None
    return np.asarray(kept, np.float64)[np.ix_(order, order)]


def _apart(similarity: float) -> float:
    """Return how far two directions of length 1 with a cosine are from each other, 0 to 2."""
    return math.sqrt(max(0.0, 2.0 - 2.0 * similarity))


def _places_to_scale(similarity: Doubles) -> list[tuple[float, float]]:
    """Place directions by their cosines (classical scaling, Torgerson 1952), on the picture's own scale.

    The plane shows the two widest directions. So two dots may be nearer than their reports are alike, never farther.
    """
    centred = similarity - similarity.mean(axis=0) - similarity.mean(axis=1)[:, None] + similarity.mean()
    values, vectors = np.linalg.eigh((centred + centred.T) / 2)
    plane = np.zeros((len(similarity), 2))
    width = min(2, len(similarity))
    plane[:, :width] = (vectors * np.sqrt(np.maximum(values, 0.0)))[:, ::-1][:, :width]
    plane -= (plane.max(axis=0) + plane.min(axis=0)) / 2
    return [(round(_WIDTH / 2 + _SCALE * x, 1), round(_HEIGHT / 2 - _SCALE * y, 1)) for x, y in plane.tolist()]


def _matrix(similarity: Doubles | None) -> tuple[tuple[tuple[int, int], ...], ...]:
    if similarity is None or not _FEWEST <= len(similarity) <= _COMPARED:
        return ()
    return tuple(
        tuple((round(100 * value), max(0, min(9, int(10 * value)))) for value in row) for row in similarity.tolist()
    )


def _letter(number: int) -> str:
    """Name groups A, B, ... Z, A1, B1, ..."""
    turn, at = divmod(number, 26)
    return chr(ord("A") + at) + (str(turn) if turn else "")
