"""The devices that a new round may have: when each was last heard of, what they reported, and how rounds went."""

from operator import itemgetter

import numpy as np
from sqlalchemy import bindparam, select, update
from sqlalchemy.orm import Session

from aggregator_server.aggregation.input_bounds import capped_sizes
from aggregator_server.fleet.reputation import QUARANTINED
from aggregator_server.limits import LABEL_ENTROPY, SELECTION_CAP
from aggregator_server.rounds.queries import COUNTS, OF_FLEET, WITH_DEVICES
from aggregator_server.selection.draw import Columns, History
from aggregator_server.store.store import Store
from aggregator_server.store.tables import DEVICES, IS_ACTIVE, DeviceRow, RoundRow, SigningKeyRow
from aggregator_server.strategies.strategy import DeviceStatistics

_READ = 10_000  # rows at a time
_NOTE_SEEN = (  # another server may have heard of it later
    update(DEVICES)
    .where(DEVICES.c.device_id == bindparam("of_device"), DEVICES.c.seen_at < bindparam("now"))
    .values(seen_at=bindparam("now"))
)


# In no order: to read a large table in that of its identifiers takes many times as long as to sort these.
_CANDIDATES = select(DeviceRow.device_id, DeviceRow.clips, DeviceRow.seen_at).where(
    IS_ACTIVE, DeviceRow.device_id.not_in(QUARANTINED)
)


def read_columns(session: Session, now: float, *, private: bool = False) -> Columns:
    """Return the devices that may take part, in private rounds if so, not those in quarantine; read part by part."""
    ids, numbers = [np.empty(0, "S32")], [np.empty((0, 2))]
    with_key = DeviceRow.device_id.in_(select(SigningKeyRow.device_id))
    candidates = _CANDIDATES.where(with_key) if private else _CANDIDATES
    for part in session.execute(candidates, execution_options={"yield_per": _READ}).partitions():
        ids.append(np.array([row[0].encode() for row in part], "S32"))
        numbers.append(np.array([(row[1], row[2]) for row in part], np.float64))
    all_ids = np.concatenate(ids)
    order = np.argsort(all_ids)
    clips, seen_at = np.concatenate(numbers)[order].T
    return Columns(all_ids[order], clips, np.maximum(0.0, now - seen_at))


def read_history(session: Session, strategy: str) -> History:
    """Return how the strategy's rounds with the whole fleet went; failed rounds, and those of groups, do not count."""
    done = select(RoundRow.training_loss).where(COUNTS, OF_FLEET, WITH_DEVICES, RoundRow.strategy == strategy)
    losses = session.scalars(done.order_by(RoundRow.round_id)).all()
    return History(len(losses), tuple(loss for loss in losses if loss is not None))


def write_seen(store: Store) -> None:
    """Write when devices were last heard of, all in one transaction.

    Not every request for work is worth a write to the disk: a fleet that wakes would wait for one after the other.
    """
    seen = store.take_seen()
    if seen:
        with store.writing(durable=False) as session:
            values = [{"of_device": device_id, "now": now} for device_id, now in sorted(seen.items())]
            session.connection().execute(_NOTE_SEEN, values)


def read_statistics(session: Session) -> tuple[DeviceStatistics, ...]:
    """Return what the devices reported that are not revoked; devices without a report that can be true are left out."""
    rows = select(DeviceRow.device_id, DeviceRow.clips, DeviceRow.label_entropy).where(
        IS_ACTIVE,
        DeviceRow.clips > 0,
        DeviceRow.label_entropy.between(0.0, LABEL_ENTROPY),
        DeviceRow.device_id.not_in(QUARANTINED),
    )
    # To read a large table in the order of its identifiers takes many times as long as to sort its rows.
    reported = sorted(session.execute(rows), key=itemgetter(0))
    clips = capped_sizes(np.array([row.clips for row in reported], np.float64), SELECTION_CAP)
    return tuple(
        DeviceStatistics(row.device_id, int(count), float(row.label_entropy or 0.0))
        for row, count in zip(reported, clips, strict=True)
    )
