"""Rounds as administrators see them: replies that are built from rows."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Select, case, func, select
from sqlalchemy.orm import Session, aliased

from aggregator_server.fleet.shared_models import model_blob
from aggregator_server.rounds.history import schedule_of
from aggregator_server.rounds.others import followed_strategy
from aggregator_server.rounds.plan import parsed_plan
from aggregator_server.rounds.queries import OPEN_ROUND, open_round_id, require_round
from aggregator_server.rounds.recognition import recognition_of
from aggregator_server.rounds.states import merging
from aggregator_server.schemas import DiscoveryInfo, ParticipantInfo, RoundDetail, RoundSummary, moment
from aggregator_server.store import Store
from aggregator_server.store.tables import DeviceRow, LearnedRow, OperationRow, ParticipantRow, RoundRow, table_of
from fleet_protocol.messages import RoundPlan, parse


def show_open_round(store: Store) -> int | None:
    """Return the number of the open round."""
    with store.reading() as session:
        return open_round_id(session)


def read_open_round_number(store: Store) -> int | None:
    """Return the number of the open round. Only the thread of the event loop may call this."""
    found = store.first_row(OPEN_ROUND, {})
    return None if found is None else int(found.round_id)


def list_rounds(store: Store, before: int | None, limit: int) -> tuple[RoundSummary, ...]:
    """Return rounds, newest first.

    Args:
        before: only rounds with a smaller number.
        limit: at most so many.
    """
    query = _summaries().order_by(RoundRow.round_id.desc()).limit(limit)
    if before is not None:
        query = query.where(RoundRow.round_id < before)
    with store.reading() as session:
        return tuple(_summary(row) for row in session.execute(query))


def summarise_round(store: Store, round_id: int) -> RoundSummary:
    """Return one round as in the list.

    Raises:
        RoundNotFoundError: there is no such round.
    """
    with store.reading() as session:
        require_round(session, round_id)
        return _summary(session.execute(_summaries().where(RoundRow.round_id == round_id)).one())


def describe_round(store: Store, round_id: int) -> RoundDetail:
    """Return one round with its devices, weights and discoveries.

    Raises:
        RoundNotFoundError: there is no such round.
    """
    with store.reading() as session:
        row = require_round(session, round_id)
        summary = _summary(session.execute(_summaries().where(RoundRow.round_id == round_id)).one())
        plan = parsed_plan(row.plan)
        participants = _participants(session, row, plan)
        details, planned = row.details, schedule_of(row)
        operation = session.get(OperationRow, round_id)
        model = model_blob(session, row.model_version)
    discovery = details.get("discovery")
    return RoundDetail(
        summary=summary,
        plan=plan,
        new_classes=row.new_classes,
        public_set=row.public_set,
        consensus=row.consensus,
        result_public_set=row.result_public_set,
        result_consensus=row.result_consensus,
        participants=participants,
        accuracies=details.get("accuracies", {}),
        betas=details.get("betas", {}),
        plain_mean=tuple(details.get("plain_mean", ())),
        discovery=parse(DiscoveryInfo, discovery) if discovery else None,
        model=model,
        weights=row.weights,
        result_weights=row.result_weights,
        prototypes=row.prototypes,
        result_prototypes=row.result_prototypes,
        aggregation=details.get("aggregation", {}),
        quarantined=tuple(details.get("quarantined", ())),
        groups=planned.groups,
        group_rounds=planned.rounds,
        damaged=tuple(details.get("damaged", ())),
        operation={} if operation is None else operation.details,
        accuracy_classes=details.get("accuracy_classes", {}),
    )


def _summaries() -> Select[*tuple[Any, ...]]:
    def count(column: ColumnElement[Any]) -> ColumnElement[int]:
        own = ParticipantRow.round_id == RoundRow.round_id
        return select(func.count(column)).where(own).correlate(RoundRow).scalar_subquery()

    def reports(*conditions: ColumnElement[bool]) -> ColumnElement[int]:
        own = (LearnedRow.round_id == RoundRow.round_id, *conditions)
        return select(func.count()).select_from(LearnedRow).where(*own).correlate(RoundRow).scalar_subquery()

    first = aliased(RoundRow)
    first_of_schedule = select(func.min(first.round_id)).where(first.schedule_id == RoundRow.schedule_id)
    return select(
        RoundRow.round_id,
        RoundRow.state,
        RoundRow.reason,
        RoundRow.strategy,
        RoundRow.opened_at,
        RoundRow.deadline_at,
        RoundRow.closed_at,
        count(ParticipantRow.device_id.expression).label("selected"),
        count(ParticipantRow.upload.expression).label("uploaded"),
        reports().label("learned"),
        reports(LearnedRow.kept_own.is_(True)).label("kept_own"),
        RoundRow.training_loss,
        RoundRow.follows,
        RoundRow.group_index,
        case((merging(table_of(RoundRow)), first_of_schedule.scalar_subquery())).label("series"),
        RoundRow.schedule_id,
        OperationRow.what.label("operation"),
        OperationRow.restores,
        RoundRow.undone_by,
    ).outerjoin(OperationRow, OperationRow.round_id == RoundRow.round_id)


def _summary(row: Any) -> RoundSummary:  # noqa: ANN401  (a database row has no type of its own)
    return RoundSummary(
        round_id=row.round_id,
        state=row.state,
        reason=row.reason,
        strategy=row.strategy,
        opened_at=moment(row.opened_at),
        deadline_at=None if row.deadline_at is None else moment(row.deadline_at),
        closed_at=None if row.closed_at is None else moment(row.closed_at),
        selected=row.selected,
        uploaded=row.uploaded,
        learned=row.learned,
        kept_own=row.kept_own,
        training_loss=row.training_loss,
        follows=row.follows,
        group=row.group_index,
        series=row.series,
        schedule=row.schedule_id,
        operation=row.operation,
        restores=row.restores,
        undone_by=row.undone_by,
    )


def _participants(session: Session, row: RoundRow, plan: RoundPlan) -> tuple[ParticipantInfo, ...]:
    query = (
        select(ParticipantRow, DeviceRow.name, LearnedRow)
        .join(DeviceRow, DeviceRow.device_id == ParticipantRow.device_id)
        .outerjoin(
            LearnedRow,
            (LearnedRow.device_id == ParticipantRow.device_id) & (LearnedRow.round_id == ParticipantRow.round_id),
        )
        .where(ParticipantRow.round_id == row.round_id)
        .order_by(ParticipantRow.device_id)
    )
    return tuple(
        ParticipantInfo(
            device_id=participant.device_id,
            name=name,
            strategy=followed_strategy(plan, row.strategy, other=participant.other),
            upload=participant.upload,
            uploaded_at=None if participant.uploaded_at is None else moment(participant.uploaded_at),
            clips=participant.clips,
            metrics=participant.metrics,
            learned=learned is not None,
            personalised=learned is not None and learned.personalised,
            kept_own=learned is not None and learned.kept_own,
            learned_metrics=learned.metrics if learned is not None else {},
            recognition=recognition_of(learned.metrics) if learned is not None else (),
        )
        for participant, name, learned in session.execute(query)
    )
