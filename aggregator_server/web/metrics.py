"""What the fleet's tables say of its health, as metrics for Prometheus. Each is read when it is asked for.

The figures are the same in every process that serves the fleet, and survive a restart.
"""

from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import version
from typing import Any, get_args

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector
from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from aggregator_server.fleet.audit import What
from aggregator_server.fleet.health import SEEN_S, count_health, count_outdated
from aggregator_server.rounds.queries import IS_CANCELLED, open_round_id
from aggregator_server.store import tables
from aggregator_server.store.free_space import free_space
from aggregator_server.store.location import copied_at
from aggregator_server.store.store import Store


def write_metrics(store: Store, now: float) -> bytes:
    """Return the metrics of a store in Prometheus' text format. ``now``: present time, s since 1970."""
    registry = CollectorRegistry()
    registry.register(_Fleet(store, now))
    return generate_latest(registry)


class _Fleet(Collector):
    def __init__(self, store: Store, now: float) -> None:
        self._store = store
        self._now = now

    def collect(self) -> Iterable[Metric]:
        room = free_space(self._store.blobs.folder)
        yield InfoMetricFamily("auricle_aggregator", "The program.", {"version": version("auricle")})
        yield GaugeMetricFamily("auricle_disk_free_bytes", "Room on the disk of the data folder.", room.free)
        yield GaugeMetricFamily("auricle_disk_bytes", "All of that disk.", room.total)
        copied, about = copied_at(self._store.folder), "When it was last backed up, since 1970; 0: never."
        yield GaugeMetricFamily("auricle_last_backup_timestamp_seconds", about, copied)
        with self._store.reading() as session:
            yield from _devices(session, self._now)
            yield from _rounds(session)
            yield from _open_round(session)
            yield _by("state", "auricle_classes", "Classes of the fleet.", _counts(session, tables.ClassRow.state))
            entries = CounterMetricFamily("auricle_audit_entries", "Entries of the audit.", labels=["what"])
            never = dict.fromkeys(get_args(What), 0)  # as for rounds
            for what, count in (never | _counts(session, tables.AuditRow.what)).items():
                entries.add_metric([what], count)
            yield entries


def _devices(session: Session, now: float) -> Iterator[Metric]:
    health = count_health(session, now)
    states = {state: getattr(health, state) for state in ("active", "waiting", "revoked")}
    yield _by("state", "auricle_devices", "Devices that are enrolled, or were.", states)
    yield GaugeMetricFamily("auricle_devices_present", f"Active devices heard of within {SEEN_S:.0f} s.", health.seen)
    held = _count(session, tables.ReputationRow.device_id, tables.ReputationRow.quarantined_at.is_not(None))
    yield GaugeMetricFamily("auricle_devices_quarantined", "Devices whose uploads do not count.", held)
    about = "Devices, but revoked ones, that run an older program than the server."
    yield GaugeMetricFamily("auricle_devices_outdated", about, count_outdated(session))


def _rounds(session: Session) -> Iterator[Metric]:
    # Zeros too: an alert on the first failure needs a figure from before.
    counts = {tables.OPEN: 0, tables.DONE: 0, tables.FAILED: 0} | _counts(session, tables.RoundRow.state)
    cancelled = _count(session, tables.RoundRow.round_id, IS_CANCELLED)
    counts |= {tables.FAILED: counts[tables.FAILED] - cancelled, "cancelled": cancelled}
    yield _by("state", "auricle_rounds", "Rounds, by how they stand.", counts)
    last = select(tables.RoundRow.round_id, tables.RoundRow.opened_at, tables.RoundRow.closed_at).where(
        tables.RoundRow.closed_at.is_not(None)
    )
    row = session.execute(last.order_by(tables.RoundRow.round_id.desc()).limit(1)).first()
    if row is not None:
        took, about = row.closed_at - row.opened_at, "How long the newest round took that is over."
        yield GaugeMetricFamily("auricle_last_round_seconds", about, took)
        uploads = _count_parts(session, row.round_id, tables.ParticipantRow.uploaded_at.is_not(None))
        yield GaugeMetricFamily("auricle_last_round_uploads", "Uploads that it got.", uploads)


def _open_round(session: Session) -> Iterator[Metric]:
    round_id = open_round_id(session)
    yield GaugeMetricFamily("auricle_open_round", "Number of the round that is open; 0: none is.", round_id or 0)
    have = {"yes": tables.ParticipantRow.uploaded_at.is_not(None), "no": tables.ParticipantRow.uploaded_at.is_(None)}
    counts = {word: _count_parts(session, round_id, condition) for word, condition in have.items()}
    yield _by("uploaded", "auricle_open_round_devices", "Devices of the open round.", counts)


def _by(label: str, name: str, about: str, counts: Mapping[str, int]) -> Metric:
    found = GaugeMetricFamily(name, about, labels=[label])
    for value, count in counts.items():
        found.add_metric([value], count)
    return found


def _counts(session: Session, column: InstrumentedAttribute[str]) -> dict[str, int]:
    return dict(session.execute(select(column, func.count()).group_by(column)).all())


def _count_parts(session: Session, round_id: int | None, condition: ColumnElement[bool]) -> int:
    return _count(session, tables.ParticipantRow.device_id, (tables.ParticipantRow.round_id == round_id) & condition)


def _count(session: Session, column: InstrumentedAttribute[Any], condition: ColumnElement[bool]) -> int:
    return session.scalar(select(func.count(column)).where(condition)) or 0
