"""How long studies will take on this machine, and with how much memory and disk; told before anything runs.

A study states the processor seconds of its runs as they are on the machine that its figures were measured on. A short
training tells how much slower or faster this machine is.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.bundles import READY, BenchmarkError, find_bundles
from edge_client.learning.sgd import Optimiser, train_epoch
from edge_client.learning.targets import from_slots
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.bundle import read_bundle
from fleet_simulator.experiment.sections import Experiment
from model_export.quiet import native_output_hidden
from studies.run import Run

# What the short training takes on the machine of docs/results.md, in seconds.
_TRAINING_S = 0.074
_TRAINED_ON, _TIMES = 1024, 5
_PROCESS_MIB = 900  # the largest of the studies' processes at its peak, which is that of speech
_RUN_MIB = 1.0  # at most, of a run's file
_BUNDLES_MIB = 50


class RefusedError(BenchmarkError):
    """The studies cannot end here within the time, the memory or the disk that there is."""


@dataclass(frozen=True)
class Estimate:
    """What the runs that are left will take.

    Attributes:
        hours: of one processor, by study; a run that studies share counts for the first.
        left: runs, likewise.
        processes: that do them.
        speed: how many times as long as stated they take on this machine.
        memory_mib: of all processes.
        free_memory_mib: that there is.
        disk_mib: of the runs' files.
        free_disk_mib: that there is.
    """

    hours: Mapping[str, float]
    left: Mapping[str, int]
    processes: int
    speed: float
    memory_mib: float
    free_memory_mib: float
    disk_mib: float
    free_disk_mib: float

    @property
    def all_hours(self) -> float:
        """From start to end: that of the processes that share the runs."""
        return sum(self.hours.values()) / max(1, min(self.processes, sum(self.left.values())))

    def __str__(self) -> str:
        rows = [
            f"{name:<12}{self.left[name]:>6} runs left{self.hours[name]:>9.2f} processor hours" for name in self.left
        ]
        return "\n".join(
            [
                *rows,
                f"About {self.all_hours:.1f} hours with {self.processes} processes: this machine takes "
                f"{self.speed:.1f} times what the studies state.",
                f"Memory: {self.memory_mib:,.0f} MiB of {self.free_memory_mib:,.0f} that are free; disk: "
                f"{self.disk_mib:,.0f} of {self.free_disk_mib:,.0f}.",
            ]
        )

    def refuse(self, within_hours: float) -> None:
        """Check that there is time, memory and disk.

        Raises:
            RefusedError: naming what there is not, and the ways out.
        """
        lacking = []
        if self.all_hours > within_hours:
            lacking.append(f"takes about {self.all_hours:.1f} hours, more than {within_hours:g} (--within, WITHIN=)")
        if self.memory_mib > self.free_memory_mib:
            lacking.append(f"needs {self.memory_mib:,.0f} MiB of memory (take fewer --processes, PROCESSES=)")
        if self.disk_mib > self.free_disk_mib:
            lacking.append(f"needs {self.disk_mib:,.0f} MiB of disk (name another --output)")
        if lacking:
            raise RefusedError(
                f"this {' and '.join(lacking)}; nothing was started. Choose studies by --table (TABLES=), or start all "
                "the same with --yes (YES=1)"
            )


def estimate(left: Mapping[str, Sequence[Run]], processes: int, output: Path) -> Estimate:
    """Return what runs will take.

    Args:
        left: the runs that are not done, by study; none twice.
        processes: that will do them.
        output: folder of the outcomes; it need not be there.
    """
    speed = training_seconds() / _TRAINING_S
    runs = [run for of in left.values() for run in of]
    at_once, state = min(processes, len(runs)), max(map(_state_mib, runs), default=0.0)
    there = next(folder for folder in (output, *output.parents) if folder.is_dir())
    return Estimate(
        {name: speed * sum(run.cost_s for run in runs) / 3600 for name, runs in left.items()},
        {name: len(runs) for name, runs in left.items()},
        processes,
        speed,
        memory_mib=at_once * (_PROCESS_MIB + state),
        free_memory_mib=_free_memory_mib(),
        disk_mib=_BUNDLES_MIB + _RUN_MIB * len(runs) + 2 * at_once * state,
        free_disk_mib=shutil.disk_usage(there).free / 2**20,
    )


def _state_mib(run: Run) -> float:
    """Return about how much a run keeps of its devices' own models; on the disk, twice, while one replaces another."""
    work = run.work if isinstance(run.work, Experiment) else run.work.arguments.get("experiment")
    if not isinstance(work, Experiment) or not work.model.own:
        return 0.0
    return work.fleet.devices * max(path.stat().st_size for path in work.model.own) / 2**20


def training_seconds() -> float:
    """Return the shortest of several short trainings of a ready bundle, in seconds."""
    bundle = read_bundle(find_bundles(READY, ["cnn2"])["cnn2"])
    with native_output_hidden():
        model = ModelRuntime(bundle)
    rng, manifest = np.random.default_rng(0), bundle.manifest
    x = rng.normal(size=(_TRAINED_ON, *manifest.input_shape)).astype(np.float32)
    targets = from_slots(rng.integers(4, size=_TRAINED_ON), manifest.capacity)
    mask = (np.arange(manifest.capacity) < 4).astype(np.float32)
    seconds = []
    for _ in range(_TIMES):
        start = time.perf_counter()
        train_epoch(model, x, targets, mask, Optimiser(0.01), rng)
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def _free_memory_mib() -> float:
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("MemAvailable:"))
