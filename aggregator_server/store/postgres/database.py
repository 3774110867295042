"""A fleet's tables in PostgreSQL, by psycopg 3.

What the rest of the package knows from SQLite holds here too: a reader sees one state, and one writer writes at a time,
by a lock of the fleet that a transaction takes first (``pg_advisory_xact_lock``). psycopg loads late.
"""

import contextlib
import secrets
import threading
import time
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import Future, wait
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.orm import Mapper, Session, object_session

from aggregator_server.errors import RefusedError, StartError, StateAwayError
from aggregator_server.store import migrations
from aggregator_server.store.database import CONNECTIONS, Database, Durability
from aggregator_server.store.identity import Identity
from aggregator_server.store.location import show_database
from aggregator_server.store.postgres.deadlines import Deadlines, bound
from aggregator_server.store.postgres.servers import LOCKS, WRITER, name_of, require_lease, said
from aggregator_server.store.postgres.tables import FLEET, REFUSED, SERVER, Fill, prepare
from aggregator_server.store.tables import Base

_TABLES = 0  # what an advisory lock locks, besides those of servers.py and tables.py
_STATEMENT_S, _LOCK_WAIT_S, _POOL_S, _ABANDONED_S = 60, 30, 10, 60
# In which a transaction that writes must say something: a server that was paused in one keeps others from writing.
_WRITER_S = 15
# What the event loop waits for, which nobody else is served beside.
_READER_S = 2
_PAUSE_S = 1.0
_AWAY = (OperationalError, InterfaceError, PoolTimeoutError)
_DISK_FULL, _READ_ONLY = "53100", "25006"

_NEXT_KEYS = "auricle_next_keys"  # of a session's flush


@sa.event.listens_for(Base, "before_insert", propagate=True)
def _number(mapper: Mapper[Base], connection: sa.Connection, row: Base) -> None:
    """Give a row the number after the largest one, as SQLite does: a sequence skips those of rows that were undone."""
    # Rounds are seeded by their numbers, so a round that is opened again after a crash has to have the same one.
    key = mapper.primary_key[0]
    if connection.dialect.name != "postgresql" or len(mapper.primary_key) != 1 or not key.autoincrement:
        return
    name = mapper.get_property_by_column(key).key
    session = object_session(row)
    if getattr(row, name) is not None or not isinstance(key.type, sa.Integer) or key.foreign_keys or session is None:
        return
    known = session.info.setdefault(_NEXT_KEYS, {})
    if mapper not in known:
        known[mapper] = 1 + (connection.scalar(sa.select(sa.func.max(key))) or 0)
    setattr(row, name, known[mapper])
    known[mapper] += 1


@sa.event.listens_for(Session, "before_flush")
def _number_anew(session: Session, *_: object) -> None:
    session.info.pop(_NEXT_KEYS, None)


class Postgres(Database):
    """A database of PostgreSQL, or the schema of one that ``search_path`` names."""

    def __init__(self, engine: sa.Engine, deadlines: Deadlines, shown: str, number: int, server: str) -> None:
        super().__init__(engine, shown)
        self._deadlines = deadlines
        self.number = number  # of the fleet
        self.server = server  # what this one calls itself among those of the fleet
        self._away_until = 0.0
        self._coming: Future[sa.Connection] | None = None  # the reader, that a thread connects
        self._waited = False  # in vain, since it was lost
        self._holder: sa.Connection | None = None
        self._holds = ""
        sa.event.listen(engine, "begin", self._begin)
        self._autocommits = engine.execution_options(isolation_level="AUTOCOMMIT")
        self._snapshots = engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)

    @contextlib.contextmanager
    def writing(self, durability: Durability) -> Iterator[Session]:
        """A session that nobody writes beside, and that commits at the end."""
        with super().writing(durability) as session:
            require_lease(session)
            yield session

    @property
    def _reading(self) -> sa.Engine:
        return self._snapshots

    def _autocommitting(self) -> sa.Connection:
        connection = self.engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        connection.detach()  # not of those that others wait for
        bound(connection, _READER_S + 1)
        connection.exec_driver_sql(f"SET statement_timeout = '{_READER_S}s'")
        return connection

    def _begin(self, connection: sa.Connection) -> None:
        write = connection.get_execution_options().get("auricle_write")
        if write is not None:
            # The lock comes first: what each statement sees is what was committed when it began.
            connection.exec_driver_sql(
                "SELECT pg_advisory_xact_lock(%s, %s), set_config('synchronous_commit', %s, true), "
                "set_config('idle_in_transaction_session_timeout', %s, true)",
                (LOCKS, WRITER, "off" if write == "soon" else "on", f"{_WRITER_S}s"),
            )

    def first_row(self, statement: sa.Executable, parameters: Mapping[str, object]) -> Any:  # noqa: ANN401
        """Return the first row that a statement finds in the newest state; of one thread alone.

        It is asked again once, on a new connection, where the old one is lost. While nobody answers, the event loop
        waits once for a little, and not for every request.
        """
        with self.answers():
            if self._reader is not None or not self._reader_thread:
                try:
                    return super().first_row(statement, parameters)
                except _AWAY as error:
                    if isinstance(error, DBAPIError) and not error.connection_invalidated:
                        raise
            self._take_reader()
            return super().first_row(statement, parameters)

    def _take_reader(self) -> None:
        """Take the reader that a thread has connected. Raises StateAwayError: it has not yet, or could not."""
        if self._coming is None:
            if time.monotonic() < self._away_until:
                raise StateAwayError(f"the database {self.shown} did not answer a moment ago")
            self._coming = Future()
            threading.Thread(target=self._connect_reader, args=(self._coming,), name="reader", daemon=True).start()
        coming = self._coming
        if not wait([coming], 0.0 if self._waited else _READER_S).done:
            self._waited = True
            raise StateAwayError(f"the database {self.shown} does not answer")
        self._coming = None
        try:
            self._reader = coming.result()
        except BaseException:
            self._away_until = time.monotonic() + _PAUSE_S
            raise
        self._waited = False

    def _connect_reader(self, coming: Future[sa.Connection]) -> None:
        try:
            self._hold_again()
            coming.set_result(self._autocommitting())
        except BaseException as error:  # the event loop has it
            coming.set_exception(error)

    @contextlib.contextmanager
    def answers(self) -> Iterator[None]:
        """Turn errors of a database that does not answer into StateAwayError."""
        try:
            yield
        except SQLAlchemyError as error:
            state = getattr(getattr(error, "orig", None), "sqlstate", None)
            if state == _DISK_FULL:
                raise RefusedError(
                    "storage_full", "the disk of the server's database is full; its operator must free space"
                ) from None
            if state == REFUSED:
                raise StateAwayError(
                    "another server is removing an old array with these bytes; send it again"
                ) from None
            if isinstance(error, _AWAY) or state == _READ_ONLY or getattr(error, "connection_invalidated", False):
                raise StateAwayError(f"the database {self.shown} does not answer as it should: {said(error)}") from None
            raise

    def flush(self) -> None:
        """Commit something small: what was committed before is durable then. Raises StateAwayError: no answer."""
        with self.answers(), self._autocommits.connect() as connection:
            connection.exec_driver_sql("SELECT pg_logical_emit_message(true, 'auricle', '')")

    def hold(self, *, shared: bool = False) -> bool:
        """Hold the fleet to the process' end; say whether that could be. Others may hold a ``shared`` one, too.

        Raises StartError: another release has changed the tables meanwhile, and this one cannot use them.
        """
        lock = "pg_try_advisory_lock_shared" if shared else "pg_try_advisory_lock"
        holder = self.engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        if holder.exec_driver_sql(f"SELECT {lock}(%s, %s)", (LOCKS, SERVER)).scalar_one():
            holder.detach()
            try:  # while nothing held the fleet, another release may have changed its tables
                migrations.require_newest(holder, self.shown)
            except StartError:
                holder.close()
                raise
            bound(holder, _READER_S + 1)
            self._holder, self._holds = holder, "shared" if shared else "alone"
            return True
        holder.close()
        return False

    def _hold_again(self) -> None:
        """Hold the fleet on a new connection where the old one was lost. Raises StateAwayError: it cannot be."""
        if not self._holds:
            return
        if self._holder is not None:
            try:
                self._holder.exec_driver_sql("SELECT 1")
            except _AWAY:
                self._holder.close()
                self._holder = None
            else:
                return
        try:
            held = self.hold(shared=self._holds == "shared")
        except StartError as error:
            raise StateAwayError(str(error)) from None
        if not held:
            raise StateAwayError(f"another program holds the fleet in {self.shown} now; stop one of them")

    def end_removal(self, digests: Collection[str]) -> None:
        """Let rows name blobs again, which were removed or stay; also where another server has the lease by now."""
        if digests:
            with self.answers(), self.engine.begin() as connection:
                connection.exec_driver_sql("DELETE FROM removals WHERE sha256 = ANY(%s)", (list(digests),))

    def listening(self) -> sa.Connection:
        """Return a connection for :class:`Servers`: each statement on it is a transaction."""
        return self._autocommitting()

    def hurry(self, seconds: float) -> None:
        """Wait for the database no longer than some seconds, for the server ends. Any thread may call this."""
        self._deadlines.hurry(seconds)

    def close(self) -> None:
        """Close every connection, and hold the fleet no longer."""
        if self._coming is not None:
            self._coming.add_done_callback(_close_reader)
        if self._holder is not None:
            self._holder.close()
            self._holder = None
        super().close()

    def note_moved(self, to: str) -> None:
        """Note that the fleet was moved: no server opens these tables any more."""
        with self.answers(), self.engine.begin() as connection:
            connection.execute(sa.update(FLEET).values(moved_to=to))


def _close_reader(coming: Future[sa.Connection]) -> None:
    if coming.exception() is None:
        coming.result().close()


def open_postgres(
    address: str, identity: Identity, *, create: bool, number: int = 0, fill: Fill | None = None
) -> Postgres:
    """Open a database. With ``create``, all tables are made in an empty one, for the fleet ``number`` (0: a new one).

    ``fill`` writes rows in the same transaction. Raises StartError: it does not answer, is another program's or another
    fleet's, or has tables of another release.
    """
    shown = show_database(address)
    server = secrets.token_hex(8)
    engine, deadlines = _connect(address, shown, server)
    try:
        with engine.begin() as connection:
            connection.exec_driver_sql("SELECT pg_advisory_xact_lock(%s, %s)", (LOCKS, _TABLES))
            _require_unicode(connection, shown)
            found = prepare(connection, shown, identity, create=create, number=number, fill=fill)
        identity.note(found)
    except (*_AWAY, DBAPIError) as error:
        engine.dispose()
        raise _unusable(shown, error) from None
    except BaseException:
        engine.dispose()
        raise
    return Postgres(engine, deadlines, shown, found, server)


def _require_unicode(connection: sa.Connection, shown: str) -> None:
    """Refuse a database that cannot hold every name. Raises StartError: its encoding is another."""
    encoding: str = connection.exec_driver_sql("SHOW server_encoding").scalar_one()
    if encoding != "UTF8":
        raise StartError(
            f"the database {shown} has the encoding {encoding}, which cannot hold every device's name; make another "
            "one: createdb --encoding UTF8 --template template0 NAME"
        )


def has_fleet(address: str) -> bool:
    """Say whether a database holds a fleet. Raises StartError: it does not answer, or cannot hold one."""
    shown = show_database(address)
    engine, _ = _connect(address, shown)
    try:
        with engine.connect() as connection:
            _require_unicode(connection, shown)
            return sa.inspect(connection).has_table(FLEET.name)
    except _AWAY as error:
        raise _unusable(shown, error) from None
    finally:
        engine.dispose()


def _unusable(shown: str, error: SQLAlchemyError) -> StartError:
    found = said(error)
    missing = "no password supplied" in found
    way_out = "; the data folder keeps no password: put it into ~/.pgpass, $PGPASSWORD or $AURICLE_DATABASE" * missing
    return StartError(f"the database {shown} cannot be used: {found}{way_out}")


def _connect(address: str, shown: str, server: str = "") -> tuple[sa.Engine, Deadlines]:
    url = sa.make_url(address).set(drivername="postgresql+psycopg")
    try:
        engine = sa.create_engine(
            url,
            pool_size=CONNECTIONS,
            max_overflow=4,  # the connections of the event loop, and of the lock
            pool_timeout=_POOL_S,
            hide_parameters=True,
            connect_args={"application_name": name_of(server), "client_encoding": "UTF8"},
        )
    except ModuleNotFoundError as error:
        raise StartError(f"--database {shown} needs: pip install 'auricle[scale]'") from error
    except (SQLAlchemyError, TypeError, ValueError) as error:
        raise StartError(f"--database {shown} cannot be used: {said(error)}") from None
    sa.event.listen(engine, "connect", _configure)
    return engine, Deadlines(engine, _STATEMENT_S + 5)


def _configure(connection: Any, _record: object) -> None:  # noqa: ANN401  (psycopg's own)
    connection.execute(
        f"SET statement_timeout = '{_STATEMENT_S}s'; SET lock_timeout = '{_LOCK_WAIT_S}s'; "
        f"SET idle_in_transaction_session_timeout = '{_ABANDONED_S}s'"
    )
    connection.commit()
