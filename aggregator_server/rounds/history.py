"""Which round goes on from which: the fleet's rounds in a line, each group's in a branch after one of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from aggregator_server.store.tables import RoundRow
from aggregator_server.strategies.personalisation import Schedule
from fleet_protocol.messages import parse


@dataclass(frozen=True)
class Group:
    """Whose round it is, if not the whole fleet's.

    Attributes:
        follows: the fleet's round that the group's rounds go on from.
        index: of the group in that round's schedule.
        members: its devices.
    """

    follows: int
    index: int
    members: Sequence[str]


def newest_result(session: Session, device_id: str) -> RoundRow | None:
    """Return the newest finished round that concerns a device: of the fleet, or of the device's group after it."""
    fleets = newest_of_fleet(session)
    if fleets is None or fleets.groups is None:
        return fleets
    index = schedule_of(fleets).group_of(device_id)
    return (None if index is None else _newest_of_group(session, fleets.round_id, index)) or fleets


def newest_of_fleet(session: Session) -> RoundRow | None:
    """Return the newest finished round of the whole fleet."""
    done = select(RoundRow).where(RoundRow.state == "done", RoundRow.follows.is_(None))
    return session.scalar(done.order_by(RoundRow.round_id.desc()).limit(1))


def schedule_of(fleets: RoundRow) -> Schedule:
    """Return the groups whose rounds follow a round of the fleet; none without group-balanced personalisation."""
    return Schedule((), ()) if fleets.groups is None else parse(Schedule, fleets.groups)


def _newest_of_group(session: Session, follows: int, index: int) -> RoundRow | None:
    done = (RoundRow.state == "done") & (RoundRow.follows == follows) & (RoundRow.group_index == index)
    return session.scalar(select(RoundRow).where(done).order_by(RoundRow.round_id.desc()).limit(1))
