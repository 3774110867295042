"""What people see of rounds."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Select, func, select
from sqlalchemy.orm import Session

from aggregator_server.errors import RoundNotFoundError
from aggregator_server.fleet.shared_models import model_blob
from aggregator_server.rounds.history import schedule_of
from aggregator_server.schemas import DiscoveryInfo, ParticipantInfo, RoundDetail, RoundSummary, moment
from aggregator_server.store import Store
from aggregator_server.store.tables import DeviceRow, LearnedRow, ParticipantRow, RoundRow
from fleet_protocol.messages import RoundPlan, parse


def require_round(session: Session, round_id: int) -> RoundRow:
    """Return a round's row.

    Raises:
        RoundNotFoundError: there is no such round.
    """
    row = session.get(RoundRow, round_id, with_for_update=True)
    if row is None:
        raise RoundNotFoundError(f"there is no round {round_id}; GET /v1/rounds lists them")
    return row


def open_round_id(store: Store) -> int | None:
    """Return the number of the open round."""
    with store.reading() as session:
        return session.scalar(select(RoundRow.round_id).where(RoundRow.state == "open"))


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
        participants = _participants(session, round_id)
        details, planned = row.details, schedule_of(row)
        model = model_blob(session, row.model_version)
    discovery = details.get("discovery")
    return RoundDetail(
        summary,
        parse(RoundPlan, row.plan),
        row.new_classes,
        row.public_set,
        row.consensus,
        row.result_public_set,
        row.result_consensus,
        participants,
        details.get("accuracies", {}),
        details.get("betas", {}),
        tuple(details.get("plain_mean", ())),
        parse(DiscoveryInfo, discovery) if discovery else None,
        model,
        row.weights,
        row.result_weights,
        details.get("aggregation", {}),
        planned.groups,
        planned.rounds,
    )


def _summaries() -> Select[*tuple[Any, ...]]:
    def count(column: ColumnElement[Any]) -> ColumnElement[int]:
        own = ParticipantRow.round_id == RoundRow.round_id
        return select(func.count(column)).where(own).correlate(RoundRow).scalar_subquery()

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
        RoundRow.training_loss,
        RoundRow.follows,
        RoundRow.group_index,
    )


def _summary(row: Any) -> RoundSummary:  # noqa: ANN401  (a database row has no type of its own)
    return RoundSummary(
        row.round_id,
        row.state,
        row.reason,
        row.strategy,
        moment(row.opened_at),
        moment(row.deadline_at),
        None if row.closed_at is None else moment(row.closed_at),
        row.selected,
        row.uploaded,
        row.training_loss,
        row.follows,
        row.group_index,
    )


def _participants(session: Session, round_id: int) -> tuple[ParticipantInfo, ...]:
    query = (
        select(ParticipantRow, DeviceRow.name, LearnedRow)
        .join(DeviceRow, DeviceRow.device_id == ParticipantRow.device_id)
        .outerjoin(
            LearnedRow,
            (LearnedRow.device_id == ParticipantRow.device_id) & (LearnedRow.round_id == ParticipantRow.round_id),
        )
        .where(ParticipantRow.round_id == round_id)
        .order_by(ParticipantRow.device_id)
    )
    return tuple(
        ParticipantInfo(
            participant.device_id,
            name,
            participant.upload,
            None if participant.uploaded_at is None else moment(participant.uploaded_at),
            participant.clips,
            participant.metrics,
            learned is not None,
            learned is not None and learned.personalised,
            learned.metrics if learned is not None else {},
        )
        for participant, name, learned in session.execute(query)
    )
