"""Servers of one fleet side by side: which of them moves its rounds, and how they hear of what another one wrote.

The row of ``lease`` says who moves rounds, until when by the database's clock, and by which token: it grows with every
new holder. A step's writes check it within their transactions, so a server that was paused writes nothing afterwards.
What was written is told by NOTIFY; a number in the same row, read every second, tells it where that got lost.
"""

import contextlib
import logging
import math
import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from sqlalchemy import BigInteger, Column, Connection, DateTime, Integer, MetaData, String, Table, insert
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from aggregator_server.errors import LeaseLostError
from aggregator_server.store.store import Kind

LOCKS = 0x41555249  # advisory locks have two numbers, this one and that of what is locked
WRITER = 1

_LEASE = Table(
    "lease",
    MetaData(),
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("holder", String, nullable=False),
    Column("token", BigInteger, nullable=False),
    Column("expires_at", DateTime(timezone=True), nullable=False),
    Column("changes", BigInteger, nullable=False),
)
_LEASE_S, _RENEW_S, _STATEMENT_S = 4.0, 1.0, 2
# In which what is told is told once: uploads, of which few end a round, come by the hundred in a second.
_TOGETHER_S, _ROUNDS_TOGETHER_S = 0.05, 0.2
_START_S, _END_S = 10.0, 3.0
_OFFERED = "lease"
# The row is read as it was before: the former holder.
_TAKE = """
WITH taken AS (
    UPDATE lease SET
        holder = %(me)s,
        token = CASE WHEN holder = %(me)s THEN token ELSE token + 1 END,
        expires_at = clock_timestamp() + make_interval(secs => %(seconds)s)
    WHERE holder = %(me)s OR expires_at <= clock_timestamp()
    RETURNING token
)
SELECT (SELECT token FROM taken) AS token, holder, changes,
    extract(epoch FROM expires_at - clock_timestamp())::double precision AS left_s
FROM lease
"""
_TELL = """
WITH told AS (UPDATE lease SET changes = changes + %(more)s RETURNING changes)
SELECT changes, pg_notify(%(channel)s, %(kinds)s) FROM told
"""
_TELL_ROUND = "SELECT changes, pg_notify(%(channel)s, %(kinds)s) FROM lease"
_GIVE_BACK = """
WITH given AS (UPDATE lease SET holder = '', expires_at = clock_timestamp() WHERE holder = %(me)s RETURNING id)
SELECT pg_notify(%(channel)s, %(kinds)s) FROM given
"""
# Of a server whose lease is over: what it has begun to write, it must not go on with while others wait.
_END_WRITES = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %(name)s AND pid IN (
    SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND classid = %(locks)s AND objid = %(writer)s
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
)
"""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Lease:
    """The right to move rounds."""

    holder: str  # server that has it
    token: int  # of this holder's time; larger than that of every one before


_STEP: ContextVar[Lease | None] = ContextVar("lease_of_the_step", default=None)


def make_lease(connection: Connection) -> None:
    """Make the table, with its row."""
    _LEASE.create(connection)
    connection.execute(insert(_LEASE).values(id=1, holder="", token=0, expires_at="epoch", changes=0))


def name_of(server: str) -> str:
    """Return what a server calls itself at the database."""
    return f"auricle-aggregator {server}"


def require_lease(session: Session) -> None:
    """Refuse a write, under the writer's lock, of a step whose lease is over. Raises LeaseLostError: it is."""
    step = _STEP.get()
    if step is None:
        return
    found = session.connection().exec_driver_sql(
        "SELECT 1 FROM lease WHERE holder = %s AND token = %s AND expires_at > clock_timestamp()",
        (step.holder, step.token),
    )
    if found.first() is None:
        raise LeaseLostError(f"another server moves the rounds now: the lease with token {step.token} is over")


def said(error: BaseException) -> str:
    """Return what a database said, in one line; no statement and no parameter is in it."""
    return " ".join(str(getattr(error, "orig", None) or error).split())[:300]


class Servers:
    """This server among those of its fleet: a thread with a connection of its own, from start to end."""

    def __init__(self, connect: Callable[[], Connection], me: str, fleet: int, heard: Callable[[Kind], None]) -> None:
        """Make server ``me`` of a fleet, which does not run yet.

        ``connect``: returns a new connection whose every statement is a transaction. ``heard``: is called by the thread
        when another server told something, or may have; must return at once.
        """
        self._connect = connect
        self._me = me
        self._channel = f"auricle_{fleet}"
        self._heard = heard
        self._held: tuple[Lease | None, float] = (None, 0.0)  # until when, by the clock of this machine
        self._changes: int | None = None
        self._is_away = False
        self._noticed: set[str] = set()
        self._lock = threading.Lock()
        self._to_tell: set[Kind] = set()
        self._bell, self._button = socket.socketpair()
        self._button.setblocking(False)
        self._ending = threading.Event()
        self._first = threading.Event()  # look at the lease
        self._thread = threading.Thread(target=self._run, name="servers", daemon=True)

    def start(self) -> None:
        """Start; when this returns, the lease is this server's where no other one has it."""
        self._thread.start()
        self._first.wait(_START_S)

    def end(self) -> None:
        """Give the lease back, and end."""
        self._ending.set()
        self._ring()
        self._thread.join(_END_S)  # longer only where the database is silent

    def tell(self, kind: Kind) -> None:
        """Tell the other servers soon. Any thread may call this."""
        if kind == "round" and self._lease() is not None:
            return  # nobody else would do anything
        with self._lock:
            is_first = kind not in self._to_tell
            self._to_tell.add(kind)
        if is_first:
            self._ring()

    @contextlib.contextmanager
    def leading(self) -> Iterator[int | None]:
        """A step of the rounds, by the lease's token, which each write checks; None: another server has the lease."""
        lease = self._lease()
        before = _STEP.set(lease)
        try:
            yield None if lease is None else lease.token
        finally:
            _STEP.reset(before)

    def _lease(self) -> Lease | None:
        lease, until = self._held
        return lease if time.monotonic() < until else None

    def _ring(self) -> None:
        with contextlib.suppress(OSError):  # it was rung already, or the thread has ended
            self._button.send(b"x")

    def _run(self) -> None:
        try:
            while not self._ending.is_set():
                try:
                    with contextlib.closing(self._connect()) as connection:
                        self._serve(connection)
                except (SQLAlchemyError, OSError) as error:
                    if not self._is_away:
                        _log.warning("other servers cannot be spoken with: %s", said(error))
                    self._is_away = True
                except Exception:  # without this thread nobody would move rounds
                    _log.exception("other servers cannot be spoken with")
                else:
                    return
                self._first.set()
                self._ending.wait(_RENEW_S)
        finally:
            self._bell.close()
            self._button.close()

    def _serve(self, connection: Connection) -> None:
        driver: Any = connection.connection.dbapi_connection
        own = driver.info.backend_pid

        def notice(told: Any) -> None:  # noqa: ANN401  (psycopg's own)
            if told.pid != own:
                self._noticed.add(told.payload)

        driver.add_notify_handler(notice)
        connection.exec_driver_sql(f"SET statement_timeout = '{_STATEMENT_S}s'; LISTEN {self._channel}")
        look_at = told_at = 0.0
        with selectors.DefaultSelector() as selector:
            selector.register(driver.fileno(), selectors.EVENT_READ)
            selector.register(self._bell, selectors.EVENT_READ)
            while not self._ending.is_set():
                if _OFFERED in self._noticed or time.monotonic() >= look_at:
                    look_at = time.monotonic() + self._renew(connection)
                    self._is_away = False
                    self._first.set()
                if self._noticed:
                    self._listen(connection)
                if time.monotonic() >= told_at + self._together_s():
                    self._send(connection)
                    told_at = time.monotonic()
                wake_at = min(look_at, told_at + self._together_s())
                for key, _ in selector.select(0 if self._noticed else max(0.0, wake_at - time.monotonic())):
                    if key.fileobj is self._bell:
                        self._bell.recv(4_096)
                    else:
                        self._listen(connection)
        self._held = (None, 0.0)
        connection.exec_driver_sql(_GIVE_BACK, {"me": self._me, "channel": self._channel, "kinds": _OFFERED})

    def _together_s(self) -> float:
        """Return how long to wait since others were told something, for more of it."""
        with self._lock:
            if not self._to_tell:
                return math.inf
            return _TOGETHER_S if "work" in self._to_tell else _ROUNDS_TOGETHER_S

    def _renew(self, connection: Connection) -> float:
        """Take or renew the lease where that can be; return after how many seconds to do it again."""
        began, had = time.monotonic(), self._lease()
        found: Any = connection.exec_driver_sql(_TAKE, {"me": self._me, "seconds": _LEASE_S}).one()
        self._note(found.changes)
        if found.token is None:
            self._held = (None, 0.0)
            return float(min(_RENEW_S, max(_TOGETHER_S, found.left_s)))
        lease = Lease(self._me, found.token)
        self._held = (lease, began + _LEASE_S)
        if lease != had:
            _log.info("this server moves the rounds now, with token %d", lease.token)
            if found.holder not in ("", self._me):
                self._end_writes(connection, found.holder)
            self._heard("round")
        return _RENEW_S

    def _end_writes(self, connection: Connection, former: str) -> None:
        try:
            connection.exec_driver_sql(_END_WRITES, {"name": name_of(former), "locks": LOCKS, "writer": WRITER})
        except SQLAlchemyError as error:  # another user's; the database ends them a little later
            _log.warning("what the server before has begun to write could not be ended: %s", error)

    def _listen(self, connection: Connection) -> None:
        """Take in what was told: notifications come with the answer to a statement."""
        changes: int = connection.exec_driver_sql("SELECT changes FROM lease").scalar_one()
        noticed = {kind for told in self._noticed for kind in told.split()}
        self._noticed.clear()
        self._note(changes)
        if "round" in noticed:
            self._heard("round")

    def _send(self, connection: Connection) -> None:
        with self._lock:
            kinds, self._to_tell = self._to_tell, set()
        more = int("work" in kinds)
        told = {"more": more, "channel": self._channel, "kinds": " ".join(sorted(kinds))}
        try:
            changes: int = connection.exec_driver_sql(_TELL if more else _TELL_ROUND, told).scalar_one()
        except SQLAlchemyError:
            with self._lock:  # it may be told twice
                self._to_tell |= kinds
            raise
        if self._changes is not None and changes == self._changes + more:
            self._changes = changes
        else:
            self._note(changes)

    def _note(self, changes: int) -> None:
        """Note the number of changes; a new one is of another server."""
        before, self._changes = self._changes, changes
        if before not in (None, changes):
            self._heard("work")
