"""What the fleet's tables say of its health, as metrics for Prometheus. Each is read when it is asked for.

The figures are the same in every process that serves the fleet, and survive a restart.
"""

from collections.abc import Iterable, Iterator
from importlib.metadata import version

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector
from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from aggregator_server.fleet.audit import count_entries
from aggregator_server.fleet.health import SEEN_S, count_health, count_outdated
from aggregator_server.rounds.queries import open_round_id
from aggregator_server.store import Store
from aggregator_server.store.free_space import free_space
from aggregator_server.store.location import copied_at
from aggregator_server.store.tables import DONE, FAILED, OPEN, ClassRow, ParticipantRow, ReputationRow, RoundRow


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
        yield InfoMetricFamily("auricle_aggregator", "The program.", {"version": version("auricle")})
        room = free_space(self._store.blobs.folder)
        yield GaugeMetricFamily("auricle_disk_free_bytes", "Room on the disk of the data folder.", room.free)
        yield GaugeMetricFamily("auricle_disk_bytes", "All of that disk.", room.total)
        copied = copied_at(self._store.folder)
        yield GaugeMetricFamily(
            "auricle_last_backup_timestamp_seconds", "When it was last backed up, since 1970; 0: never.", copied
        )
        with self._store.reading() as session:
            yield from _devices(session, self._now)
            yield from _rounds(session)
            yield from _open_round(session)
            classes = GaugeMetricFamily("auricle_classes", "Classes of the fleet.", labels=["state"])
            for state, count in _counts(session, ClassRow.state):
                classes.add_metric([state], count)
            yield classes
            audit = CounterMetricFamily("auricle_audit_entries", "Entries of the audit.", labels=["what"])
            for what, count in count_entries(session).items():
                audit.add_metric([what], count)
            yield audit


def _devices(session: Session, now: float) -> Iterator[Metric]:
    health = count_health(session, now)
    devices = GaugeMetricFamily("auricle_devices", "Devices that are enrolled, or were.", labels=["state"])
    for state in ("active", "waiting", "revoked"):
        devices.add_metric([state], getattr(health, state))
    yield devices
    yield GaugeMetricFamily("auricle_devices_present", f"Active devices heard of within {SEEN_S:.0f} s.", health.seen)
    held = _count(session, ReputationRow.device_id, ReputationRow.quarantined_at.is_not(None))
    yield GaugeMetricFamily("auricle_devices_quarantined", "Devices whose uploads do not count.", held)
    yield GaugeMetricFamily(
        "auricle_devices_outdated",
        "Devices, but revoked ones, that run an older program than the server.",
        count_outdated(session),
    )


def _rounds(session: Session) -> Iterator[Metric]:
    # Zeros too: an alert on the first failure needs a figure from before.
    rounds = GaugeMetricFamily("auricle_rounds", "Rounds, by how they stand.", labels=["state"])
    counts = {OPEN: 0, DONE: 0, FAILED: 0} | dict(_counts(session, RoundRow.state))
    for state, count in counts.items():
        rounds.add_metric([state], count)
    yield rounds
    last = select(RoundRow.round_id, RoundRow.opened_at, RoundRow.closed_at).where(RoundRow.closed_at.is_not(None))
    row = session.execute(last.order_by(RoundRow.round_id.desc()).limit(1)).first()
    if row is not None:
        yield GaugeMetricFamily(
            "auricle_last_round_seconds", "How long the newest round took that is over.", row.closed_at - row.opened_at
        )
        uploads = _count(
            session,
            ParticipantRow.device_id,
            (ParticipantRow.round_id == row.round_id) & ParticipantRow.uploaded_at.is_not(None),
        )
        yield GaugeMetricFamily("auricle_last_round_uploads", "Uploads that it got.", uploads)


def _open_round(session: Session) -> Iterator[Metric]:
    round_id = open_round_id(session)
    yield GaugeMetricFamily("auricle_open_round", "Number of the round that is open; 0: none is.", round_id or 0)
    asked = GaugeMetricFamily("auricle_open_round_devices", "Devices of the open round.", labels=["uploaded"])
    for label, done in (("yes", ParticipantRow.uploaded_at.is_not(None)), ("no", ParticipantRow.uploaded_at.is_(None))):
        asked.add_metric(
            [label], _count(session, ParticipantRow.device_id, (ParticipantRow.round_id == round_id) & done)
        )
    yield asked


def _counts(session: Session, column: InstrumentedAttribute[str]) -> list[tuple[str, int]]:
    return [(value, count) for value, count in session.execute(select(column, func.count()).group_by(column))]


def _count(session: Session, column: InstrumentedAttribute[str], condition: ColumnElement[bool]) -> int:
    return session.scalar(select(func.count(column)).where(condition)) or 0
