"""An experiment of the simulator as a run of a table: in this process, leaving no files behind."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from fleet_simulator.experiment import Experiment
from fleet_simulator.inputs import Inputs
from fleet_simulator.simulation import Silent, run

_INPUTS = Inputs()  # clips and models that the next run of this process finds open


def simulated(experiment: Experiment, scratch: Path) -> dict[str, Any]:
    """Run an experiment; return ``rounds`` and ``devices``, as :class:`fleet_simulator.simulation.Result` has them."""
    result = run(experiment, scratch, 0, Silent(), inputs=_INPUTS)
    shutil.rmtree(scratch)
    return {"rounds": result.rounds, "devices": result.devices}
