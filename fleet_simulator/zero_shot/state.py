"""What a zero-shot run leaves on the disk after every round: a killed one goes on from there, to the same bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fleet_protocol.arrays import Floats
from fleet_protocol.labels import LabelMap
from fleet_protocol.messages import ClassInfo
from fleet_protocol.public_set import PublicSet
from fleet_protocol.tensors import Arrays
from fleet_simulator.runs.run_folder import read_state, write_state
from fleet_simulator.zero_shot.virtual_user import Memory


@dataclass
class FleetState:
    """What the aggregator would have in its database.

    Attributes:
        public_set: The newest version.
        consensus: float32 [samples, classes]; None before the first round has ended.
        assigned: Class of every (device, slot) that was recognised.
        words: The users' word for every discovered class; the aggregator does not get it.
        rounds: One JSON-ready entry for each finished round.
    """

    public_set: PublicSet
    consensus: Floats | None = None
    assigned: dict[tuple[str, int], str] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)
    rounds: list[dict[str, Any]] = field(default_factory=list)

    @property
    def digest(self) -> str:
        """Of the public set, as the aggregator names its blob."""
        return hashlib.sha256(self.public_set.pack()).hexdigest()


def save_fleet(folder: Path, state: FleetState, users: Sequence[Memory], experiment: str) -> None:
    """Replace the state; after a power cut there is the old one or the new one. ``experiment`` is its digest."""
    public = state.public_set
    arrays: Arrays = {"features": public.features, "labels": public.labels, "synthetic": public.synthetic}
    if state.consensus is not None:
        arrays["consensus"] = state.consensus
    for number, memory in enumerate(users):
        arrays |= {f"user-{number}/{name}": array for name, array in memory.trained.items()}
        arrays |= {f"listening-{number}/{name}": array for name, array in (memory.listening or {}).items()}
    document = {
        "rounds": state.rounds,
        "classes": [[info.class_id, info.name, info.discovered_in] for info in public.classes],
        "assigned": [[device, slot, class_id] for (device, slot), class_id in state.assigned.items()],
        "words": state.words,
        "users": [
            {
                "bundle": str(memory.bundle),
                "label_map": memory.label_map.to_json(),
                "unheard": list(memory.unheard),
            }
            for memory in users
        ],
    }
    write_state(folder, experiment, arrays, document)


def load_fleet(folder: Path, first: PublicSet, experiment: str) -> tuple[FleetState, list[Memory]] | None:
    """Return the state of a run and its users' memories; None where there is none yet.

    Args:
        folder: of the run.
        first: the public set's first version, for its feature settings.
        experiment: digest of the experiment.

    Raises:
        RunFolderError: the folder holds a run of another experiment, or a damaged one.
    """
    found = read_state(folder, experiment)
    if found is None:
        return None
    arrays, document = found
    classes = tuple(ClassInfo(*row) for row in document["classes"])
    public_set = PublicSet(first.settings, classes, arrays["features"], arrays["labels"], arrays["synthetic"])
    assigned = {(device, slot): class_id for device, slot, class_id in document["assigned"]}
    state = FleetState(public_set, arrays.get("consensus"), assigned, document["words"], document["rounds"])
    users = []
    for number, user in enumerate(document["users"]):
        trained, listening = (_below(f"{kind}-{number}/", arrays) for kind in ("user", "listening"))
        label_map, unheard = LabelMap.from_json(user["label_map"]), tuple(user["unheard"])
        users.append(Memory(Path(user["bundle"]), trained, label_map, listening or None, unheard))
    return state, users


def _below(prefix: str, arrays: Arrays) -> Arrays:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
