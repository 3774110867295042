"""One run of a study: an experiment of the simulator or a function, with a seed; and what is kept of it on the disk.

A run's file is named after a digest of all that decides its result, so that studies can share runs, and a killed
command goes on where it stopped.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from platform import python_version
from typing import Any, cast

from benchmarks.pi.machine import Machine
from fleet_protocol.atomic_files import write_durably
from fleet_simulator.experiment.sections import Experiment
from studies.code import code_of

Figures = dict[str, Any]
_EXPERIMENTS = "studies.simulated"
_RUNTIMES = ("ai-edge-litert", "tflite-runtime")


@dataclass(frozen=True)
class Call:
    """A function to call with arguments; it and they must survive pickling.

    Attributes:
        function: returns figures that JSON can hold. A module's own, so that another process finds it.
        arguments: a path among them, or in a list, tuple or mapping among them, counts by its name, and a bundle by
            its content.
    """

    function: Callable[..., Figures]
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Run:
    """One run.

    Attributes:
        name: what it is a run of; runs of other seeds have the same name.
        seed: the seed that ``work`` was made with.
        work: what to do. An experiment's figures are those of :func:`studies.simulated.simulated`.
        cost_s: processor seconds that it takes, roughly; from these the time left is told.
        corpus: runs that name the same one share clips that a process keeps, and are done by one process in a row;
            by default an experiment's ``[data]``.
    """

    name: str
    seed: int
    work: Experiment | Call
    cost_s: float = 30.0
    corpus: str = ""

    @property
    def clips(self) -> str:
        """What names the clips that the run reads."""
        if self.corpus or isinstance(self.work, Call):
            return self.corpus
        data = self.work.data
        return f"{data} {self.work.model.bundle.name} {self.seed if data.seeded else ''}"

    @property
    def code(self) -> str:
        """Digest of the code that decides the result."""
        return code_of(_EXPERIMENTS if isinstance(self.work, Experiment) else self.work.function.__module__)

    @property
    def digest(self) -> str:
        """Of all that decides the result: code, settings, seed, bundles."""
        if isinstance(self.work, Experiment):
            text = f"{self.code} {self.work.digest} {self.work.rounds.count}"
        else:
            function = self.work.function
            what = [self.code, function.__module__, function.__qualname__, _plain(self.work.arguments), self.seed]
            text = json.dumps(what, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]


def _plain(value: Any) -> Any:  # noqa: ANN401  (whatever arguments hold)
    """Return arguments as JSON has them, with a bundle's digest for its path."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Path):
        return hashlib.sha256(value.read_bytes()).hexdigest() if value.suffix == ".auricle" else str(value)
    return value if isinstance(value, str | int | float | bool | None) else repr(value)


@dataclass(frozen=True)
class Outcome:
    """What is kept of a run.

    Attributes:
        figures: what it found.
        started: when, in seconds since 1970.
        seconds: it took.
        machine: where: ``processor``, ``cores``, ``system``, ``python``, ``runtime``.
    """

    figures: Figures
    started: float
    seconds: float
    machine: dict[str, Any]


class RunFiles:
    """The outcomes in a folder, one file for each digest."""

    def __init__(self, output: Path) -> None:
        self.folder = output / "runs"

    def load(self, run: Run) -> Outcome | None:
        """Return a run's outcome; None where it is not there yet."""
        path = self._path(run)
        return Outcome(**json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else None

    def save(self, run: Run, outcome: Outcome) -> None:
        """Put an outcome on the disk; after a power cut it is there whole, or not at all."""
        write_durably(self._path(run), (json.dumps(asdict(outcome), indent=1) + "\n").encode(), 0o644)

    def _path(self, run: Run) -> Path:
        return self.folder / f"{run.digest}.json"


def perform(run: Run, scratch: Path) -> Outcome:
    """Do a run in this process.

    Args:
        run: what to do.
        scratch: an experiment's folder; one that was killed goes on after its last finished round.
    """
    from studies.simulated import simulated

    started, clock = time.time(), time.perf_counter()
    if isinstance(run.work, Experiment):
        figures = simulated(run.work, scratch)
    else:
        figures = run.work.function(**run.work.arguments)
    figures = cast(Figures, json.loads(json.dumps(figures)))  # so that a wrong type shows here, not after an hour
    return Outcome(figures, started, time.perf_counter() - clock, machine())


def machine() -> dict[str, Any]:
    """Describe the machine that this process runs on."""
    here = Machine.here()
    runtimes = []
    for name in _RUNTIMES:
        try:
            runtimes.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return {
        "processor": here.processor,
        "cores": os.cpu_count(),
        "system": here.system,
        "python": python_version(),
        "runtime": runtimes[0] if runtimes else "none",
    }
