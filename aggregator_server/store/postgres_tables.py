"""The tables of a fleet in PostgreSQL, as a server finds them: none yet, this fleet's, or another's."""

from collections.abc import Callable
from typing import Any

from sqlalchemy import BigInteger, Column, Connection, MetaData, String, Table, insert, inspect, select
from sqlalchemy.orm import Session

from aggregator_server.errors import StartError
from aggregator_server.store import migrations
from aggregator_server.store.identity import Identity
from aggregator_server.store.servers import make_lease
from aggregator_server.store.tables import Base

# Beside the tables of every fleet: its number, and where it was moved to.
FLEET = Table(
    "fleet", MetaData(), Column("number", BigInteger, primary_key=True, autoincrement=False), Column("moved_to", String)
)
Fill = Callable[[Connection], object]
SERVER = 2
"""What an advisory lock of this number holds: the fleet, by a server or a command."""


def prepare(
    connection: Connection, shown: str, identity: Identity, *, create: bool, number: int, fill: Fill | None
) -> int:
    """Make the tables, or check them; return the number of the fleet."""
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
        migrations.stamp(connection)
        if fill is not None:
            connection.exec_driver_sql("SET LOCAL statement_timeout = 0")
            fill(connection)
        return found
    found = identity.require(int(row.number), shown)
    migrations.require_newest(connection, shown)
    with Session(connection) as session:
        identity.require_blobs(session, shown)
    return found
