"""A run's folder: its lock, the state after the last finished round, and what its result was made with."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import hashlib
import importlib.util
import io
import json
import os
import weakref
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np

from edge_client.storage.locks import take_lock
from fleet_protocol.errors import TensorError
from fleet_protocol.ground.atomic_files import write_durably
from fleet_protocol.ground.command_line import version
from fleet_protocol.numbers.arrays import Floats
from fleet_protocol.numbers.tensors import Arrays, unpack
from fleet_simulator.errors import RunFolderError

STATE = "state.safetensors"
RESULT = "result.json"
_LOCK = "lock"


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other runs out of a folder, however this process ends. Raises RunFolderError: another run is on in it."""
    path = folder / _LOCK
    descriptor = take_lock(path)
    if descriptor is None:
        raise RunFolderError(
            f"{folder} is in use by the run of process {path.read_text().strip() or 'that just began'}; wait until it "
            "has ended, end it (the same command goes on with it), or name another folder with --output"
        )
    try:
        os.truncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
        yield
    finally:
        os.close(descriptor)


def read_state(folder: Path, experiment: str) -> tuple[Arrays, dict[str, Any]] | None:
    """Return the arrays and the document of a run's state; None where there is none yet.

    Raises RunFolderError: the folder holds a run of another experiment, or a damaged one.
    """
    path = folder / STATE
    if not path.is_file():
        return None
    try:
        arrays, document = unpack(path.read_bytes())
    except TensorError as error:
        raise RunFolderError(f"{path} is damaged ({error}); remove the folder to start anew") from error
    if document.get("experiment") != experiment:
        raise RunFolderError(
            f"{folder} holds the run of another experiment (this one's settings, data or bundles were changed since); "
            "remove the folder, or name another with --output"
        )
    return arrays, document


class RowFile:
    """Rows of ``width`` numbers, float32, that several processes write at their own places, without mapping it.

    The file is as long as its last row that was written; holes read as zeros.
    """

    def __init__(self, path: Path, width: int) -> None:
        self.path = path
        self.width = width

    @cached_property
    def _descriptor(self) -> int:
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        weakref.finalize(self, os.close, descriptor)
        return descriptor

    def write(self, row: int, rows: Floats) -> None:
        """Write one row, float32 [width], or several, [n, width], from a place on."""
        data, place = np.ascontiguousarray(rows, np.float32).reshape(-1).view(np.uint8).data, row * self.width * 4
        while data:
            written = os.pwrite(self._descriptor, data, place)
            data, place = data[written:], place + written

    def read(self, row: int, count: int) -> Floats:
        """Return float32 [count, width]."""
        rows = np.zeros((count, self.width), np.float32)
        data, place = rows.reshape(-1).view(np.uint8).data, row * self.width * 4
        while data and (got := os.preadv(self._descriptor, [data], place)):
            data, place = data[got:], place + got
        return rows

    def flush(self) -> None:
        """Make what any process wrote survive a power cut."""
        os.fsync(self._descriptor)


# Whose code decides what a run finds, beside its settings.
PACKAGES = ("aggregator_server", "edge_client", "fleet_protocol", "fleet_simulator")


def about(experiment: Any) -> dict[str, Any]:  # noqa: ANN401  (a dataclass of either kind of experiment)
    """Return what ``result.json`` tells of a run, JSON-ready."""
    settings = json.loads(json.dumps(dataclasses.asdict(experiment), default=str))
    return {
        "version": version(),
        "code": code_digest(),
        "experiment": experiment.digest,
        "strategy": experiment.strategy,
        "seed": experiment.rounds.seed,
        "settings": settings,
    }


@cache
def code_digest() -> str:
    """Return a digest of the sources that a run's result depends on."""
    digest = hashlib.sha256()
    for package in PACKAGES:
        spec = importlib.util.find_spec(package)
        assert spec is not None
        assert spec.submodule_search_locations is not None
        folder = Path(spec.submodule_search_locations[0])
        for path in sorted(folder.rglob("*.py")):
            digest.update(f"{package}/{path.relative_to(folder).as_posix()}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def available_cores() -> int:
    """Return the cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def write_csv(rounds: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write a line for each round, with every figure that is one number; a figure that a round lacks is empty."""
    lines = [{key: value for key, value in entry.items() if isinstance(value, int | float)} for entry in rounds]
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(dict.fromkeys(name for line in lines for name in line)))
    writer.writeheader()
    writer.writerows(lines)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_durably(path, text.getvalue().encode(), 0o644)
