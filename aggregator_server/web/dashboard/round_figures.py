"""What the pages show of rounds: who is in, who is late, what became of each device's part and of new sounds."""

from collections.abc import Mapping
from dataclasses import dataclass

from aggregator_server.errors import RoundNotFoundError
from aggregator_server.fleet.devices import find_devices
from aggregator_server.rounds.queries import open_round_id
from aggregator_server.rounds.replies import describe_round
from aggregator_server.schemas import DeviceInfo, DiscoveryInfo, ParticipantInfo, RoundDetail
from aggregator_server.store.store import Store

_SHOWN = 200  # devices of a round
_COMPARED = 24  # reports whose similarities fit a page
_ORDER = ("late", "missing", "screened", "waiting", "uploaded", "learned", "kept_own")


@dataclass(frozen=True, kw_only=True)
class Part:
    """A device's part in a round; its ``state`` is that of ``info``, or ``screened`` where its upload stood out."""

    info: ParticipantInfo
    device: DeviceInfo | None
    state: str


@dataclass(frozen=True, kw_only=True)
class RoundView:
    """A round as a page shows it."""

    detail: RoundDetail
    parts: tuple[Part, ...]  # its devices, those with a trouble first
    hidden: int  # number of devices that the page leaves out
    late: int


def round_view(store: Store, round_id: int, now: float) -> RoundView:
    """Return a round with the state of each of its devices. Raises RoundNotFoundError: there is no such round."""
    detail = describe_round(store, round_id, now)
    screened = detail.aggregation.get("screened") or {}
    states = [(info, "screened" if info.device_id in screened else info.state) for info in detail.participants]
    states.sort(key=lambda part: (_ORDER.index(part[1]), part[0].name.casefold()))
    with store.reading() as session:
        shown = find_devices(session, [info.device_id for info, _ in states[:_SHOWN]])
    devices = {device.device_id: device for device in shown}
    parts = [Part(info=info, device=devices.get(info.device_id), state=state) for info, state in states[:_SHOWN]]
    return RoundView(
        detail=detail,
        parts=tuple(parts),
        hidden=max(0, len(states) - _SHOWN),
        late=sum(state == "late" for _, state in states),
    )


def open_round_view(store: Store, now: float) -> RoundView | None:
    """Return the open round; None where none is open."""
    with store.reading() as session:
        round_id = open_round_id(session)
    if round_id is None:
        return None
    try:
        return round_view(store, round_id, now)
    except RoundNotFoundError:  # rounds are never removed; the folder may have been restored meanwhile
        return None


@dataclass(frozen=True, kw_only=True)
class Report:
    """A report that was compared with others."""

    letter: str  # letter of its group; ``?`` where it found no class
    class_id: str  # class that it became; empty where it became none
    name: str  # name that its owner gave it; empty where that is not shared
    device_id: str  # device that reported it
    device: str  # that device's name for people


@dataclass(frozen=True, kw_only=True)
class NewSounds:
    """The reports of new sounds in a round, group by group."""

    reports: tuple[Report, ...]
    by_names: bool  # whether the names that owners gave said how many classes there are
    # Cosine similarity of every two reports, in hundredths; empty where there are too many, or none was kept.
    matrix: tuple[tuple[int, ...], ...]
    # Reports that were a class of the fleet already, as (device, name or empty, class).
    known: tuple[tuple[str, str, str], ...]
    left_open: int  # number of reports that found no class


def new_sounds_of(detail: RoundDetail) -> NewSounds | None:
    """Return the reports of new sounds in a round; None where there were none."""
    names = {info.device_id: info.name for info in detail.participants}
    return None if detail.discovery is None else describe(detail.discovery, names)


def describe(discovery: DiscoveryInfo, names: Mapping[str, str]) -> NewSounds:
    """Return what a round's discovery says. ``names``: the devices' names by their identifiers."""
    group_of = {index: number for number, group in enumerate(discovery.groups) for index in group.members}
    compared, similarity = (discovery.details.get(name, ()) for name in ("compared", "similarity"))
    order = sorted(range(len(compared)), key=lambda at: (group_of.get(compared[at], len(group_of)), compared[at]))
    are_shown = len(similarity) == len(order) <= _COMPARED
    known = [
        (names.get(report.device_id, report.device_id), report.name or "", group.class_id)
        for group in discovery.groups
        if group.known
        for report in (discovery.reports[index] for index in group.members)
    ]
    return NewSounds(
        reports=tuple(_report(discovery, compared[at], group_of.get(compared[at]), names) for at in order),
        by_names=discovery.details.get("counted_by") == "names",
        matrix=tuple(tuple(round(100 * similarity[i][j]) for j in order) for i in order) if are_shown else (),
        known=tuple(known),
        left_open=len(discovery.left_open),
    )


def _report(discovery: DiscoveryInfo, index: int, group: int | None, names: Mapping[str, str]) -> Report:
    report = discovery.reports[index]
    return Report(
        letter="?" if group is None else _letter(group),
        class_id="" if group is None else discovery.groups[group].class_id,
        name=report.name or "",
        device_id=report.device_id,
        device=names.get(report.device_id, report.device_id[:8]),
    )


def _letter(number: int) -> str:
    """Name groups A, B, ... Z, A1, B1, ..."""
    turn, at = divmod(number, 26)
    return chr(ord("A") + at) + (str(turn) if turn else "")
