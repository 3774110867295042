"""Runs an experiment, or what is left of it, in this process, in others, or on a Ray cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fleet_simulator.experiment.sections import Experiment
from fleet_simulator.runs.about import about
from fleet_simulator.runs.inputs import Inputs
from fleet_simulator.runs.loop import available_cores, simulate
from fleet_simulator.runs.progress import Progress
from fleet_simulator.shared_model.personal_models import evaluate_devices
from fleet_simulator.shared_model.ray_workers import RayWorkers
from fleet_simulator.shared_model.virtual_fleet import VirtualFleet
from fleet_simulator.shared_model.workers import InThisProcess, Pool, Workers


@dataclass(frozen=True)
class Result:
    """How a run ended.

    Attributes:
        rounds: one entry for each: ``round``, ``devices``, ``loss`` (the median of the devices' training losses),
            ``round_seconds`` and ``device_seconds`` (simulated: of the slowest device, and of all), and in rounds that
            were tested what :func:`fleet_simulator.shared_model.metrics.metrics` says of the global model on the test
            clips; the last one also has the ``confusion`` matrix. One that put devices in quarantine names them
            (``quarantined``).
        devices: where devices hold clips out, an entry for each device: ``device``, ``clips`` trained on, accuracy
            0..1 on its own clips of the ``global`` model and of the ``personal`` one, whether that was ``kept``; with
            models of the devices' own, that of the device's ``own``, and that one's ``own_test`` on some test clips and
            ``own_trained`` on the clips that it was trained on;
            and on own and strangers' clips that of the model that it listens with and of those without a fleet
            (docs/simulator.md).
        seconds: of the rounds that this run itself has done.
        folder: of the run; ``state.safetensors`` in it holds the global model.
    """

    rounds: list[dict[str, Any]]
    devices: list[dict[str, Any]]
    seconds: list[float]
    folder: Path


def run(
    experiment: Experiment,
    folder: Path,
    workers: int | None,
    progress: Progress,
    cluster: str | None = None,
    inputs: Inputs | None = None,
) -> Result:
    """Run an experiment, or what is left of it; the result is the same whatever the number of workers.

    Args:
        experiment: what to do.
        folder: of the run; one that a killed run left is gone on with.
        workers: processes that train devices; 0: this one; None: one for each core.
        progress: shows how it goes.
        cluster: address of a Ray cluster to run them on; None: this machine.
        inputs: clips and models of other runs of this process, to be reused.

    Raises:
        SimulationError: the data, the run's folder or a worker is at fault.
        ProtocolError: a bundle cannot be used.
        AggregationError: the rule cannot combine the uploads.
    """
    inputs = inputs or Inputs()

    @contextmanager
    def opened() -> Iterator[SharedModelSimulation]:
        fleet = VirtualFleet(experiment, folder, inputs, in_memory=workers == 0 and cluster is None)
        with _pool(fleet, workers, cluster, inputs) as pool:
            yield SharedModelSimulation(fleet, pool)

    result, seconds = simulate(folder, experiment.rounds.count, progress, opened, about(experiment))
    return Result(result["rounds"], result.get("devices", []), seconds, folder)


@dataclass(frozen=True)
class SharedModelSimulation:
    """A virtual fleet and those who train its devices.

    Attributes:
        fleet: the fleet, which plays the rounds.
        pool: the workers.
    """

    fleet: VirtualFleet
    pool: Pool

    @property
    def rounds(self) -> list[dict[str, Any]]:
        """One JSON-ready entry for each finished round."""
        return self.fleet.state.rounds

    def play(self, round_id: int, progress: Progress) -> dict[str, Any]:
        """Play one round and put the state after it on the disk; return the round's entry."""
        return self.fleet.play(round_id, self.pool, progress)

    def result(self) -> dict[str, Any]:
        """Return the rounds and, where devices hold clips out, what every device has in the end."""
        devices = evaluate_devices(self.fleet, self.pool)
        return {"rounds": self.rounds} | ({"devices": devices} if devices else {})


def _pool(
    fleet: VirtualFleet, count: int | None, cluster: str | None, inputs: Inputs
) -> InThisProcess | Workers | RayWorkers:
    if cluster is not None:
        return RayWorkers(fleet.setup, count, cluster)
    if count == 0:
        return InThisProcess(fleet.setup, fleet.shards, inputs)
    return Workers(fleet.setup, count or available_cores())
