"""Processes that do whole runs, one after another; each stays with the clips that it has read as long as it can."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path

from benchmarks.bundles import BenchmarkError
from fleet_protocol.errors import AuricleError
from studies.run import Run, RunFiles, perform


def run_all(
    runs: Sequence[Run], output: Path, processes: int, done: Callable[[Run], None] = lambda _: None
) -> list[str]:
    """Do runs; each one's outcome is on the disk as it ends.

    Args:
        runs: what to do; none twice.
        output: folder of the outcomes.
        processes: how many.
        done: told of every run that ended well.

    Returns:
        What went wrong, run by run; the others were done all the same.

    Raises:
        BenchmarkError: a process ended.
    """
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):  # several would only wait for each other
        os.environ.setdefault(name, "1")
    context = multiprocessing.get_context("spawn")
    workers: dict[Connection, SpawnProcess] = {}
    for _ in range(min(processes, len(runs))):
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs, output))
        process.start()
        theirs.close()  # so that the other side's end is seen here
        workers[ours] = process
    try:
        return _hand_out(runs, list(workers), done)
    finally:
        for connection, process in workers.items():
            connection.close()
            process.join(1)
            process.kill()
            process.join()


def _hand_out(runs: Sequence[Run], workers: Sequence[Connection], done: Callable[[Run], None]) -> list[str]:
    left, problems = list(runs), []
    doing: dict[Connection, Run] = {}
    clips: dict[Connection, str] = {}

    def give(worker: Connection) -> None:
        if left:
            run = _next(left, clips.get(worker), set(clips.values()))
            left.remove(run)
            doing[worker], clips[worker] = run, run.clips
            worker.send(run)

    for worker in workers:
        give(worker)
    while doing:
        for ready in wait(list(doing)):
            assert isinstance(ready, Connection)
            run = doing.pop(ready)
            try:
                problem = ready.recv()
            except (EOFError, OSError) as error:
                raise BenchmarkError(
                    f"the process that did {run.name!r}, seed {run.seed}, ended; perhaps memory ran out: take fewer "
                    "--processes. The same command goes on with what is left"
                ) from error
            if problem is None:
                done(run)
            else:
                problems.append(f"{run.name}, seed {run.seed}: {problem}")
            give(ready)
    return problems


def _next(left: Sequence[Run], mine: str | None, taken: set[str]) -> Run:
    """Choose a process's next run: of the clips it has, else of clips that no other has, else of any."""
    for run in left:
        if run.clips == mine:
            return run
    return next((run for run in left if run.clips not in taken), left[0])


def _work(connection: Connection, output: Path) -> None:
    """Do the runs that are sent, until the main process closes its end, or is gone."""
    files = RunFiles(output)
    while True:
        try:
            run: Run = connection.recv()
        except (EOFError, OSError, KeyboardInterrupt):
            return
        scratch = output / "unfinished" / run.digest
        problem: str | None = None
        try:
            files.save(run, perform(run, scratch))
            shutil.rmtree(scratch, ignore_errors=True)
        except KeyboardInterrupt:
            return
        except AuricleError as error:
            problem = str(error)
        except Exception:  # whatever it is, the main process has to say it
            problem = traceback.format_exc()
        try:
            connection.send(problem)
        except OSError:
            return
