"""What a run with a shared model leaves on the disk after every round."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fleet_protocol.arrays import Bools, Ints
from fleet_protocol.tensors import Arrays
from fleet_simulator.runs.run_folder import read_state, write_state
from fleet_simulator.shared_model.tasks import NO_OWN


@dataclass
class State:
    """All that decides how a run goes on.

    Attributes:
        weights: Weights of the global model.
        server: Arrays that the aggregation keeps, such as a server optimiser's moments.
        uploaded: Which devices have taken part, bool [devices].
        own_versions: Places of the devices' own models, uint8 [devices]; see
            :class:`fleet_simulator.shared_model.tasks.Block`.
        suspicion: Against every device, int64 [devices]; see :mod:`aggregator_server.fleet.reputation`.
        rounds: One JSON-ready entry for each finished round.
    """

    weights: Arrays
    server: Arrays
    uploaded: Bools
    own_versions: NDArray[np.uint8]
    suspicion: Ints
    rounds: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def first(cls, weights: Arrays, devices: int) -> State:
        """Return the state before the first round."""
        uploaded, suspicion = np.zeros(devices, np.bool_), np.zeros(devices, np.int64)
        return cls(weights, {}, uploaded, np.full(devices, NO_OWN, np.uint8), suspicion)


def save_state(folder: Path, state: State, experiment: str) -> None:
    """Replace the state; after a power cut there is the old one or the new one. ``experiment`` is its digest."""
    arrays: Arrays = {f"weights/{name}": array for name, array in state.weights.items()}
    arrays |= {f"server/{name}": array for name, array in state.server.items()}
    arrays |= {"uploaded": state.uploaded, "own_versions": state.own_versions, "suspicion": state.suspicion}
    write_state(folder, experiment, arrays, {"rounds": state.rounds})


def load_state(folder: Path, experiment: str) -> State | None:
    """Return the state of a run; None where there is none yet.

    Raises:
        RunFolderError: the folder holds a run of another experiment, or a damaged one.
    """
    found = read_state(folder, experiment)
    if found is None:
        return None
    arrays, document = found
    return State(
        {name.removeprefix("weights/"): array for name, array in arrays.items() if name.startswith("weights/")},
        {name.removeprefix("server/"): array for name, array in arrays.items() if name.startswith("server/")},
        arrays["uploaded"].copy(),
        arrays["own_versions"].copy(),
        arrays["suspicion"].copy(),
        document["rounds"],
    )
