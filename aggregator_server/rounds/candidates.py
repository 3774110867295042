"""The inputs of a selection: the devices of the fleet when a round opens, and how the rounds before it went."""

from __future__ import annotations

from statistics import median

from sqlalchemy import bindparam, select, update
from sqlalchemy.orm import Session

from aggregator_server.fleet.reputation import QUARANTINED
from aggregator_server.rounds.queries import training_losses
from aggregator_server.selection.contract import Candidate, History
from aggregator_server.store import Store
from aggregator_server.store.tables import IS_ACTIVE, DeviceRow, ParticipantRow, table_of

_DEVICES = table_of(DeviceRow)
_NOTE_SEEN = update(_DEVICES).where(_DEVICES.c.device_id == bindparam("of_device")).values(seen_at=bindparam("now"))


def read_candidates(session: Session, now: float) -> tuple[Candidate, ...]:
    """Return the devices that may take part; those in quarantine may not."""
    trusted = select(DeviceRow).where(IS_ACTIVE, DeviceRow.device_id.not_in(QUARANTINED))
    rows = session.scalars(trusted.order_by(DeviceRow.device_id))
    return tuple(Candidate(row.device_id, row.clips, max(0.0, now - row.seen_at)) for row in rows)


def read_history(session: Session, strategy: str) -> History:
    """Return how the strategy's rounds with the whole fleet went; failed rounds, and those of groups, do not count."""
    losses = training_losses(session, strategy)
    return History(len(losses), tuple(loss for loss in losses if loss is not None))


def training_loss(session: Session, round_id: int) -> float | None:
    """Return the median of the training losses that a round's devices uploaded: no single device can move it far.

    Devices with another network than the shared model's do not count: their losses cannot be compared.
    """
    reported = session.scalars(
        select(ParticipantRow.metrics)
        .join(DeviceRow, DeviceRow.device_id == ParticipantRow.device_id)
        .where(ParticipantRow.round_id == round_id, ParticipantRow.upload.is_not(None), DeviceRow.revoked_at.is_(None))
        .where(ParticipantRow.other.is_(False), DeviceRow.device_id.not_in(QUARANTINED))
    )
    losses = [float(metrics["training_loss"]) for metrics in reported if "training_loss" in metrics]
    return median(losses) if losses else None


def write_seen(store: Store) -> None:
    """Write when devices were last heard of, all in one transaction.

    Not every request for work is worth a write to the disk: a fleet that wakes would wait for one after the other.
    """
    seen = store.take_seen()
    if seen:
        with store.writing(durable=False) as session:
            values = [{"of_device": device_id, "now": now} for device_id, now in sorted(seen.items())]
            session.connection().execute(_NOTE_SEEN, values)
