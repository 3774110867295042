"""Moves a fleet from SQLite and a folder to PostgreSQL and an object store, and back.

Blobs go first, then all rows in one transaction, then the old tables are marked. What was copied is compared by
digests. Interrupted anywhere, it is begun again: the new place is known by the fleet's number, and nothing old changes.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from aggregator_server.errors import BackupError, StartError
from aggregator_server.store import MOVED, alone, open_blobs, open_tables, require_not_moved
from aggregator_server.store.location import Location, is_database
from aggregator_server.store.postgres import Postgres
from aggregator_server.upkeep.backup import files_beside, lasting, open_uploads, require_folder
from aggregator_server.upkeep.copying import copy_blobs, fill_database, number_of, require_own
from fleet_protocol.atomic_files import make_folder, write_durably

_BEGUN = ".moving"


@dataclass(frozen=True)
class Moved:
    """What was moved: where to, without a password, and how much."""

    to: str
    rows: int
    blobs: int
    bytes: int


def target_of(words: list[str], source: Location) -> Location:
    """Return where ``--to`` says that a fleet is to go: a data folder, or a database and a store.

    Raises:
        StartError: it says neither.
    """
    if len(words) == 1 and not is_database(words[0]) and "://" not in words[0]:
        return Location(Path(words[0]))
    if len(words) == 2 and is_database(words[0]):
        return Location(source.data, words[0], words[1])
    raise StartError("--to must name a data folder, or a database and a store: --to postgresql://... s3://...")


def move(source: Location, target: Location) -> Moved:
    """Move a fleet whose server is stopped. What is there stays as it is, and no server opens it any more.

    Raises:
        StartError: the new place holds something else or does not answer, or the fleet was moved already.
        BackupError: a server runs, or a blob that is needed is missing or damaged.
        OSError: the disk refuses.
    """
    require_folder(source)
    if target.data != source.data:
        _require_new(target.data, source.data)
    elif (target.database is None) == (source.database is None):
        raise StartError(f"{source.tables_shown} is where the fleet is already; name another place with --to")
    with alone(source) as is_alone:
        if not is_alone:
            raise BackupError(f"a server runs on {source.data}; stop it before a move")
        moved = _copy(source, target)
        _mark(source, moved.to)
    return moved


def _require_new(folder: Path, old: Path) -> None:
    """Check that a data folder is empty, or that a move into it was interrupted."""
    if folder.exists() and any(folder.iterdir()) and not (folder / _BEGUN).exists():
        raise StartError(f"{folder} is not empty; move the fleet of {old} into a new folder")
    make_folder(folder)
    write_durably(folder / _BEGUN, b"")


def _copy(source: Location, target: Location) -> Moved:
    tables, old, new = open_tables(source), open_blobs(source), open_blobs(target)
    try:
        number = number_of(tables.database)
        require_own(target, new, number)
        with tables.reading() as session:
            required = {*lasting(session), *(upload.sha256 for upload in open_uploads(session))}
            count, size = copy_blobs(session, old, new, required)
            rows = fill_database(target, number, session)
    finally:
        tables.close()
    if target.data != source.data:
        for path in files_beside(source.data):
            copy = target.data / path.relative_to(source.data)
            if copy.name != "fleet.id":
                write_durably(copy, path.read_bytes(), path.stat().st_mode & 0o777)
        (target.data / _BEGUN).unlink(missing_ok=True)
    shown = str(target.data) if target.database is None else f"{target.tables_shown} and {target.blobs_shown}"
    return Moved(shown, sum(found for found, _ in rows.values()), count, size)


def _mark(source: Location, to: str) -> None:
    """Note beside the old tables that the fleet is elsewhere."""
    if source.database is None:
        require_not_moved(source)
        write_durably(source.data / MOVED, json.dumps({"to": to}).encode())
        return
    tables = open_tables(source)
    try:
        assert isinstance(tables.database, Postgres)
        tables.database.note_moved(to)
    finally:
        tables.close()
