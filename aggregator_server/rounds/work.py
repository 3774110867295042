"""The work of a device: what it is to do next, and its report that it learned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from aggregator_server.errors import RoundNotDoneError
from aggregator_server.fleet.classes import all_classes, as_merged, classes_in_state, given_up, merged_classes
from aggregator_server.fleet.conduct import in_quarantine
from aggregator_server.fleet.devices import require_active, standing_of
from aggregator_server.fleet.shared_models import model_blob
from aggregator_server.rounds.continuous import has_learned_as_much, is_due, open_round_of_series
from aggregator_server.rounds.groups import fine_tuning_due
from aggregator_server.rounds.history import newest_result
from aggregator_server.rounds.others import is_other, plan_for_others
from aggregator_server.rounds.plan import parsed_plan
from aggregator_server.rounds.queries import open_round_waiting_for, require_round
from aggregator_server.rounds.states import is_done
from aggregator_server.rounds.uploads import check_metrics
from aggregator_server.store import Store
from aggregator_server.store.tables import PROPOSED, AssignmentRow, ClassRow, LearnedRow, ParticipantRow, RoundRow
from fleet_protocol.messages import ClassAssignment, Learned, Work, WorkKind


def next_work(store: Store, device_id: str, now: float) -> Work | None:
    """Return a device's next work, or None.

    Learning from the newest finished round comes before contributing to the open one: the device then contributes
    from the state that the fleet agreed on, and knows which of its new sounds are classes by now.

    A device in quarantine learns, and is asked for nothing.

    Raises:
        DeviceRevokedError: the device was revoked, perhaps while it waited.
    """
    store.note_seen(device_id, now)
    with store.reading() as session:
        require_active(standing_of(session, device_id))
        finished = _to_learn(session, device_id)
        if finished is not None:
            return _work(session, "learn", finished, device_id)
        if in_quarantine(session, device_id):
            return None
        open_round = open_round_waiting_for(session, device_id, now) or _continuous(session, device_id, now)
        if open_round is not None:
            return _work(session, "contribute", open_round, device_id)
    return None


def acknowledge(store: Store, device_id: str, learned: Learned) -> None:
    """Note that a device learned from a round: that round's and older assignments have reached it. Idempotent.

    Raises:
        RoundNotFoundError: there is no such round.
        RoundNotDoneError: it has no result.
        InvalidRequestError: the metrics cannot be stored.
    """
    check_metrics(learned.metrics)
    with store.writing() as session:
        row = require_round(session, learned.round_id)
        if not is_done(row):
            raise RoundNotDoneError(f"round {learned.round_id} is {row.state}, so there is nothing to learn from it")
        before = session.get(LearnedRow, (learned.round_id, device_id))
        if before is not None and (before.personalised or not learned.personalised):
            return
        session.merge(
            LearnedRow(
                round_id=learned.round_id, device_id=device_id,
                personalised=learned.personalised, kept_own=learned.kept_own, metrics=learned.metrics,
            )
        )  # fmt: skip
        reached = (AssignmentRow.device_id == device_id) & (AssignmentRow.round_id <= learned.round_id)
        proposed = AssignmentRow.class_id.in_(classes_in_state(session, PROPOSED))
        session.execute(update(AssignmentRow).where(reached, ~proposed).values(acknowledged=True))


def _to_learn(session: Session, device_id: str) -> RoundRow | None:
    row = newest_result(session, device_id)
    if row is None:
        return None
    learned = session.get(LearnedRow, (row.round_id, device_id))
    if learned is None and has_learned_as_much(session, row, device_id):
        return None
    if learned is None or (not learned.personalised and fine_tuning_due(session, row, device_id)):
        return row
    return None


def _continuous(session: Session, device_id: str, now: float) -> RoundRow | None:
    row = open_round_of_series(session)
    return row if row is not None and is_due(session, row, device_id, now) else None


def _work(session: Session, kind: WorkKind, row: RoundRow, device_id: str) -> Work:
    learning = kind == "learn"
    public_set = row.result_public_set if learning else row.public_set
    consensus = row.result_consensus if learning else row.consensus
    merged = merged_classes(session)
    work = Work(
        kind=kind,
        round_id=row.round_id,
        plan=parsed_plan(row.plan),
        public_set=str(public_set),
        consensus=consensus,
        classes=all_classes(session),
        assignments=_pending(session, device_id, merged) if learning else (),
        model=model_blob(session, row.model_version),
        weights=row.result_weights if learning else row.weights,
        fine_tune=learning and fine_tuning_due(session, row, device_id),
        prototypes=row.result_prototypes if learning else row.prototypes,
        fleet_weights=session.get_one(RoundRow, row.follows).result_weights if learning and row.follows else None,
        merged=as_merged(merged),
        retired=given_up(session),
    )
    if work.plan.others is None or not _is_other(session, kind, row, device_id):
        return work
    return replace(
        work, plan=plan_for_others(work.plan, work.plan.others), model=None, weights=None, fleet_weights=None
    )


def _is_other(session: Session, kind: WorkKind, row: RoundRow, device_id: str) -> bool:
    """Tell whether a device does the plan's part for others: as it was asked, or to learn as its network allows now."""
    if kind == "contribute":
        return session.get_one(ParticipantRow, (row.round_id, device_id)).other
    return is_other(session, row, device_id)


def _pending(session: Session, device_id: str, merged: Mapping[str, str]) -> tuple[ClassAssignment, ...]:
    """Return what a device has not been told of its new sounds; nothing of classes that wait for an operator."""
    rows = (
        select(AssignmentRow.slot, AssignmentRow.class_id)
        .join(ClassRow, ClassRow.class_id == AssignmentRow.class_id)
        .where(AssignmentRow.device_id == device_id, AssignmentRow.acknowledged.is_(False))
        .where(ClassRow.state != PROPOSED)
        .order_by(AssignmentRow.slot)
    )
    return tuple(ClassAssignment(slot, merged.get(class_id, class_id)) for slot, class_id in session.execute(rows))
