"""An experiment of the simulator as a run of a table: in this process, leaving no files behind."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from fleet_simulator.experiment import Experiment
from fleet_simulator.simulation import run


class Silent:
    """Progress that nobody looks at."""

    def begin(self, rounds: int, finished: int) -> None:
        """Say nothing."""

    def devices_done(self, count: int, of: int) -> None:
        """Say nothing."""

    def round_done(self, entry: dict[str, Any], seconds: float) -> None:
        """Say nothing."""


def simulated(experiment: Experiment, scratch: Path) -> dict[str, Any]:
    """Run an experiment; return ``rounds``, an entry for each."""
    result = run(experiment, scratch, 0, Silent())
    shutil.rmtree(scratch)
    return {"rounds": result.rounds}
