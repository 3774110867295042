"""Processes that do whole runs, one after another; each stays with the clips that it has read as long as it can."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from pathlib import Path

from fleet_protocol.errors import AuricleError
from fleet_simulator.simulation.workers import end_with_parent
from studies.fleets import StudyError
from studies.run import Run, RunFiles, perform


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
