"""An experiment of the simulator as a run of a table: in this process, leaving no files behind."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path
from typing import Any

from fleet_simulator.errors import DivergedError
from fleet_simulator.experiment.sections import Experiment
from fleet_simulator.runs.inputs import Inputs
from fleet_simulator.runs.progress import Silent
from fleet_simulator.runs.run_folder import read_state
from fleet_simulator.simulation.run import run


@cache
def shared_inputs() -> Inputs:
    """Return the clips and models that this process's runs share."""
    return Inputs()


def simulated(experiment: Experiment, scratch: Path) -> dict[str, Any]:
    """Run an experiment.

    Args:
        experiment: what to run.
        scratch: its folder; one that a killed run left is gone on with, and it is removed at the end.

    Returns:
        ``rounds`` and ``devices`` as in :class:`fleet_simulator.simulation.run.Result`; where a device's
        training diverged, the rounds before that, and ``diverged``, what was said of it.
    """
    try:
        result = run(experiment, scratch, 0, Silent(), inputs=shared_inputs())
        figures: dict[str, Any] = {"rounds": result.rounds, "devices": result.devices}
    except DivergedError as error:
        state = read_state(scratch, experiment.digest)
        figures = {"rounds": state[1]["rounds"] if state else [], "devices": [], "diverged": str(error)}
    shutil.rmtree(scratch)
    return figures
