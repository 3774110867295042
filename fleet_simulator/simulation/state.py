"""What a run leaves on the disk after every round: a killed one goes on from there, to the same bytes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fleet_protocol.arrays import Bools, Ints
from fleet_protocol.fleet_prototypes import FleetPrototypes
from fleet_protocol.messages import ClassInfo
from fleet_protocol.public_set import PublicSet
from fleet_protocol.tensors import Arrays
from fleet_simulator.runs.run_folder import read_state, write_state
from fleet_simulator.simulation.aggregator import FleetState


@dataclass
class State:
    """All that decides how a run goes on.

    Attributes:
        fleet: What the aggregator has.
        uploaded: Which devices have taken part, bool [devices].
        suspicion: Against every device, int64 [devices]; see :mod:`aggregator_server.fleet.conduct`.
        rounds: One JSON-ready entry for each finished round.
        devices: Arrays that the devices keep.
        document: The rest of what the devices keep, JSON-ready.
    """

    fleet: FleetState
    uploaded: Bools
    suspicion: Ints
    rounds: list[dict[str, Any]] = field(default_factory=list)
    devices: Arrays = field(default_factory=dict)
    document: dict[str, Any] = field(default_factory=dict)


def save_state(folder: Path, state: State, experiment: str) -> None:
    """Replace the state; after a power cut there is the old one or the new one. ``experiment`` is its digest."""
    fleet = state.fleet
    arrays: Arrays = {"uploaded": state.uploaded, "suspicion": state.suspicion}
    parts = {"weights": fleet.weights, "server": fleet.kept, "devices": state.devices}
    document: dict[str, Any] = {
        "rounds": state.rounds,
        "assigned": [[device, slot, class_id] for (device, slot), class_id in fleet.assigned.items()],
        "devices": state.document,
    }
    public, prototypes = fleet.public_set, fleet.prototypes
    if any(info.discovered_in is not None for info in public.classes):
        parts["public"] = {"features": public.features, "labels": public.labels, "synthetic": public.synthetic}
        document["classes"] = [[info.class_id, info.name, info.discovered_in] for info in public.classes]
    if fleet.consensus is not None:
        arrays["consensus"] = fleet.consensus
    if prototypes is not None:
        parts["prototypes"] = {"means": prototypes.means, "devices": prototypes.devices}
        document["prototypes"] = [prototypes.features, prototypes.class_ids, prototypes.provisional]
    for part, of_part in parts.items():
        arrays |= {f"{part}/{name}": array for name, array in of_part.items()}
    write_state(folder, experiment, arrays, document)


def load_state(folder: Path, first: PublicSet, experiment: str) -> State | None:
    """Return the state of a run; None where there is none yet.

    Args:
        folder: of the run.
        first: the public set before the first round.
        experiment: digest of the experiment.

    Raises:
        RunFolderError: the folder holds a run of another experiment, or a damaged one.
    """
    found = read_state(folder, experiment)
    if found is None:
        return None
    arrays, document = found

    def part(name: str) -> Arrays:
        return {key.removeprefix(f"{name}/"): arrays[key].copy() for key in arrays if key.startswith(f"{name}/")}

    public_set, prototypes = first, None
    if "classes" in document:
        rows, classes = part("public"), tuple(ClassInfo(*row) for row in document["classes"])
        public_set = PublicSet(first.settings, classes, rows["features"], rows["labels"], rows["synthetic"])
    if "prototypes" in document:
        digest, class_ids, provisional = document["prototypes"]
        of_fleet = part("prototypes")
        prototypes = FleetPrototypes(
            digest, tuple(class_ids), of_fleet["means"], of_fleet["devices"], tuple(provisional)
        )
    assigned = {(device, slot): class_id for device, slot, class_id in document["assigned"]}
    fleet = FleetState(public_set, part("weights"), part("server"), arrays.get("consensus"), prototypes, assigned)
    kept = arrays["uploaded"].copy(), arrays["suspicion"].copy()
    return State(fleet, *kept, document["rounds"], part("devices"), document["devices"])
