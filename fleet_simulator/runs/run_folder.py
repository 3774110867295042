"""What a run leaves on the disk: the state after its last finished round, from which a killed run goes on."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_client.storage.locks import take_lock
from fleet_protocol.arrays import Bools
from fleet_protocol.atomic_files import write_durably
from fleet_protocol.errors import TensorError
from fleet_protocol.tensors import Arrays, pack, unpack
from fleet_simulator.errors import RunFolderError
from fleet_simulator.shared_model.tasks import NO_OWN

STATE = "state.safetensors"
_LOCK = "lock"


@dataclass
class State:
    """All that decides how a run goes on.

    Attributes:
        weights: the global model's.
        server: the aggregation's, such as a server optimiser's moments.
        uploaded: bool [devices], who has taken part.
        own_versions: uint8 [devices], see :class:`fleet_simulator.shared_model.tasks.Block`.
        rounds: one JSON-ready entry for each finished round.
    """

    weights: Arrays
    server: Arrays
    uploaded: Bools
    own_versions: NDArray[np.uint8]
    rounds: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def first(cls, weights: Arrays, devices: int) -> State:
        """Return the state before the first round."""
        return cls(weights, {}, np.zeros(devices, np.bool_), np.full(devices, NO_OWN, np.uint8))


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other runs out of a folder; however this process ends, the folder is free again.

    Raises:
        RunFolderError: another run is on in it.
    """
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


def save_state(folder: Path, state: State, experiment: str) -> None:
    """Replace the state; after a power cut there is the old one or the new one. ``experiment`` is its digest."""
    arrays: Arrays = {f"weights/{name}": array for name, array in state.weights.items()}
    arrays |= {f"server/{name}": array for name, array in state.server.items()}
    arrays |= {"uploaded": state.uploaded, "own_versions": state.own_versions}
    write_durably(folder / STATE, pack(arrays, {"experiment": experiment, "rounds": state.rounds}))


def load_state(folder: Path, experiment: str) -> State | None:
    """Return the state of a run; None where there is none yet.

    Raises:
        RunFolderError: the folder holds a run of another experiment, or a damaged one.
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
            f"{folder} holds the run of another experiment (this one's settings, data or bundle were changed since); "
            "remove the folder, or name another with --output"
        )
    return State(
        {name.removeprefix("weights/"): array for name, array in arrays.items() if name.startswith("weights/")},
        {name.removeprefix("server/"): array for name, array in arrays.items() if name.startswith("server/")},
        arrays["uploaded"].copy(),
        arrays["own_versions"].copy(),
        document["rounds"],
    )
