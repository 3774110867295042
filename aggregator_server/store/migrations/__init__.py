"""Changes of the tables from release to release, by Alembic: one file of ``versions/`` for each.

A file says by ``works_with`` which revision's release, the oldest, can go on with the changed tables. That release
writes rows without what is new: a new column has a default of the database's own, or takes NULL. It must be able to
read all that the new release writes. A change without ``works_with`` is made once every server of before has ended.
"""

from functools import cache
from pathlib import Path

from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.runtime.migration import MigrationContext
from alembic.script import Script, ScriptDirectory
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


def oldest() -> str:
    """Return the oldest revision whose release can use the tables of this one."""
    scripts = list(_scripts().walk_revisions())  # the newest first
    ages = {script.revision: age for age, script in enumerate(scripts)}
    found, most = scripts[0].revision, ages[_works_with(scripts[0])]
    for age, script in enumerate(scripts[1:], start=1):
        if age > most:
            break
        found, most = script.revision, min(most, ages[_works_with(script)])
    return found


def _works_with(script: Script) -> str:
    return str(getattr(script.module, "works_with", script.revision))


def is_younger(name: str, than: str) -> bool:
    """Say whether a revision that this release knows comes after another one."""
    names = [script.revision for script in _scripts().walk_revisions()]
    return names.index(name) < names.index(than)


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
