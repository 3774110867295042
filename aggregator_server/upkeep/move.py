"""Moves a fleet from SQLite and a folder to PostgreSQL and an object store, and back: a copy, and its restoration.

Interrupted anywhere, it is begun again: the new place is known by the fleet's number, and nothing old changes.
"""

import shutil
from contextlib import closing
from pathlib import Path

from aggregator_server.errors import BackupError, StartError
from aggregator_server.store.location import Location, is_database, note_moved, note_state
from aggregator_server.store.opening import alone, open_tables
from aggregator_server.store.postgres.database import Postgres
from aggregator_server.upkeep.backup import require_folder, restore, unpack, write_copy
from aggregator_server.upkeep.copying import take_elsewhere
from fleet_protocol.ground.atomic_files import make_folder

_WORK = ".moving"


def target_of(words: list[str], source: Location) -> Location:
    """Return the place that ``--to`` names: a data folder, or a database and a store. Raises StartError: it is none."""
    if len(words) == 1 and not is_database(words[0]) and "://" not in words[0]:
        return Location(Path(words[0]))
    if len(words) == 2 and is_database(words[0]):
        return Location(source.data, words[0], words[1])
    raise StartError("--to must name a data folder, or a database and a store: --to postgresql://... s3://...")


def move(source: Location, target: Location) -> tuple[str, int]:
    """Move a fleet whose server is stopped; return where to, for people, and the bytes of the copy.

    What is there stays as it is, and no server opens it any more. The data folder takes a copy meanwhile, twice the
    room of the arrays. Raises StartError: the new place holds something else or does not answer, or the fleet was moved
    already. BackupError: a server runs, or a blob is missing or damaged. OSError: the disk refuses.
    """
    require_folder(source)
    if target.data.absolute() == source.data.absolute() and (target.database is None or source.database is not None):
        raise StartError(f"the fleet of {source.data} is in {source.tables_shown}; name another place with --to")
    work = source.data / _WORK
    copy = work / "copy.tar"
    with alone(source) as is_alone:
        if not is_alone:
            raise BackupError(f"a server runs on {source.data}; stop it before a move")
        shutil.rmtree(work, ignore_errors=True)  # of a move that was killed
        try:
            make_folder(work)
            write_copy(source, copy)
            size = copy.stat().st_size
            if target.database is None:
                restore(copy, target)
            else:  # the data folder's own files are there
                unpack(copy, work / "data")
                take_elsewhere(target, work / "data")
        finally:
            shutil.rmtree(work, ignore_errors=True)
        if target.database is not None:
            note_state(target)
            return f"{target.tables_shown} and {target.blobs_shown}", size
        if source.database is None:
            note_moved(source.data, str(target.data))
        else:
            with closing(open_tables(source)) as tables:
                assert isinstance(tables.database, Postgres)
                tables.database.note_moved(str(target.data))
        return str(target.data), size
