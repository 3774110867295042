"""An experiment of either kind, loaded and run: with a model that devices share, or with users who have their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fleet_simulator.errors import ExperimentError
from fleet_simulator.experiment.file import Source, load_experiment
from fleet_simulator.experiment.sections import Experiment
from fleet_simulator.experiment.zero_shot_file import has_users, load_zero_shot
from fleet_simulator.experiment.zero_shot_sections import ZeroShotExperiment
from fleet_simulator.plugins import Plugin, use_plugins
from fleet_simulator.runs.inputs import Inputs
from fleet_simulator.runs.progress import Progress
from fleet_simulator.shared_model import simulation as shared_model
from fleet_simulator.zero_shot.simulation import run_zero_shot

AnyExperiment = Experiment | ZeroShotExperiment


def load(source: Source, changes: Sequence[str] = (), plugins: tuple[Plugin, ...] = ()) -> AnyExperiment:
    """Read and check an experiment of either kind.

    Args:
        source: path of the file, or what it would hold.
        changes: of its settings.
        plugins: files with methods that it may name, which are in use.

    Raises:
        ExperimentError: naming the file, the section, the key, the value and what is allowed.
    """
    read = load_zero_shot if has_users(source, changes) else load_experiment
    return replace(read(source, changes), plugins=plugins)


def play(
    experiment: AnyExperiment,
    folder: Path,
    workers: int | None,
    progress: Progress,
    cluster: str | None = None,
    inputs: Inputs | None = None,
) -> list[dict[str, Any]]:
    """Run an experiment, or what is left of it, and return an entry for each round.

    Args:
        experiment: of either kind.
        folder: of the run; ``result.json`` in it holds more.
        workers: processes that train devices, or threads that train users; 0: none; None: one for each core.
        progress: shows how it goes.
        cluster: address of a Ray cluster; None: this machine.
        inputs: clips and models of other runs of this process, to be reused.

    Raises:
        AuricleError: the data, a bundle, the run's folder or a worker is at fault.
    """
    use_plugins(experiment.plugins)
    if isinstance(experiment, Experiment):
        return shared_model.run(experiment, folder, workers, progress, cluster, inputs).rounds
    if cluster:
        raise ExperimentError("the strategy 'zero_shot' runs on this machine alone; leave --ray out")
    return run_zero_shot(experiment, folder, workers, progress, inputs)
