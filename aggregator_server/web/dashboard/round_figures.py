"""What the pages show of rounds: who is in and who is late, how good the fleet is, and how new classes were found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aggregator_server.errors import RoundNotFoundError
from aggregator_server.fleet.devices import list_devices
from aggregator_server.rounds.lateness import late_after
from aggregator_server.rounds.views import describe_round, show_open_round
from aggregator_server.schemas import DeviceInfo, DiscoveryInfo, ParticipantInfo, RoundDetail
from aggregator_server.store import Store
from aggregator_server.store.tables import OPEN

_SHOWN = 200  # devices of a round
_COMPARED = 24  # reports whose similarities fit a page
_WIDTH, _HEIGHT, _EDGE = 320.0, 220.0, 18.0  # of the plane, in its own units
_ORDER = ("late", "missing", "screened", "busy", "in", "learned", "own")


@dataclass(frozen=True, kw_only=True)
class Part:
    """A device's part in a round.

    Attributes:
        info: What is known of it.
        device: The device.
        state: ``busy`` or ``late`` while the round waits for it, ``in`` when it uploaded; after the round ``missing``
            without an upload, ``screened`` where that stood out, ``learned`` or ``own`` when it took over the result,
            or kept its own model.
    """

    info: ParticipantInfo
    device: DeviceInfo | None
    state: str


@dataclass(frozen=True, kw_only=True)
class RoundView:
    """A round as a page shows it.

    Attributes:
        detail: The round.
        parts: Its devices, those that somebody should look at first.
        hidden: Number of devices that the page leaves out.
        share: Percent of the selected devices that have uploaded.
        late: Number of devices that are late.
    """

    detail: RoundDetail
    parts: tuple[Part, ...]
    hidden: int
    share: int
    late: int

    @property
    def standing(self) -> str:
        """How the round stands, in one word: ``open``, ``done``, ``failed`` or ``undone``."""
        summary = self.detail.summary
        return "undone" if summary.undone_by else summary.state


def round_view(store: Store, round_id: int, now: float) -> RoundView:
    """Return a round with the state of each of its devices.

    Args:
        store: the fleet's.
        round_id: number of the round.
        now: seconds since 1970.

    Raises:
        RoundNotFoundError: there is no such round.
    """
    detail = describe_round(store, round_id)
    devices = {device.device_id: device for device in list_devices(store)}
    late_from = _late_from(detail)
    parts = [
        Part(info=info, device=devices.get(info.device_id), state=_state(detail, info, now > late_from))
        for info in detail.participants
    ]
    parts.sort(key=lambda part: (_ORDER.index(part.state), part.info.name.casefold()))
    summary = detail.summary
    return RoundView(
        detail=detail,
        parts=tuple(parts[:_SHOWN]),
        hidden=max(0, len(parts) - _SHOWN),
        share=round(100 * summary.uploaded / summary.selected) if summary.selected else 0,
        late=sum(part.state == "late" for part in parts),
    )


def open_round_view(store: Store, now: float) -> RoundView | None:
    """Return the open round; None where none is open."""
    round_id = show_open_round(store)
    if round_id is None:
        return None
    try:
        return round_view(store, round_id, now)
    except RoundNotFoundError:  # rounds are never removed; the folder may have been restored meanwhile
        return None


def _late_from(detail: RoundDetail) -> float:
    """Return from when on a device that has not uploaded is late, in seconds since 1970."""
    opened = detail.summary.opened_at
    took = [(info.uploaded_at - opened).total_seconds() for info in detail.participants if info.uploaded_at is not None]
    return opened.timestamp() + late_after(took, len(detail.participants))


def _state(detail: RoundDetail, info: ParticipantInfo, is_late: bool) -> str:
    if detail.summary.state == OPEN:
        if info.upload is not None:
            return "in"
        return "late" if is_late else "busy"
    if info.device_id in (detail.aggregation.get("screened") or {}):
        return "screened"
    if info.learned:
        return "own" if info.kept_own else "learned"
    return "in" if info.upload is not None else "missing"


@dataclass(frozen=True, kw_only=True)
class Dot:
    """A report in the plane.

    Attributes:
        x: Place in the picture, from the left.
        y: Place in the picture, from the top.
        letter: Letter of its group.
        group: Index of its group; None where it found no class.
        class_id: Class that it became; empty where it became none.
        name: What its owner calls it; empty where that is not shared.
        device_id: Device that reported it.
        device: That device's name.
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
        matrix: Cosine similarity of every two, as rows of (hundredths, shade from 0 to 9); empty where there are too
            many, or none was kept.
        known: Reports that were a class of the fleet already, as (device, name or empty, class).
        left_open: Number of reports that found no class.
    """

    dots: tuple[Dot, ...]
    matrix: tuple[tuple[tuple[int, int], ...], ...]
    known: tuple[tuple[str, str, str], ...]
    left_open: int


def plane_of_round(view: RoundView) -> Plane | None:
    """Return the picture of a round's discovery; None where no new sound was reported."""
    discovery = view.detail.discovery
    names = {info.device_id: info.name for info in view.detail.participants}
    return None if discovery is None else plane_of(discovery, names)


def plane_of(discovery: DiscoveryInfo, names: Mapping[str, str]) -> Plane:
    """Return the picture of a round's discovery.

    Args:
        discovery: as the round keeps it.
        names: of the devices, by identifier.
    """
    group_of = {index: number for number, group in enumerate(discovery.groups) for index in group.members}
    compared: Sequence[int] = discovery.details.get("compared") or range(len(discovery.reports))
    projection = discovery.details.get("projection", [])
    if len(projection) != len(compared):  # of a release that did not keep which were compared
        compared, projection = [], []
    order = sorted(range(len(compared)), key=lambda at: (group_of.get(compared[at], len(group_of)), compared[at]))
    places = _places([projection[at] for at in order])
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
    matrix = _matrix(discovery.details.get("similarity"), order)
    return Plane(dots=tuple(dots), matrix=matrix, known=tuple(known), left_open=len(discovery.left_open))


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
    """Fit points into the picture; both axes have one scale, so that distances can be compared."""
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


def _matrix(similarity: Any, order: Sequence[int]) -> tuple[tuple[tuple[int, int], ...], ...]:  # noqa: ANN401
    if not similarity or len(similarity) != len(order) or not 1 < len(order) <= _COMPARED:
        return ()
    values = [[float(similarity[row][column]) for column in order] for row in order]
    return tuple(tuple((round(100 * value), max(0, min(9, int(10 * value)))) for value in row) for row in values)


def _letter(number: int) -> str:
    """Name groups A, B, ... Z, A1, B1, ..."""
    turn, at = divmod(number, 26)
    return chr(ord("A") + at) + (str(turn) if turn else "")
