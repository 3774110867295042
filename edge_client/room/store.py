"""What a device remembers of its room, in a file, and what its owner said was heard wrongly, in the database.

Both are as private as the clips, and never leave. `auricle-edge clips purge` removes them.
"""

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from edge_client.errors import DamagedError
from edge_client.room.reservoir import Layout, Sample
from edge_client.storage.checked_files import read_checked, write_checked
from edge_client.storage.database import Database
from edge_client.storage.device_state import DeviceState
from fleet_protocol.atomic_files import remove_durably
from fleet_protocol.errors import TensorError
from fleet_protocol.tensors import pack, unpack

_ARRAYS: dict[str, type[np.generic]] = {"windows": np.float16, "hours": np.int8, "taken": np.int16}
_ARRAYS |= dict.fromkeys(("at_s", "weights", "priorities", "passed"), np.float64)
_WRONG_DETECTIONS = 500


def write_sample(path: Path, layout: Layout, sample: Sample) -> None:
    """Replace the file durably; a power cut leaves the old or the new one."""
    document = {
        "layout": asdict(layout),
        "names": sample.names,
        "heard_s": [[day, hour, seconds] for (day, hour), seconds in sample.heard_s.items()],
        "detections": [[day, label, count] for (day, label), count in sample.detections.items()],
        # JSON knows no infinity.
        "full": np.isfinite(sample.passed).tolist(),
    }
    arrays = {name: np.asarray(getattr(sample, name)) for name in _ARRAYS}
    arrays["passed"] = np.where(np.isfinite(sample.passed), sample.passed, 0.0)
    write_checked(path, pack(arrays, document))


def read_sample(path: Path, layout: Layout) -> Sample | None:
    """Return what was kept; None where nothing was, it is damaged, or another front end or pace made it."""
    try:
        arrays, document = unpack(read_checked(path))
        if document.get("layout") != asdict(layout):
            return None
        arrays["passed"][~np.array(document["full"], np.bool_)] = -np.inf
        columns: dict[str, Any] = {name: arrays[name].astype(kind, copy=False) for name, kind in _ARRAYS.items()}
        return Sample(
            **columns,
            names=[str(name) for name in document["names"]],
            heard_s={(int(day), int(hour)): float(seconds) for day, hour, seconds in document["heard_s"]},
            detections={(int(day), str(label)): int(count) for day, label, count in document["detections"]},
        )
    except (FileNotFoundError, DamagedError, TensorError):
        return None
    except (KeyError, TypeError, ValueError, IndexError):  # another release wrote it in another way
        return None


def read_wrong_detections(database: Database) -> list[tuple[float, str]]:
    """Return time, s since 1970, and label of detections that the owner called wrong. Raises as :class:`Database`."""
    return database.rows("SELECT at, label FROM wrong_detections ORDER BY id")


def add_wrong_detections(database: Database, found: Iterable[tuple[float, str]]) -> None:
    """Remember more of them, the newest alone where there are many."""
    with database.changing() as connection:
        connection.executemany("INSERT OR IGNORE INTO wrong_detections (at, label) VALUES (?, ?)", found)
        oldest = "SELECT id FROM wrong_detections ORDER BY id DESC LIMIT 1 OFFSET ?"
        connection.execute(f"DELETE FROM wrong_detections WHERE id <= ({oldest})", (_WRONG_DETECTIONS,))


def remove_wrong_detections(database: Database, found: Iterable[tuple[float, str]]) -> None:
    """Forget some of them: the owner took back what he said."""
    with database.changing() as connection:
        connection.executemany("DELETE FROM wrong_detections WHERE at = ? AND label = ?", found)


def forget_room(state: DeviceState) -> None:
    """Forget what was heard in the room; a daemon that runs does so once it sees that the file is gone."""
    remove_durably(state.room_path)
    if state.database.path.exists():
        with state.database.changing() as connection:
            connection.execute("DELETE FROM wrong_detections")
        state.database.erase()
