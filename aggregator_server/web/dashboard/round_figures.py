"""What the pages show of rounds: who is in, who is late, and what became of each device's part."""

from dataclasses import dataclass

from aggregator_server.errors import RoundNotFoundError
from aggregator_server.fleet.devices import find_devices
from aggregator_server.rounds.queries import open_round_id
from aggregator_server.rounds.replies import describe_round
from aggregator_server.schemas import DeviceInfo, ParticipantInfo, RoundDetail
from aggregator_server.store.store import Store

_SHOWN = 200  # devices of a round
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
