"""How good the fleet is from round to round: what its devices measured after each, and how many classes it had."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

from sqlalchemy import ColumnElement, func, select

from aggregator_server.errors import BlobError
from aggregator_server.rounds.queries import OF_FLEET
from aggregator_server.rounds.states import COUNTS
from aggregator_server.schemas import moment
from aggregator_server.store import Store
from aggregator_server.store.blobs import BlobFolder
from aggregator_server.store.tables import LearnedRow, OperationRow, RoundRow
from fleet_protocol.tensors import read_document

# What devices report after a round, in %, the first that there is: the edge's guard measures on either kind of clips.
_OWN = ("held_out_after", "held_out_accuracy")
_PUBLIC = ("public_after", "distilled_accuracy", "global_accuracy")


@dataclass(frozen=True, kw_only=True)
class RoundProgress:
    """A round of the whole fleet that is done.

    Attributes:
        round_id: Number of the round.
        strategy: Name of the strategy; for an operation of an operator, of the round that it changes.
        operation: Change by an operator, in place of a round with devices.
        closed_at: Time of its end.
        duration_s: Seconds from its opening to its end.
        devices: Number of devices that reported that they learned.
        own: Mean over these devices of the accuracy on their own held-out clips, in %; None where none reported it.
        public: Its accuracy on the public recordings, in %.
        classes: Number of the fleet's classes after it; None where its public set is gone.
    """

    round_id: int
    strategy: str
    operation: str | None
    closed_at: datetime
    duration_s: float
    devices: int
    own: float | None
    public: float | None
    classes: int | None


def list_progress(store: Store, limit: int) -> tuple[RoundProgress, ...]:
    """Return the last rounds that count, oldest first.

    Args:
        store: the fleet's.
        limit: at most so many.
    """
    last = (
        select(
            RoundRow.round_id,
            RoundRow.strategy,
            OperationRow.what.label("operation"),
            RoundRow.opened_at,
            RoundRow.closed_at,
            RoundRow.result_public_set,
            func.count(LearnedRow.device_id).label("devices"),
            _mean(_OWN).label("own"),
            _mean(_PUBLIC).label("public"),
        )
        .outerjoin(OperationRow, OperationRow.round_id == RoundRow.round_id)
        .outerjoin(LearnedRow, LearnedRow.round_id == RoundRow.round_id)
        .where(COUNTS, OF_FLEET)
        .group_by(RoundRow.round_id, OperationRow.what)
        .order_by(RoundRow.round_id.desc())
        .limit(limit)
    )
    with store.reading() as session:
        rows = session.execute(last).all()
    return tuple(_progress(store.blobs, row) for row in reversed(rows))


def _mean(names: tuple[str, ...]) -> ColumnElement[float]:
    return func.avg(func.coalesce(*(LearnedRow.metrics[name].as_float() for name in names)))


def _progress(blobs: BlobFolder, row: Any) -> RoundProgress:  # noqa: ANN401  (a database row has no type of its own)
    return RoundProgress(
        round_id=row.round_id,
        strategy=row.strategy,
        operation=row.operation,
        closed_at=moment(row.closed_at),
        duration_s=row.closed_at - row.opened_at,
        devices=row.devices,
        own=row.own,
        public=row.public,
        classes=_count_classes(blobs, row.result_public_set),
    )


@lru_cache(maxsize=1_024)
def _count_classes(blobs: BlobFolder, public_set: str) -> int | None:
    """Return how many classes a public set has. A blob never changes, so it is looked at once."""
    try:
        with blobs.open(public_set) as file:
            return len(read_document(file)["classes"])
    except BlobError:
        return None
