"""The tables of a fleet in PostgreSQL, as a server of some release finds them: made, used as they are, or changed.

Servers of two releases run side by side during an upgrade. The newer one changes the tables where those of the older
one can go on (migrations/__init__.py), and the database says from which revision on a release can use them.
"""

import logging
from typing import Any

from sqlalchemy import BigInteger, Column, Connection, MetaData, String, Table, insert, inspect, select, update

from aggregator_server.errors import StartError
from aggregator_server.store import failures, migrations
from aggregator_server.store.database import Fill
from aggregator_server.store.identity import Identity
from aggregator_server.store.removals import make_removals
from aggregator_server.store.servers import LOCKS, WRITER, has_lease, make_lease
from aggregator_server.store.tables import Base

# Beside the tables of every fleet: its number, where it was moved to, and the oldest revision whose release can use
# them.
FLEET = Table(
    "fleet",
    MetaData(),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("moved_to", String),
    Column("oldest", String),
)
SERVER = 2
"""What an advisory lock of this number holds: the fleet, by a server or a command."""
_log = logging.getLogger(__name__)


def prepare(
    connection: Connection, shown: str, identity: Identity, *, create: bool, number: int, fill: Fill | None
) -> int:
    """Make the tables, or change those of an older release; return the number of the fleet."""
    names = inspect(connection).get_table_names()
    if names and FLEET.name not in names:
        raise StartError(f"the database {shown} has tables of another program, like {min(names)}; name one of its own")
    if not names and not create:
        raise StartError(f"the database {shown} holds no fleet; `auricle-aggregator run --create` begins one")
    if names and "oldest" not in {column["name"] for column in inspect(connection).get_columns(FLEET.name)}:
        connection.exec_driver_sql(f"ALTER TABLE {FLEET.name} ADD COLUMN oldest VARCHAR")
    row: Any = connection.execute(select(FLEET)).one() if names else None
    if row is not None and row.moved_to is not None:
        raise StartError(f"the fleet in {shown} was moved to {row.moved_to}; run it there")
    empty = row is None
    found = number if empty and number else identity.require(0 if empty else int(row.number), shown, empty=empty)
    if empty:
        FLEET.create(connection)
        connection.execute(insert(FLEET).values(number=found, oldest=migrations.oldest()))
        make_lease(connection)
        failures.make_failures(connection)
        Base.metadata.create_all(connection)
        make_removals(connection, names)
        migrations.stamp(connection, migrations.newest())
        if fill is not None:
            connection.exec_driver_sql("SET LOCAL statement_timeout = 0")
            fill(connection)
        return found
    if not has_lease(names):
        make_lease(connection)
    failures.make_failures(connection)
    make_removals(connection, names)
    noted = require_usable(connection, shown)
    if migrations.is_known(noted) and noted != migrations.newest():
        _upgrade(connection, shown, noted)
    return found


def require_usable(connection: Connection, shown: str) -> str:
    """Return the revision of the tables. Raises StartError: neither this release nor one before it can use them."""
    noted = migrations.revision(connection)
    oldest: str | None = connection.execute(select(FLEET.c.oldest)).scalar_one()
    if noted is not None and (migrations.is_known(noted) or (oldest is not None and migrations.is_known(oldest))):
        return noted
    raise StartError(
        f"the tables in {shown} have revision {noted or 'none'}, which releases from revision {oldest or noted} on can "
        f"use; this release reads up to {migrations.newest()}. Run the release that wrote them, or a newer one"
    )


def _upgrade(connection: Connection, shown: str, noted: str) -> None:
    """Change the tables of an older release, beside its servers where they can go on."""
    if migrations.is_younger(migrations.oldest(), than=noted) and not _is_alone(connection):
        raise StartError(
            f"servers of an older release run on {shown}, and cannot go on with the tables of this one (revision "
            f"{migrations.newest()}). Stop all of them, then start this one"
        )
    _log.info("the tables in %s are changed from revision %s to %s", shown, noted, migrations.newest())
    connection.exec_driver_sql("SET LOCAL statement_timeout = 0")
    # Servers that run write nothing meanwhile; who reads goes on, but for the moment in which a table is changed.
    connection.exec_driver_sql("SELECT pg_advisory_xact_lock(%s, %s)", (LOCKS, WRITER))
    migrations.upgrade(connection)
    connection.execute(update(FLEET).values(oldest=migrations.oldest()))


def _is_alone(connection: Connection) -> bool:
    """Say whether no server holds the fleet; none can until the transaction ends."""
    alone: bool = connection.exec_driver_sql("SELECT pg_try_advisory_xact_lock(%s, %s)", (LOCKS, SERVER)).scalar_one()
    return alone
