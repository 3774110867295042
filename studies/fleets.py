"""What studies take their runs from: sizes, clips, bundles, the simulator's call, and the rules that papers published.

By those nobody is screened, and all clips count; the project's defaults differ.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.command import QUIET, ROOT, output_of_module, recordings
from fleet_protocol.errors import AuricleError
from fleet_protocol.methods.setting import Value
from fleet_simulator.errors import DivergedError
from fleet_simulator.experiment.sections import AnyExperiment, DataSection, Experiment
from fleet_simulator.runs.inputs import Inputs
from fleet_simulator.runs.progress import Progress
from fleet_simulator.runs.run_folder import read_state
from fleet_simulator.simulation.run import run


class StudyError(AuricleError):
    """A study cannot be run with what this machine has or what it was given."""


@dataclass(frozen=True)
class Scale:
    """What a study's ``runs`` is told."""

    full: bool  # whether to come near to the papers' sizes; else a study ends in under an hour on two cores
    output: Path  # folder of runs and bundles

    @property
    def name(self) -> str:
        """``full`` or ``small``."""
        return "full" if self.full else "small"

    def data(self, name: str) -> Path:
        """Return a file or folder of the real audio. Raises BenchmarkError: it is not there."""
        return recordings(name)

    def bundles(self, architectures: Sequence[str], *options: str) -> dict[str, Path]:
        """Return bundles by their architectures, built with options of `auricle-export build` unless they are there."""
        digest = hashlib.sha256("\0".join(options).encode())
        for source in sorted((ROOT / "model_export").rglob("*.py")):
            digest.update(source.read_bytes())
        folder = self.output / "bundles" / digest.hexdigest()[:16]
        bundles = {name: folder / f"{name}.auricle" for name in architectures}
        if missing := [name for name, path in bundles.items() if not path.is_file()]:
            folder.mkdir(parents=True, exist_ok=True)
            command = ("model_export.cli", "build", *missing, "--features", "gudur", *options, "-o", f"{folder}/")
            output_of_module(*command, **QUIET)
        return bundles


KEYWORDS = ("down", "go", "left", "no", "off", "on", "right", "stop", "up", "yes")


def keyword_clips(scale: Scale, **settings: Any) -> DataSection:  # noqa: ANN401  (what DataSection takes)
    """Return ``[data]`` of the keywords' pictures; ``settings`` as there."""
    return DataSection("log_mel", scale.data("gsc_v2_logmel_jpg.zip"), KEYWORDS, **settings)


MEAN: dict[str, Value] = {"name": "weighted_mean", "clips_cap": 0.0}
LPA: dict[str, Value] = {"name": "lpa", "clips_cap": 0.0}


@cache
def shared_inputs() -> Inputs:
    """Return the clips and models that this process's runs share."""
    return Inputs()


def rounds_of(experiment: AnyExperiment) -> list[dict[str, Any]]:
    """Run an experiment in this process; return its rounds."""
    with tempfile.TemporaryDirectory() as folder:
        return run(experiment, Path(folder), 0, Progress(), inputs=shared_inputs()).rounds


def simulated(experiment: Experiment, scratch: Path) -> dict[str, Any]:
    """Run an experiment in a folder, which is removed at the end; one that a killed run left is gone on with.

    Returns ``rounds`` and ``devices`` as in :class:`fleet_simulator.simulation.run.Result`; where a device's training
    diverged, the rounds before that, and ``diverged``, what was said of it.
    """
    try:
        result = run(experiment, scratch, 0, Progress(), inputs=shared_inputs())
        figures: dict[str, Any] = {"rounds": result.rounds, "devices": result.devices}
    except DivergedError as error:
        state = read_state(scratch, experiment.digest)
        figures = {"rounds": state[1]["rounds"] if state else [], "devices": [], "diverged": str(error)}
    shutil.rmtree(scratch)
    return figures
