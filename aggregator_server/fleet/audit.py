"""The audit: a row for everything that a person may want to explain later, in the transaction that did it.

A row never holds a secret: a token is named by its number, a device by its identifier.
"""

import threading
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Literal

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import Session

from aggregator_server.schemas import AuditEntry, reply
from aggregator_server.store import Tables
from aggregator_server.store.expressions import begins_with, by_code_point
from aggregator_server.store.tables import AuditRow

What = Literal[
    "authentication_failed",
    "class_made",
    "class_merged",
    "class_renamed",
    "class_retired",
    "device_admitted",
    "device_enrolled",
    "device_left",
    "device_quarantined",
    "device_released",
    "device_revoked",
    "invitation_made",
    "invitation_renewed",
    "invitation_revoked",
    "limit_hit",
    "model_published",
    "public_set_published",
    "round_cancelled",
    "round_closed",
    "round_opened",
    "round_restored",
    "schedule_ended",
    "schedule_made",
    "secret_changed",
    "secret_requested",
    "signed_in",
    "signed_out",
    "token_made",
    "token_revoked",
]
"""What happened. docs/security.md, "Audit", says what each means and which details it has."""


@dataclass(frozen=True)
class Actor:
    """Who did something.

    Attributes:
        who: Name for people: of a token, a device or an invitation.
        address: Network address of the request; None where there was none.
    """

    who: str
    address: str | None = None


SERVER = Actor("server")
"""What happens by itself, such as the end of a round."""
COMMAND_LINE = Actor("command line")
"""What a person did with ``auricle-aggregator`` on the server's own machine."""


def audit(session: Session, what: What, by: Actor, now: float, **details: str | float | None) -> None:
    """Note what happened; the row is kept if the session's transaction is.

    Args:
        details: what it was done to; never a secret.
    """
    session.add(AuditRow(at=now, who=by.who, address=by.address, what=what, details=details))


@dataclass(frozen=True, kw_only=True)
class Sought:
    """Which entries are looked for.

    Attributes:
        before: Only entries with a smaller number; None: any.
        after: Only entries with a larger number; None: any.
        what: Only entries of this kind; None: all.
        who: Only what they did who are called so or, where nobody is, the first ``NAMES`` whose names begin so.
        since: Only entries from then on, in seconds since 1970.
        until: Only entries before then.
        oldest_first: Whether the oldest come first.
    """

    before: int | None = None
    after: int | None = None
    what: str | None = None
    who: str = ""
    since: float | None = None
    until: float | None = None
    oldest_first: bool = False


def start_of(day: date | None) -> float | None:
    """Return the first instant of a day (UTC), in seconds since 1970."""
    return None if day is None else datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()


def end_of(day: date | None) -> float | None:
    """Return the first instant after a day (UTC), in seconds since 1970."""
    begun = start_of(day)
    return None if begun is None else begun + _DAY_S


class AuditCounts:
    """How many entries of each kind there are. They stay as they are: each is counted once. Any thread may call it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0
        self._counts: Counter[str] = Counter()

    def read(self, session: Session) -> dict[str, int]:
        """Return the numbers by kind. Those that were written since it was read last have larger numbers."""
        with self._lock:
            if not self._last:  # an index has them all
                last = session.scalar(select(func.max(AuditRow.audit_id))) or 0
                kinds = session.execute(select(AuditRow.what, func.count()).group_by(AuditRow.what)).all()
                self._last, self._counts = last, Counter(dict(kinds))
            else:
                new = select(AuditRow.audit_id, AuditRow.what).where(AuditRow.audit_id > self._last)
                for number, kind in session.execute(new.order_by(AuditRow.audit_id)):
                    self._last = number
                    self._counts[kind] += 1
            return dict(self._counts)


_DAY_S = 86_400.0
_LARGEST = 2**63 - 1  # of a database
NAMES = 20
_called: ColumnElement[str] = by_code_point(AuditRow.who)


def list_entries(tables: Tables, before: int | None, limit: int, what: str | None = None) -> tuple[AuditEntry, ...]:
    """Return at most so many entries, newest first, as :func:`find_entries`."""
    return find_entries(tables, Sought(before=before, what=what), limit)


def find_entries(tables: Tables, sought: Sought, limit: int) -> tuple[AuditEntry, ...]:
    """Return at most so many entries. An index has those of every person, every kind and every time."""
    order = AuditRow.audit_id.asc() if sought.oldest_first else AuditRow.audit_id.desc()
    rows = select(AuditRow).order_by(order).limit(limit)
    if sought.what is not None:
        rows = rows.where(AuditRow.what == sought.what)
    with tables.reading() as session:
        low, high = _numbers(session, sought)
        rows = rows if low is None else rows.where(AuditRow.audit_id >= low)
        rows = rows if high is None else rows.where(AuditRow.audit_id <= high)
        # One after the other: of several together, all entries would be sorted.
        parts = [rows.where(_called == name) for name in _names(session, sought.who)] if sought.who else [rows]
        found = [row for part in parts for row in session.scalars(part)]
    found.sort(key=lambda row: row.audit_id, reverse=not sought.oldest_first)
    return tuple(reply(AuditEntry, row) for row in found[:limit])


def _numbers(session: Session, sought: Sought) -> tuple[int | None, int | None]:
    """Return the smallest and the largest number that an entry can have; they rise with time."""
    low = None if sought.after is None else sought.after + 1
    high = None if sought.before is None else sought.before - 1
    if sought.since is not None:
        from_then = (
            select(AuditRow.audit_id)
            .where(AuditRow.at >= sought.since)
            .order_by(AuditRow.at, AuditRow.audit_id)
            .limit(1)
        )
        first = session.scalar(from_then)
        low = max(low or 0, _LARGEST if first is None else first)
    if sought.until is not None:
        earlier = select(AuditRow.audit_id).where(AuditRow.at < sought.until)
        last = session.scalar(earlier.order_by(AuditRow.at.desc(), AuditRow.audit_id.desc()).limit(1))
        high = min(_LARGEST if high is None else high, last or 0)
    return low, high


def _names(session: Session, who: str) -> list[str]:
    """Return the names that are meant: this one where it is somebody's, or else those that begin so."""
    following = select(_called).where(begins_with(_called, who)).order_by(_called).limit(1)
    found: list[str] = []
    name = session.scalar(following)
    while name is not None and len(found) < NAMES:
        found.append(name)
        name = None if name == who else session.scalar(following.where(_called > name))
    return found
