"""Failed authentications of network addresses: how long each has to wait, and their table where servers share a fleet.

The table is PostgreSQL's alone: one server counts in its memory (web/guard.py). Its rows are no state of the fleet:
they are neither copied nor backed up, and a database that loses the last ones in a crash loses nothing.
"""

from dataclasses import astuple, dataclass
from typing import Any

from sqlalchemy import Column, Connection, Double, Index, Integer, MetaData, String, Table

_ALLOWED = 10  # in a minute
_WINDOW_S = 60.0
_FIRST_PAUSE_S = 60.0
_LONGEST_PAUSE_S = 3_600.0
_FORGOTTEN_S = 2 * _LONGEST_PAUSE_S
ADDRESSES = 10_000
"""Of how many addresses the failures are kept; the oldest make room."""


@dataclass
class Failures:
    """What is known of an address. Times are seconds on one clock.

    Attributes:
        began: When the minute began that ``count`` is of.
        last: When it failed last.
        pause: How long it had to wait last; 0: it never had to.
        until: When the wait is over.
    """

    began: float
    last: float
    count: int = 0
    pause: float = 0.0
    until: float = 0.0

    def add(self, now: float) -> bool:
        """Count a failure, unless the address waits; say whether a wait begins with it."""
        if now < self.until:
            return False
        if self.is_forgotten(now):
            self.began, self.count, self.pause = now, 0, 0.0
        if now - self.began >= _WINDOW_S and not self.pause:
            self.began, self.count = now, 0
        self.count, self.last = self.count + 1, now
        if self.count <= _ALLOWED:
            return False
        self.pause = min(max(_FIRST_PAUSE_S, 2 * self.pause), _LONGEST_PAUSE_S)
        self.until = now + self.pause
        return True

    def is_forgotten(self, now: float) -> bool:
        """Say whether the address has been quiet for so long that it begins anew."""
        return now - max(self.last, self.until) > _FORGOTTEN_S


_FAILURES = Table(
    "failed_authentications",
    MetaData(),
    Column("network", String(64), primary_key=True),
    Column("began", Double, nullable=False),
    Column("last", Double, nullable=False),
    Column("count", Integer, nullable=False),
    Column("pause", Double, nullable=False),
    Column("until", Double, nullable=False),
)
Index("failed_authentications_by_last", _FAILURES.c.last)
# A server that is paused within a count keeps others from this one row for a moment. The fleet's writers wait for none.
_BOUNDS = """
SELECT set_config('lock_timeout', '1s', true), set_config('statement_timeout', '2s', true),
    set_config('idle_in_transaction_session_timeout', '2s', true), set_config('synchronous_commit', 'off', true),
    extract(epoch FROM clock_timestamp())::double precision AS now
"""
# The row is locked, as it was or new.
_FIND = """
INSERT INTO failed_authentications (network, began, last, count, pause, until)
VALUES (%(network)s, %(now)s, %(now)s, 0, 0, 0)
ON CONFLICT (network) DO UPDATE SET network = excluded.network
RETURNING began, last, count AS count_, pause, until, extract(epoch FROM clock_timestamp())::double precision AS now
"""
_KEEP = """
UPDATE failed_authentications SET began = %s, last = %s, count = %s, pause = %s, until = %s WHERE network = %s
"""
_FORGET = """
DELETE FROM failed_authentications
WHERE last <= (SELECT last FROM failed_authentications ORDER BY last DESC OFFSET %(kept)s LIMIT 1)
"""


def make_failures(connection: Connection) -> None:
    """Make the table."""
    _FAILURES.create(connection)


def count_failure(connection: Connection, network: str) -> tuple[float, bool]:
    """Count a failure for all servers; return (seconds that the network has to wait, whether the wait begins now)."""
    began: Any = connection.exec_driver_sql(_BOUNDS).one()
    row: Any = connection.exec_driver_sql(_FIND, {"network": network, "now": began.now}).one()
    found = Failures(row.began, row.last, row.count_, row.pause, row.until)
    now: float = row.now
    begins = found.add(now)
    if begins or now >= found.until:
        connection.exec_driver_sql(_KEEP, (*astuple(found), network))
    return max(0.0, found.until - now), begins


def forget_failures(connection: Connection) -> None:
    """Remove the rows of all but the addresses that failed last."""
    connection.exec_driver_sql(_FORGET, {"kept": ADDRESSES})
