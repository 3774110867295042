"""What a device's owner said was heard wrongly: as private as the clips, it never leaves.

All raise StateError, OSError as :class:`Database` does.
"""

from collections.abc import Iterable

from edge_client.storage.database import Database

_NEWEST = 500
_OLDER = """
DELETE FROM wrong_detections WHERE id <= (SELECT id FROM wrong_detections ORDER BY id DESC LIMIT 1 OFFSET ?)
"""


def read_wrong_detections(database: Database) -> list[tuple[float, str]]:
    """Return time, s since 1970, and label of detections that the owner called wrong."""
    return database.rows("SELECT at, label FROM wrong_detections ORDER BY id")


def add_wrong_detections(database: Database, found: Iterable[tuple[float, str]]) -> None:
    """Remember more of them, the newest alone where there are many."""
    with database.changing() as connection:
        connection.executemany("INSERT OR IGNORE INTO wrong_detections (at, label) VALUES (?, ?)", found)
        connection.execute(_OLDER, (_NEWEST,))


def remove_wrong_detections(database: Database, found: Iterable[tuple[float, str]]) -> None:
    """Forget some of them: the owner took back what he said."""
    with database.changing() as connection:
        connection.executemany("DELETE FROM wrong_detections WHERE at = ? AND label = ?", found)


def forget_wrong_detections(database: Database) -> None:
    """Forget all of them."""
    with database.changing() as connection:
        connection.execute("DELETE FROM wrong_detections")
