"""Which round goes on from which: the fleet's rounds in a line, each group's in a branch, continuous ones in a series.

Every published model begins a history of its own: the first round with it starts from the bundle's own weights.
Continuous rounds merge an upload when it arrives, without deadline or quorum. A round of such a series closes with the
first upload, by the same step as any other, and its schedule opens the next one in the transaction that closes it
(rounds/schedules.py). So every upload has a result.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from aggregator_server.fleet.shared_models import required_model
from aggregator_server.rounds.plan import parsed_plan
from aggregator_server.rounds.queries import OF_FLEET, lock_open_round, newest_done, of_group
from aggregator_server.rounds.states import is_merging, is_open
from aggregator_server.store.tables import AssignmentRow, LearnedRow, ParticipantRow, RoundRow
from fleet_protocol.messages import parse
from fleet_protocol.personalisation import Schedule


@dataclass(frozen=True)
class Group:
    """The devices of a round that is not the whole fleet's.

    Attributes:
        follows: Number of the fleet's round that the group's rounds go on from.
        index: Index of the group in that round's schedule.
    """

    follows: int
    index: int
    members: Sequence[str]


@dataclass(frozen=True)
class StartingPoint:
    """What a round that shares a model starts from.

    Attributes:
        version: Version of the model.
        weights: Blob of the fleet's weights; None for the bundle's own.
        server_state: Blob of the aggregation's state, such as a server optimiser's; None at first.
    """

    version: int
    weights: str | None
    server_state: str | None


def starting_point(session: Session, group: Group | None) -> StartingPoint:
    """Return what a new round starts from.

    Raises:
        NoModelError: no model has been published.
        ModelTooSmallError: the fleet has more classes by now than the model's head has slots.
    """
    if group is not None:
        fleets = session.get_one(RoundRow, group.follows)
        version = int(fleets.model_version or 0)
        last = newest_done(session, RoundRow.model_version == version, of_group(group.follows, group.index)) or fleets
        return StartingPoint(version, last.result_weights, last.result_server_state)
    version = required_model(session).version
    newest = newest_with_model(session, version)
    if newest is None:
        return StartingPoint(version, None, None)
    return StartingPoint(version, newest.result_weights, newest.result_server_state)


def kept_state(session: Session, strategy: str) -> str | None:
    """Return the blob that a strategy without a shared model kept from its last round of the fleet; None at first."""
    newest = newest_done(session, OF_FLEET, RoundRow.strategy == strategy, RoundRow.model_version.is_(None))
    return None if newest is None else newest.result_server_state


def newest_with_model(session: Session, version: int) -> RoundRow | None:
    """Return the newest done round of the whole fleet that trained a version of the shared model."""
    return newest_done(session, OF_FLEET, RoundRow.model_version == version)


def newest_result(session: Session, device_id: str) -> RoundRow | None:
    """Return the newest done round that concerns a device: of the fleet, or of the device's group after it."""
    fleets = newest_done(session, OF_FLEET)
    if fleets is None or fleets.groups is None:
        return fleets
    index = schedule_of(fleets).group_of(device_id)
    return (None if index is None else newest_done(session, of_group(fleets.round_id, index))) or fleets


def schedule_of(fleets: RoundRow) -> Schedule:
    """Return the groups whose rounds follow a round of the fleet; none without group-balanced personalisation."""
    return Schedule((), ()) if fleets.groups is None else parse(Schedule, fleets.groups)


# The columns of which devices get notice.
_RESULTS = ("result_public_set", "result_consensus", "result_prototypes")


def present_round(session: Session, row: RoundRow) -> RoundRow:
    """Return the open round of a round's series, which takes the uploads that were meant for a former one."""
    if not is_merging(row) or is_open(row):
        return row
    current = lock_open_round(session)
    return current if current is not None and current.schedule_id == row.schedule_id else row


def is_due(session: Session, row: RoundRow, device_id: str, now: float) -> bool:
    """Tell whether a device may contribute to the open round of a series: its last upload is long enough ago."""
    last = session.scalar(
        select(func.max(ParticipantRow.uploaded_at))
        .join(RoundRow, RoundRow.round_id == ParticipantRow.round_id)
        .where(ParticipantRow.device_id == device_id, RoundRow.schedule_id == row.schedule_id)
    )
    return last is None or not 0 <= now - last < parsed_plan(row.plan).every_s


def has_learned_as_much(session: Session, row: RoundRow, device_id: str) -> bool:
    """Return whether a round of a series held nothing new for a device."""
    if not is_merging(row):
        return False
    last = session.scalar(
        select(RoundRow)
        .join(LearnedRow, LearnedRow.round_id == RoundRow.round_id)
        .where(LearnedRow.device_id == device_id)
        .order_by(RoundRow.round_id.desc())
        .limit(1)
    )
    if last is None or any(getattr(last, name) != getattr(row, name) for name in _RESULTS):
        return False
    pending = AssignmentRow.acknowledged.is_(False) & (AssignmentRow.device_id == device_id)
    return session.scalar(select(AssignmentRow.slot).where(pending).limit(1)) is None
