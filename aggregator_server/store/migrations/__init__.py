"""Changes of the tables from release to release, by Alembic: one file of ``versions/`` for each."""

from functools import cache
from pathlib import Path

from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

BASELINE = "3"  # the tables of the last release that noted their version in `PRAGMA user_version`


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


def revision(connection: Connection) -> str | None:
    """Return the revision of a database's tables; None where none is noted."""
    return MigrationContext.configure(connection).get_current_revision()


def is_known(name: str) -> bool:
    """Say whether this release has the migrations that lead to a revision."""
    return name in {script.revision for script in _scripts().walk_revisions()}


def stamp(connection: Connection, name: str) -> None:
    """Note a database's revision; its tables stay as they are."""
    MigrationContext.configure(connection).stamp(_scripts(), name)


def upgrade(connection: Connection) -> None:
    """Change a database's tables into those of this release, in the caller's transaction."""
    scripts = _scripts()
    environment = EnvironmentContext(
        Config(),
        scripts,
        fn=lambda present, _: scripts._upgrade_revs("head", present),  # as `alembic upgrade` does
    )
    with environment:
        environment.configure(connection=connection)
        environment.run_migrations()
