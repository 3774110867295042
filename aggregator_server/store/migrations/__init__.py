"""The revision of the tables, noted in the database by Alembic; a change of them is a file of ``versions/``.

There is one revision, so nothing is changed yet, and tables of any other one are refused.
"""

from functools import cache
from pathlib import Path

from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from aggregator_server.errors import StartError


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
    found = MigrationContext.configure(connection).get_current_revision()
    if found != newest():
        raise StartError(
            f"the tables in {shown} were made by another release: they have revision {found or 'none'}, this one reads "
            f"{newest()}. Run the release that made them, or begin anew with an empty folder or database: the devices "
            "enrol again"
        )
