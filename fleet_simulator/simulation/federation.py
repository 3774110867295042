"""One simulated federation round by round, whatever its strategy and its devices.

After every round its state is on the disk: a killed run goes on from there, to the same bytes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from aggregator_server.aggregation.contract import RoundResult
from aggregator_server.fleet.reputation import suspicion_after
from aggregator_server.limits import SUSPICION
from aggregator_server.strategies.selection import Candidate, History, select
from aggregator_server.strategies.strategy import DeviceStatistics, unchanged
from fleet_protocol.bundle.bundle_file import Manifest
from fleet_protocol.ground.atomic_files import write_durably
from fleet_protocol.messages.public_set import PublicSet
from fleet_protocol.messages.rest import Work
from fleet_protocol.numbers.arrays import Bools, Ints
from fleet_protocol.numbers.fleet_prototypes import FleetPrototypes
from fleet_protocol.numbers.tensors import Arrays, pack
from fleet_simulator.errors import SimulationError
from fleet_simulator.experiment.sections import AnyExperiment
from fleet_simulator.runs.run_folder import STATE, read_state
from fleet_simulator.simulation.aggregator import Aggregator, FleetState, Uploads
from fleet_simulator.simulation.tasks import device_id


@dataclass
class State:
    """All that decides how a run goes on."""

    fleet: FleetState  # What the aggregator has
    uploaded: Bools  # Which devices have taken part, bool [devices]
    suspicion: Ints  # Against every device, int64 [devices]; see :mod:`aggregator_server.fleet.reputation`
    rounds: list[dict[str, Any]] = field(default_factory=list)  # One JSON-ready entry for each finished round
    devices: Arrays = field(default_factory=dict)  # Arrays that the devices keep
    document: dict[str, Any] = field(default_factory=dict)  # The rest of what the devices keep, JSON-ready


def _save_state(folder: Path, state: State, experiment: str) -> None:
    """Replace the state; after a power cut there is the old one or the new one. ``experiment`` is its digest."""
    fleet = state.fleet
    arrays: Arrays = {"uploaded": state.uploaded, "suspicion": state.suspicion}
    parts = {"weights": fleet.weights, "server": fleet.kept, "devices": state.devices}
    document: dict[str, Any] = {
        "experiment": experiment,
        "rounds": state.rounds,
        "assigned": [[device, slot, class_id] for (device, slot), class_id in fleet.assigned.items()],
        "devices": state.document,
    }
    if any(info.discovered_in is not None for info in fleet.public_set.classes):
        arrays["public_set"] = np.frombuffer(fleet.public_set.pack(), np.uint8)
    if fleet.consensus is not None:
        arrays["consensus"] = fleet.consensus
    if fleet.prototypes is not None:
        arrays["prototypes"] = np.frombuffer(fleet.prototypes.pack(), np.uint8)
    for part, of_part in parts.items():
        arrays |= {f"{part}/{name}": array for name, array in of_part.items()}
    write_durably(folder / STATE, pack(arrays, document))


def _load_state(folder: Path, first: PublicSet, experiment: str) -> State | None:
    """Return the state of a run; None where there is none yet. Raises RunFolderError, as :func:`read_state`."""
    found = read_state(folder, experiment)
    if found is None:
        return None
    arrays, document = found
    public_set, prototypes = first, None
    if "public_set" in arrays:  # its document has the settings without the front end's networks
        public_set = replace(PublicSet.unpack(arrays["public_set"].tobytes()), settings=first.settings)
    if "prototypes" in arrays:
        prototypes = FleetPrototypes.unpack(arrays["prototypes"].tobytes())
    assigned = {(device, slot): class_id for device, slot, class_id in document["assigned"]}
    weights, server, devices = (part_of(arrays, name) for name in ("weights", "server", "devices"))
    fleet = FleetState(public_set, weights, server, arrays.get("consensus"), prototypes, assigned)
    kept = arrays["uploaded"], arrays["suspicion"]
    return State(fleet, *kept, document["rounds"], devices, document["devices"])


def part_of(arrays: Arrays, name: str) -> Arrays:
    """Return the arrays ``name/...`` by the rest of their names."""
    return {key.removeprefix(f"{name}/"): arrays[key] for key in arrays if key.startswith(f"{name}/")}


class Devices(ABC):
    """The virtual devices of a run, with their clips."""

    first: FleetState  # What the aggregator has before the first round
    manifest: Manifest | None = None  # Of the shared model; None: there is none
    clips: Ints  # How many every device has to train on, int64 [devices]; one without any never takes part
    state: State  # Of the run

    def restore(self, state: State) -> None:
        """Take up where a state was saved; called once, before the first round that is played here."""
        self.state = state

    def kept(self) -> tuple[Arrays, dict[str, Any]]:
        """Return what :meth:`restore` needs: arrays, and the rest JSON-ready."""
        return {}, {}

    def statistics(self, devices: Sequence[int]) -> list[DeviceStatistics]:
        """Return what devices report of their clips, for strategies that prepare their rounds by it."""
        raise NotImplementedError

    @abstractmethod
    def contribute(self, work: Work, devices: Sequence[int]) -> Uploads:
        """Do what the selected devices, whose numbers are ascending, do when they are asked to contribute."""

    @abstractmethod
    def learn(self, work: Work, result: RoundResult, devices: Sequence[int]) -> dict[str, Any]:
        """Do what devices do with a round's result; return what the round's entry says of it."""


class Federation:
    """A run: its aggregator, its virtual devices, and how a round goes."""

    def __init__(self, experiment: AnyExperiment, devices: Devices, folder: Path | None = None) -> None:
        """Read the state where the folder has one; without a folder, none is kept."""
        self.experiment = experiment
        self.devices = devices
        self._folder = folder
        self._digest = experiment.digest
        count, first = len(devices.clips), devices.first
        state = _load_state(folder, first.public_set, self._digest) if folder else None
        self.state = state or State(first, np.zeros(count, np.bool_), np.zeros(count, np.int64))
        self._candidates = [Candidate(device_id(n), int(clips)) for n, clips in enumerate(devices.clips) if clips]
        attacked = experiment.faults.attackers > 0
        plan, name = experiment.plan, experiment.strategy
        self.aggregator = Aggregator(name, plan, self.state.fleet, devices.manifest, attacked=attacked)
        devices.restore(self.state)

    @property
    def members(self) -> list[int]:
        """Numbers of the devices that have clips."""
        return [int(one.device_id, 16) for one in self._candidates]

    def opened(self, round_id: int) -> Work:
        """Return what devices are asked for in a round."""
        plan = self.aggregator.plan
        if self.aggregator.strategy.prepare is not unchanged:  # else it needs none of the statistics
            plan = self.aggregator.prepared(self.devices.statistics(np.flatnonzero(self.state.uploaded).tolist()))
        return self.aggregator.work("contribute", round_id, plan)

    def play(self, round_id: int) -> dict[str, Any]:
        """Play one round and put the state after it on the disk; return the round's entry."""
        state = self.state
        chosen = self._select(round_id)
        work = self.opened(round_id)
        uploads = self.devices.contribute(work, chosen)
        revoked = [device_id(int(n)) for n in np.flatnonzero(state.suspicion >= SUSPICION)]
        result, dropped = self.aggregator.close(work, uploads, revoked=revoked)
        entry: dict[str, Any] = {"round": round_id, "devices": len(chosen)}
        entry |= {"loss": median(uploads.losses)} if uploads.losses else {}
        entry |= self._suspect(chosen, dropped)
        state.uploaded[chosen] = True
        # The plan is as it was when the round opened.
        entry |= self.devices.learn(self.aggregator.work("learn", round_id, work.plan), result, chosen)
        state.rounds.append(entry)
        state.devices, state.document = self.devices.kept()
        if self._folder:
            _save_state(self._folder, state, self._digest)
        return entry

    def _select(self, round_id: int) -> list[int]:
        losses = tuple(float(entry["loss"]) for entry in self.state.rounds if "loss" in entry)
        trusted = [one for one in self._candidates if self.state.suspicion[int(one.device_id, 16)] < SUSPICION]
        if not trusted:
            raise SimulationError(f"round {round_id}: all devices are in quarantine; set rounds.quarantine to false")
        history, plan = History(len(self.state.rounds), losses), self.aggregator.plan
        return [int(name, 16) for name in select(trusted, plan.selection, history, (plan.seed, round_id))]

    def _suspect(self, devices: Sequence[int], dropped: Mapping[str, dict[str, Any]]) -> dict[str, list[int]]:
        """Change the suspicion against devices; return those that come into quarantine, if any."""
        if not self.experiment.rounds.quarantine:
            return {}
        suspicion = self.state.suspicion
        for device in devices:
            suspicion[device] = suspicion_after(int(suspicion[device]), dropped.get(device_id(device)))
        quarantined = [device for device in devices if suspicion[device] >= SUSPICION]
        return {"quarantined": quarantined} if quarantined else {}
