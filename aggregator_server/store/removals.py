"""Arrays that are about to be removed: nothing may come to need one meanwhile, also where its remover is paused.

Who sweeps first notes what no row names, under the lock of the writers; from then on the database itself refuses a row
that names such an array, whichever server writes it. A note is removed with its array. One whose server was killed or
paused in between holds for an hour, for the one request to the store that such a server may have begun to send.
"""

from collections.abc import Collection, Sequence

from sqlalchemy import Column, Connection, DateTime, MetaData, String, Table
from sqlalchemy.orm import Session

_REMOVALS = Table(
    "removals",
    MetaData(),
    Column("sha256", String(64, collation="C"), primary_key=True),
    Column("holds_until", DateTime(timezone=True), nullable=False),
)
REFUSED = "AU001"
"""What the database says of a row that names one of these (SQLSTATE)."""
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


def make_removals(connection: Connection) -> None:
    """Make the table and the check of new rows; the table ``blobs`` has to be there."""
    _REMOVALS.create(connection)
    connection.exec_driver_sql(_MAKE)


def note_removals(session: Session, digests: Sequence[str]) -> set[str]:
    """Note those of some arrays that no row names, and return them; the transaction has the lock of the writers."""
    connection = session.connection()
    connection.exec_driver_sql(_OVER)
    return set(connection.exec_driver_sql(_NOTE, (list(digests),)).scalars())


def forget_removals(connection: Connection, digests: Collection[str]) -> None:
    """Remove the notes of arrays that were removed, or whose removal has not begun."""
    connection.exec_driver_sql("DELETE FROM removals WHERE sha256 = ANY(%s)", (list(digests),))
