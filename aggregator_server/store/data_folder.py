"""What a data folder is: whether it holds a fleet, is meant for one, and which server has it open."""

import fcntl
from pathlib import Path

from aggregator_server.errors import StartError
from aggregator_server.store.location import DATABASE, Location, locate, noted_state
from aggregator_server.store.postgres.database import has_fleet

LOCK = "lock"
"""File of a data folder that its server holds."""
# Any of these says that a folder was meant for a fleet; the lock is the first that a start makes.
_OF_A_FLEET = frozenset({DATABASE, LOCK, "blobs", "tokens.json"})


def running_instance(folder: Path) -> str | None:
    """Return the instance of the server that has a data folder open; None where none has."""
    try:
        lock = (folder / LOCK).open("rb")
    except FileNotFoundError:
        return None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return lock.read().decode()
    return None


def require_own_tables(location: Location) -> None:
    """Refuse tables in a folder whose fleet is elsewhere. Raises StartError: it is; says where."""
    if location.database is not None:
        return
    noted = noted_state(location.data)
    if "moved_to" in noted:
        raise StartError(
            f"the fleet of data folder {location.data} was moved to {noted['moved_to']}; run it there. What is here "
            "has stayed as it was then"
        )
    if "database" in noted:
        raise StartError(f"the fleet of data folder {location.data} is in {noted['database']}; name it by --database")


def is_data_folder(place: Path | Location) -> bool:
    """Say whether an aggregator has run with a folder, or its tables are elsewhere."""
    location = locate(place)
    return location.database is not None or (location.data / DATABASE).is_file()


def why_not_meant(place: Path | Location) -> str | None:
    """Return why a place does not look like one for a fleet: it is not there, or holds other things.

    None: it holds a fleet, or a part of one, or it is an empty folder, as an installer makes it. Raises StartError: it
    cannot be read.
    """
    location = locate(place)
    if location.database is not None:
        return None if has_fleet(location.database) else f"the database {location.tables_shown} is empty"
    folder = location.data
    try:
        names = {path.name for path in folder.iterdir()}
    except FileNotFoundError:
        return "there is no such folder"
    except OSError as error:
        raise StartError(f"data folder {folder} cannot be used ({error}); name a folder of yours") from error
    if not names or names & _OF_A_FLEET:
        return None
    return f"it holds other files, such as {min(names)}"
