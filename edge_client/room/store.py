"""The file of what a device remembers of its room, and of what its owner said was heard wrongly.

Both are as private as the clips, and never leave. `auricle-edge clips purge` removes them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from edge_client.errors import DamagedError, StateError
from edge_client.room.reservoir import DAYS, HOURS, LABELS, Layout, Sample
from edge_client.storage.checked_files import read_checked, write_checked
from edge_client.storage.locks import take_lock
from fleet_protocol.errors import TensorError
from fleet_protocol.tensors import pack, unpack

_ARRAYS = {
    "windows": np.float16,
    "at_s": np.float64,
    "hours": np.int8,
    "taken": np.int16,
    "weights": np.float64,
    "priorities": np.float64,
    "passed": np.float64,
}
_DENIALS, _PATIENCE_S = 500, 5.0


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
    except (FileNotFoundError, DamagedError, TensorError):
        return None
    if document.get("layout") != asdict(layout):
        return None
    try:
        return _sample(arrays, document, layout)
    except (KeyError, TypeError, ValueError, IndexError):
        return None


def _sample(arrays: dict[str, Any], document: dict[str, Any], layout: Layout) -> Sample:
    """Return a file's sample. Raises ValueError, or its like, if it does not hold together."""
    runs = len(arrays["at_s"])
    shapes = dict.fromkeys(_ARRAYS, (runs,)) | {"windows": (runs, layout.windows, layout.numbers), "passed": (HOURS,)}
    for name, shape in shapes.items():
        if arrays[name].shape != shape or arrays[name].dtype != _ARRAYS[name]:
            raise ValueError(f"{name} is {arrays[name].dtype} {arrays[name].shape}")
    names = [str(name) for name in document["names"]]
    heard_s = {(int(day), int(hour)): float(seconds) for day, hour, seconds in document["heard_s"]}
    detections = {(int(day), str(label)): int(count) for day, label, count in document["detections"]}
    hours, taken = arrays["hours"], arrays["taken"]
    numbers = (*(arrays[name] for name in ("at_s", "weights", "priorities", "passed")), list(heard_s.values()))
    holds = (
        runs <= HOURS * layout.runs
        and len(names) <= LABELS
        and len(heard_s) <= (DAYS + 2) * HOURS
        and all(0 <= hour < HOURS for hour in [*hours, *(hour for _, hour in heard_s)])
        and all(-1 <= index < len(names) for index in taken)
        and all(np.isfinite(column).all() for column in numbers)
        and min(heard_s.values(), default=0.0) >= 0
    )
    if not holds:
        raise ValueError("a number is out of its range")
    arrays["passed"][~np.array(document["full"], np.bool_)] = -np.inf
    return Sample(**{name: arrays[name] for name in _ARRAYS}, names=names, heard_s=heard_s, detections=detections)


def read_denials(path: Path) -> list[tuple[float, str]]:
    """Return times, seconds since 1970, and labels of detections that the owner said were wrong, the newest last."""
    try:
        return [(float(moment), str(label)) for moment, label in json.loads(read_checked(path))]
    except (FileNotFoundError, DamagedError, TypeError, ValueError):
        return []


def add_denials(path: Path, found: Iterable[tuple[float, str]]) -> None:
    """Remember more of them, the newest alone where there are many.

    Raises StateError if another process does not let go of the file.
    """
    more = list(found)
    _change_denials(path, lambda kept: list(dict.fromkeys([*kept, *more])))


def remove_denials(path: Path, found: Iterable[tuple[float, str]]) -> None:
    """Forget some of them: the owner took back what he said.

    Raises StateError if another process does not let go of the file.
    """
    gone = set(found)
    _change_denials(path, lambda kept: [one for one in kept if one not in gone])


def _change_denials(path: Path, change: Callable[[list[tuple[float, str]]], list[tuple[float, str]]]) -> None:
    lock = take_lock(path.with_suffix(".lock"), _PATIENCE_S)
    if lock is None:
        raise StateError(f"another program is changing {path}; try again")
    try:
        write_checked(path, json.dumps(change(read_denials(path))[-_DENIALS:]).encode())
    finally:
        os.close(lock)
