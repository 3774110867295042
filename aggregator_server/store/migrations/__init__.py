"""The revision of the tables, noted in the database by Alembic; a change of them is a file of ``versions/``.

Tables of an earlier revision are changed by the server that opens them, in the transaction that looks at them. Those of
a later one are refused, and so are tables that are not what their revision says: releases before the first had other
ones under the same number.
"""

from functools import cache
from pathlib import Path

from alembic.config import Config
from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect
from sqlalchemy.exc import DBAPIError

from aggregator_server.errors import StartError
from aggregator_server.store.tables import Base

_ANEW = "Run the release that made them, or begin anew with an empty folder or database: the devices enrol again"


@cache
def _scripts() -> ScriptDirectory:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return ScriptDirectory.from_config(config)


def newest() -> str:
    """Return the revision of the tables that this release reads."""
    head = _scripts().get_current_head()
    assert head is not None
    return head


def stamp(connection: Connection) -> None:
    """Note that a database's tables are those of this release."""
    MigrationContext.configure(connection).stamp(_scripts(), newest())


def require_newest(connection: Connection, shown: str) -> None:
    """Check that a database's tables are those of this release. Raises StartError: they are not."""
    found = _revision(connection, shown)
    if found != newest():
        _require_same(connection, shown, found, added=True)  # so far revisions have added tables, and changed none
        raise StartError(
            f"the tables in {shown} have revision {found}, of an earlier release; this one reads {newest()}. Start the "
            "server of this release once (`auricle-aggregator run`): it changes them and keeps everything"
        )
    _require_same(connection, shown, found)


def upgrade(connection: Connection, shown: str) -> None:
    """Change a database's tables to those of this release, within a transaction that an error undoes.

    Raises StartError: they are of a later release, or not what their revision says.
    """
    found = _revision(connection, shown)
    missing = [*_scripts().iterate_revisions("head", found)]
    context = MigrationContext.configure(connection)
    try:
        with Operations.context(context):
            for script in reversed(missing):
                script.module.upgrade()
    except DBAPIError as error:
        raise _other(shown, found, str(error.orig)) from error
    _require_same(connection, shown, found)
    if missing:
        stamp(connection)


def is_newest(connection: Connection) -> bool:
    """Say whether a database's tables need no change."""
    return MigrationContext.configure(connection).get_current_revision() == newest()


def _revision(connection: Connection, shown: str) -> str:
    """Return the revision of a database's tables. Raises StartError: this release does not know it."""
    found = MigrationContext.configure(connection).get_current_revision()
    if found is None or found not in {script.revision for script in _scripts().walk_revisions()}:
        raise StartError(
            f"the tables in {shown} were made by another release: they have revision {found or 'none'}, this one reads "
            f"{newest()}. {_ANEW}"
        )
    return found


def _require_same(connection: Connection, shown: str, revision: str, *, added: bool = False) -> None:
    """Compare the columns of a database with those of store/tables.py. Raises StartError: they differ.

    ``added``: tables may be missing, which later revisions add.
    """
    there = {name: columns for (_, name), columns in inspect(connection).get_multi_columns().items()}
    for table in Base.metadata.sorted_tables:
        if table.name not in there and added:
            continue
        if table.name not in there:
            raise _other(shown, revision, f"there is no table {table.name}")
        wanted = {(column.name, column.nullable) for column in table.columns}
        columns = {(column["name"], column["nullable"]) for column in there[table.name]}
        if differing := sorted({name for name, _ in wanted ^ columns}):
            raise _other(shown, revision, f"{table.name}.{differing[0]} differs")


def _other(shown: str, revision: str, why: str) -> StartError:
    return StartError(
        f"the tables in {shown} were made by a release before the first one: they say revision {revision}, and are "
        f"others ({why}). {_ANEW}"
    )
