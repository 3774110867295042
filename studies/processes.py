"""Processes that do whole runs, one after another; and how long that will take, told before anything runs.

Each process stays with the clips that it has read as long as it can. A study states the processor seconds of its runs
as they are on the machine that its figures were measured on; a short training tells how much slower this one is.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edge_client.learning.sgd import Optimiser, from_slots, train_epoch
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.bundle import read_bundle
from fleet_protocol.errors import AuricleError
from fleet_protocol.ready_bundles import find_bundle
from fleet_simulator.experiment.sections import Experiment
from fleet_simulator.simulation.workers import end_with_parent
from studies.fleets import StudyError
from studies.run import Run, RunFiles, perform

# What the short training takes on the machine of docs/results.md, in seconds.
_TRAINING_S = 0.074
_TRAINED_ON, _TIMES = 1024, 5
_PROCESS_MIB = 900  # the largest of the studies' processes at its peak, which is that of speech
_RUN_MIB = 1.0  # at most, of a run's file
_BUNDLES_MIB = 50


class RefusedError(StudyError):
    """The studies cannot end here within the time, the memory or the disk that there is."""


@dataclass(frozen=True)
class Estimate:
    """What the runs that are left will take."""

    hours: Mapping[str, float]  # of one processor, by study; a run that studies share counts for the first
    left: Mapping[str, int]  # runs, likewise
    processes: int  # that do them
    speed: float  # how many times as long as stated they take on this machine
    memory_mib: float  # of all processes
    free_memory_mib: float  # that there is
    disk_mib: float  # of the runs' files
    free_disk_mib: float  # that there is

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
        """Check that there is time, memory and disk. Raises RefusedError: names what there is not, and the ways out."""
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
    """Return what runs will take."""
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
    bundle = read_bundle(find_bundle("cnn2"))
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


def run_all(
    runs: Sequence[Run], output: Path, processes: int, done: Callable[[Run], None] = lambda _: None
) -> list[str]:
    """Do runs; each one's outcome is in the output's folder as it ends, and ``done`` is told of those that ended well.

    Returns what went wrong, run by run; the others were done all the same. Raises StudyError: a process ended.
    """
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):  # several would only wait for each other
        os.environ.setdefault(name, "1")
    left, problems, clips = list(runs), list[str](), dict[ProcessPoolExecutor, str]()
    doing: dict[Future[str | None], tuple[ProcessPoolExecutor, Run]] = {}
    context = multiprocessing.get_context("spawn")
    with ExitStack() as stack:
        # Each is a pool of one process, so that runs can be given to one that has their clips.
        free = [
            stack.enter_context(ProcessPoolExecutor(1, context, initializer=end_with_parent))
            for _ in range(min(processes, len(runs)))
        ]
        while left or doing:
            while left and free:
                worker = free.pop(0)
                run = _next(left, clips.get(worker), set(clips.values()))
                left.remove(run)
                clips[worker] = run.clips
                doing[worker.submit(_work, run, output)] = worker, run
            for future in wait(doing, return_when=FIRST_COMPLETED).done:
                worker, run = doing.pop(future)
                free.append(worker)
                problem = _problem(future, run)
                if problem is None:
                    done(run)
                else:
                    problems.append(f"{run.name}, seed {run.seed}: {problem}")
    return problems


def _next(left: Sequence[Run], mine: str | None, taken: set[str]) -> Run:
    """Choose a process's next run: of the clips it has, else of clips that no other has, else of any."""
    for run in left:
        if run.clips == mine:
            return run
    return next((run for run in left if run.clips not in taken), left[0])


def _problem(future: Future[str | None], run: Run) -> str | None:
    try:
        return future.result()
    except BrokenProcessPool as error:
        raise StudyError(
            f"the process that did {run.name!r}, seed {run.seed}, ended; perhaps memory ran out: take fewer "
            "--processes. The same command goes on with what is left"
        ) from error


def _work(run: Run, output: Path) -> str | None:
    """Do a run; return what went wrong, if anything."""
    scratch = output / "unfinished" / run.digest
    try:
        RunFiles(output).save(run, perform(run, scratch))
        shutil.rmtree(scratch, ignore_errors=True)
    except AuricleError as error:
        return str(error)
    except Exception:  # whatever it is, the main process has to say it
        return traceback.format_exc()
    return None
