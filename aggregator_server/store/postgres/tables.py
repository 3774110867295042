"""The tables of a fleet in PostgreSQL, as a server finds them: none yet, this fleet's, or another's.

Arrays that are about to be removed: nothing may come to need one meanwhile, also where its remover is paused.

Who sweeps first notes what no row names, under the lock of the writers; from then on the database itself refuses a row
that names such an array, whichever server writes it. A note is removed with its array. One whose server was killed or
paused in between holds for an hour, for the one request to the store that such a server may have begun to send.
"""

from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import BigInteger, Column, Connection, DateTime, MetaData, String, Table, insert, inspect, select
from sqlalchemy.orm import Session

from aggregator_server.errors import StartError
from aggregator_server.store import migrations
from aggregator_server.store.identity import Identity
from aggregator_server.store.postgres.servers import LOCKS, make_lease
from aggregator_server.store.tables import Base

# Beside the tables of every fleet: its number, and where it was moved to.
FLEET = Table(
    "fleet", MetaData(), Column("number", BigInteger, primary_key=True, autoincrement=False), Column("moved_to", String)
)
_REMOVALS = Table(
    "removals",
    MetaData(),
    Column("sha256", String(64, collation="C"), primary_key=True),
    Column("holds_until", DateTime(timezone=True), nullable=False),
)
REFUSED = "AU001"  # what the database says of a row that names one of these (SQLSTATE)
_MAKE = """
CREATE FUNCTION auricle_refuse_removed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM removals WHERE sha256 = NEW.sha256 AND holds_until > clock_timestamp()) THEN
        RAISE EXCEPTION 'this array is being removed' USING ERRCODE = 'AU001';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER auricle_refuse_removed BEFORE INSERT ON blobs
    FOR EACH ROW EXECUTE FUNCTION auricle_refuse_removed()
"""
_NOTE = """
INSERT INTO removals (sha256, holds_until)
SELECT sha256, clock_timestamp() + interval '1 hour' FROM unnest(%s::text[]) AS old (sha256)
WHERE NOT EXISTS (SELECT 1 FROM blobs WHERE blobs.sha256 = old.sha256)
ON CONFLICT (sha256) DO UPDATE SET holds_until = excluded.holds_until
RETURNING sha256
"""
_OVER = "DELETE FROM removals WHERE holds_until <= clock_timestamp()"
_ALONE = "SELECT pg_try_advisory_xact_lock(%s, %s)"
Fill = Callable[[Connection], object]
SERVER = 2  # what an advisory lock of this number holds: the fleet, by a server or a command


def prepare(
    connection: Connection, shown: str, identity: Identity, *, create: bool, number: int, fill: Fill | None
) -> int:
    """Make the tables, or check them; return the number of the fleet. With ``create`` earlier ones are changed."""
    names = inspect(connection).get_table_names()
    if names and FLEET.name not in names:
        raise StartError(f"the database {shown} has tables of another program, like {min(names)}; name one of its own")
    if not names and not create:
        raise StartError(f"the database {shown} holds no fleet; `auricle-aggregator run --create` begins one")
    row: Any = connection.execute(select(FLEET)).one() if names else None
    if row is not None and row.moved_to is not None:
        raise StartError(f"the fleet in {shown} was moved to {row.moved_to}; run it there")
    if row is None:
        found = number or identity.require(0, shown)
        FLEET.create(connection)
        connection.execute(insert(FLEET).values(number=found))
        make_lease(connection)
        Base.metadata.create_all(connection)
        _REMOVALS.create(connection)
        connection.exec_driver_sql(_MAKE)
        migrations.stamp(connection)
        if fill is not None:
            connection.exec_driver_sql("SET LOCAL statement_timeout = 0")
            fill(connection)
        return found
    found = identity.require(int(row.number), shown)
    if create:
        if (
            not migrations.is_newest(connection)
            and not connection.exec_driver_sql(_ALONE, (LOCKS, SERVER)).scalar_one()
        ):
            raise StartError(
                f"servers of another release run on the fleet in {shown}; stop them all, then start this one"
            )
        migrations.upgrade(connection, shown)
    else:
        migrations.require_newest(connection, shown)
    with Session(connection) as session:
        identity.require_blobs(session, shown)
    return found


def note_removals(session: Session, digests: Sequence[str]) -> set[str]:
    """Note those of some arrays that no row names, and return them; the transaction has the lock of the writers."""
    connection = session.connection()
    connection.exec_driver_sql(_OVER)
    return set(connection.exec_driver_sql(_NOTE, (list(digests),)).scalars())
