"""Rounds as administrators see them: replies that are built from rows."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from statistics import median
from typing import Any

from sqlalchemy import ColumnElement, Select, func, select
from sqlalchemy.orm import Session

from aggregator_server import schemas
from aggregator_server.errors import BlobError
from aggregator_server.fleet.publications import model_blob
from aggregator_server.rounds.plan_rows import parsed_plan, schedule_of
from aggregator_server.rounds.private.stages import private_info
from aggregator_server.rounds.queries import COUNTS, IS_CANCELLED, OF_FLEET, is_open, require_round
from aggregator_server.store.blobs import BlobStore
from aggregator_server.store.store import Store
from aggregator_server.store.tables import DeviceRow, LearnedRow, OperationRow, ParticipantRow, RoundRow
from fleet_protocol.messages.rest import parse
from fleet_protocol.numbers.tensors import read_document


def list_rounds(store: Store, before: int | None, limit: int) -> tuple[schemas.RoundSummary, ...]:
    """Return rounds, newest first."""
    query = _summaries().order_by(RoundRow.round_id.desc()).limit(limit)
    if before is not None:
        query = query.where(RoundRow.round_id < before)
    with store.reading() as session:
        return tuple(schemas.reply(schemas.RoundSummary, row) for row in session.execute(query))


def summarise_round(store: Store, round_id: int) -> schemas.RoundSummary:
    """Return one round as in the list. Raises RoundNotFoundError: there is no such round."""
    with store.reading() as session:
        require_round(session, round_id)
        return _summary(session, round_id)


def describe_round(store: Store, round_id: int, now: float | None = None) -> schemas.RoundDetail:
    """Return one round with its devices, weights and discoveries. Raises RoundNotFoundError: there is no such round.

    ``now``: the time that says who is late; None: the present one.
    """
    with store.reading() as session:
        row = require_round(session, round_id)
        summary = _summary(session, round_id)
        plan = parsed_plan(row.plan)
        participants = _participants(session, row, time.time() if now is None else now)
        details, planned = row.details, schedule_of(row)
        operation = session.get(OperationRow, round_id)
        model = model_blob(session, row.model_version)
        private = private_info(session, plan, round_id, details)
    discovery = details.get("discovery")
    return schemas.reply(
        schemas.RoundDetail,
        row,
        summary=summary,
        plan=plan,
        participants=participants,
        discovery=parse(schemas.DiscoveryInfo, discovery) if discovery else None,
        model=model,
        private=private,
        groups=planned.groups,
        group_rounds=planned.rounds,
        operation={} if operation is None else operation.details,
        accuracies=details.get("accuracies", {}),
        accuracy_classes=details.get("accuracy_classes", {}),
        betas=details.get("betas", {}),
        plain_mean=tuple(details.get("plain_mean", ())),
        aggregation=details.get("aggregation", {}),
        quarantined=tuple(details.get("quarantined", ())),
        damaged=tuple(details.get("damaged", ())),
        left_out=tuple(_left_out(**item) for item in details.get("left_out", ())),
        left_out_count=details.get("left_out_count", 0),
    )


def _left_out(seen_at: float, **named: str) -> schemas.LeftOutInfo:
    return schemas.LeftOutInfo(**named, seen_at=datetime.fromtimestamp(seen_at, UTC))


def _summary(session: Session, round_id: int) -> schemas.RoundSummary:
    return schemas.reply(schemas.RoundSummary, session.execute(_summaries().where(RoundRow.round_id == round_id)).one())


def _summaries() -> Select[*tuple[Any, ...]]:
    def selected(*conditions: ColumnElement[bool]) -> ColumnElement[int]:
        own = (ParticipantRow.round_id == RoundRow.round_id, *conditions)
        return select(func.count()).select_from(ParticipantRow).where(*own).correlate(RoundRow).scalar_subquery()

    def reports(*conditions: ColumnElement[bool]) -> ColumnElement[int]:
        own = (LearnedRow.round_id == RoundRow.round_id, *conditions)
        return select(func.count()).select_from(LearnedRow).where(*own).correlate(RoundRow).scalar_subquery()

    return select(
        RoundRow.round_id,
        RoundRow.state,
        RoundRow.reason,
        IS_CANCELLED.label("cancelled"),
        RoundRow.strategy,
        RoundRow.opened_at,
        RoundRow.deadline_at,
        RoundRow.closed_at,
        selected().label("selected"),
        # Each of both counts is answered by an index alone.
        (selected() - selected(ParticipantRow.upload.is_(None))).label("uploaded"),
        reports().label("learned"),
        reports(LearnedRow.kept_own.is_(True)).label("kept_own"),
        RoundRow.training_loss,
        RoundRow.follows,
        RoundRow.group_index.label("group"),
        OperationRow.what.label("operation"),
        OperationRow.restores,
        RoundRow.undone_by,
        RoundRow.plan["private"]["group_size"].as_integer().is_not(None).label("private"),
    ).outerjoin(OperationRow, OperationRow.round_id == RoundRow.round_id)


_LATE = 2.0  # medians of the time that the others took
_LEAST_MEDIAN_S = 1.0


def _participants(session: Session, row: RoundRow, now: float) -> tuple[schemas.ParticipantInfo, ...]:
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
    found = session.execute(query).all()
    took = [part.uploaded_at - row.opened_at for part, *_ in found if part.uploaded_at is not None]
    shows = took and 2 * len(took) >= len(found)  # fewer do not show how long a device takes
    is_late = shows and now - row.opened_at > _LATE * max(median(took), _LEAST_MEDIAN_S)
    return tuple(
        schemas.reply(
            schemas.ParticipantInfo,
            participant,
            name=name,
            state=_state(row, participant, learned, is_late=bool(is_late)),
            learned=learned is not None,
            personalised=learned is not None and learned.personalised,
            kept_own=learned is not None and learned.kept_own,
            learned_metrics=learned.metrics if learned is not None else {},
            recognition=recognition_of(learned.metrics) if learned is not None else (),
        )
        for participant, name, learned in found
    )


def _state(row: RoundRow, part: ParticipantRow, learned: LearnedRow | None, *, is_late: bool) -> schemas.PartState:
    if learned is not None:
        return "kept_own" if learned.kept_own else "learned"
    if part.upload is not None:
        return "uploaded"
    if not is_open(row):
        return "missing"
    return "late" if is_late else "waiting"


# What devices report after a round, in %, of different clips: the edge's guard leaves out public recordings of what its
# owner taught it. A round's figure is what most of its devices reported, of several the first.
_OWN = ("held_out_after", "held_out_accuracy")
_PUBLIC = ("public_after", "distilled_accuracy", "global_accuracy")


@dataclass(frozen=True, kw_only=True)
class RoundProgress:
    """A round of the whole fleet that is done."""

    round_id: int
    strategy: str  # name of the strategy; for an operation of an operator, of the round that it changes
    operation: str | None  # change by an operator, in place of a round with devices
    closed_at: datetime
    duration_s: float
    devices: int  # number of devices that reported that they learned
    own: float | None  # mean accuracy on devices' own held-out clips, in %; None where none reported it
    own_measure: str  # name of the metric that it is the mean of
    public: float | None  # mean accuracy on the public recordings, in %
    public_measure: str  # name of the metric that it is the mean of
    classes: int | None  # number of the fleet's classes after it; None where its public set is gone


def list_progress(store: Store, limit: int) -> tuple[RoundProgress, ...]:
    """Return the last rounds that count, oldest first."""
    newest = select(RoundRow.round_id).where(COUNTS, OF_FLEET).order_by(RoundRow.round_id.desc()).limit(limit)
    last = (
        select(
            RoundRow.round_id,
            RoundRow.strategy,
            OperationRow.what.label("operation"),
            RoundRow.opened_at,
            RoundRow.closed_at,
            RoundRow.result_public_set,
            func.count(LearnedRow.device_id).label("devices"),
            *(func.avg(LearnedRow.metrics[name].as_float()).label(name) for name in (*_OWN, *_PUBLIC)),
            *(func.count(LearnedRow.metrics[name].as_float()).label(f"{name}_count") for name in (*_OWN, *_PUBLIC)),
        )
        .outerjoin(OperationRow, OperationRow.round_id == RoundRow.round_id)
        .outerjoin(LearnedRow, LearnedRow.round_id == RoundRow.round_id)
        .where(RoundRow.round_id.in_(newest))
        .group_by(RoundRow.round_id, OperationRow.what)
        .order_by(RoundRow.round_id.desc())
    )
    with store.reading() as session:
        rows = session.execute(last).all()
    return tuple(_progress(store.blobs, row) for row in reversed(rows))


def _progress(blobs: BlobStore, row: Any) -> RoundProgress:  # noqa: ANN401  (a database row has no type of its own)
    own, public = (max(names, key=lambda name: getattr(row, f"{name}_count")) for names in (_OWN, _PUBLIC))
    return schemas.reply(
        RoundProgress,
        row,
        duration_s=row.closed_at - row.opened_at,
        own=getattr(row, own),
        own_measure=own,
        public=getattr(row, public),
        public_measure=public,
        classes=_count_classes(blobs, row.result_public_set),
    )


@lru_cache(maxsize=1_024)
def _count_classes(blobs: BlobStore, public_set: str) -> int | None:
    """Return how many classes a public set has. A blob never changes, so it is looked at once."""
    try:
        with blobs.open(public_set) as file:
            return len(read_document(file)["classes"])
    except BlobError:
        return None


# As edge_client.learning.rounds.guard names them.
_KINDS: dict[str, schemas.Recognised] = {"held_out": "own", "taught": "taught", "public": "public"}


def recognition_of(metrics: Mapping[str, float]) -> tuple[schemas.RecognitionInfo, ...]:
    """Return what a report of what was learned says of a device before and after, own clips first.

    ``metrics``: metrics of the report, in %. One of an older device says 0 % of the model before, although there was
    none: such a model knew no class.
    """
    classes_before = metrics.get("classes_before")
    return tuple(
        schemas.RecognitionInfo(
            of=of,
            before=None if classes_before == 0 else metrics.get(f"{name}_before"),
            after=metrics[f"{name}_after"],
            classes_before=_whole(classes_before),
            classes_after=_whole(metrics.get("classes_after")),
        )
        for name, of in _KINDS.items()
        if f"{name}_after" in metrics
    )


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)
