"""Runs an experiment, or what is left of it: one round after another, in a folder of its own."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fleet_protocol.ground.atomic_files import leftovers, make_folder, write_durably
from fleet_simulator.errors import ExperimentError
from fleet_simulator.experiment.sections import AnyExperiment, Experiment, ZeroShotExperiment
from fleet_simulator.plugins import use_plugins
from fleet_simulator.runs.inputs import Inputs
from fleet_simulator.runs.progress import Progress
from fleet_simulator.runs.run_folder import RESULT, about, available_cores, locked
from fleet_simulator.simulation.dealt_fleet import DealtFleet, evaluate_devices
from fleet_simulator.simulation.federation import Federation
from fleet_simulator.simulation.users import Users
from fleet_simulator.simulation.workers import InThisProcess, Pool, RayWorkers, Workers


@dataclass(frozen=True)
class Result:
    """How a run ended."""

    # One JSON-ready entry for each; docs/simulator.md says what stands in it
    rounds: list[dict[str, Any]]
    # An entry for each device, where devices hold clips out; docs/simulator.md says what stands in it
    devices: list[dict[str, Any]]
    seconds: list[float]  # Of the rounds that this run itself has done
    folder: Path  # Of the run; ``state.safetensors`` in it holds what the aggregator has


def run(
    experiment: AnyExperiment,
    folder: Path,
    workers: int | None,
    progress: Progress,
    cluster: str | None = None,
    inputs: Inputs | None = None,
) -> Result:
    """Run an experiment, or what is left of it; the result is the same whatever the number of workers.

    Args:
        folder: of the run; one that a killed run left is gone on with. ``result.json`` in it tells more.
        workers: processes that train devices, or threads that train users; 0: none; None: one for each core.
        cluster: address of a Ray cluster to run them on; None: this machine.
        inputs: clips and models of other runs of this process, to be reused.

    Raises SimulationError, ExportError: the data, the run's folder or a worker is at fault; ProtocolError: a bundle or
    a plugin cannot be used; AggregatorError: the strategy cannot combine the uploads.
    """
    use_plugins(experiment.plugins)
    make_folder(folder, 0o755)
    with locked(folder):
        for path in leftovers(folder):
            path.unlink()
        seconds: list[float] = []
        with _opened(experiment, folder, workers, cluster, inputs or Inputs()) as federation:
            rounds, count = federation.state.rounds, experiment.rounds.count
            progress.begin(count, len(rounds))
            for round_id in range(len(rounds) + 1, count + 1):
                start = time.perf_counter()
                entry = federation.play(round_id)
                seconds.append(time.perf_counter() - start)
                progress.round_done(entry, seconds[-1])
            devices = evaluate_devices(federation)
        result = {"rounds": rounds, "about": about(experiment)} | ({"devices": devices} if devices else {})
        write_durably(folder / RESULT, (json.dumps(result, indent=1, sort_keys=True) + "\n").encode(), 0o644)
    return Result(rounds, devices, seconds, folder)


@contextmanager
def _opened(
    experiment: AnyExperiment, folder: Path, workers: int | None, cluster: str | None, inputs: Inputs
) -> Iterator[Federation]:
    """Open the devices, and those who train them."""
    if isinstance(experiment, ZeroShotExperiment):
        if cluster is not None:
            raise ExperimentError("the strategy 'zero_shot' runs on this machine alone; leave --ray out")
        with ThreadPoolExecutor(available_cores() if workers is None else max(1, workers)) as threads:
            yield Federation(experiment, Users(experiment, inputs, threads), folder)
        return
    assert isinstance(experiment, Experiment)
    fleet = DealtFleet(experiment, folder, inputs, in_memory=workers == 0 and cluster is None)
    federation = Federation(experiment, fleet, folder)
    pool: Pool
    if cluster is not None:
        pool = RayWorkers(fleet.setup, workers, cluster)
    elif workers == 0:
        pool = InThisProcess(fleet.setup, fleet.shards, inputs)
    else:
        pool = Workers(fleet.setup, workers or available_cores())
    with pool as fleet.pool:
        yield federation
