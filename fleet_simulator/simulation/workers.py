"""Processes that train virtual devices, each with runtimes of its own. They end when the main process is gone."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import traceback
from abc import abstractmethod
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager
from typing import Any

from fleet_protocol.errors import AuricleError
from fleet_simulator.errors import WorkerError
from fleet_simulator.partition.clip_shards import ClipShards
from fleet_simulator.runs.inputs import Inputs
from fleet_simulator.simulation.tasks import Setup, Task
from fleet_simulator.simulation.virtual_devices import VirtualDevices


class Pool(AbstractContextManager["Pool"]):
    """Workers, wherever they are; a context that ends them."""

    @abstractmethod
    def run(self, tasks: Iterable[Task], done: Callable[[Task], None] = lambda _: None) -> list[Any]:
        """Return the tasks' answers, in the order of the tasks; ``done`` is told of each as it ends.

        Raises WorkerError: a task failed, or what did it ended.
        """


class InThisProcess(Pool):
    """A pool without processes: this one does every task, at once; the models stay open for the inputs' next run."""

    def __init__(self, setup: Setup, shards: ClipShards, inputs: Inputs) -> None:
        """Open the models, or take those that are open; see :class:`VirtualDevices`."""
        self._devices = VirtualDevices(setup, shards, inputs)

    def run(self, tasks: Iterable[Task], done: Callable[[Task], None] = lambda _: None) -> list[Any]:
        """Do every task."""
        answers = []
        for task in tasks:
            answers.append(self._devices.answer(task))
            done(task)
        return answers

    def __exit__(self, *_: object) -> None:
        pass


class Workers(Pool):
    """A pool of processes: tasks go to whoever is free."""

    def __init__(self, setup: Setup, count: int) -> None:
        """Start ``count`` processes."""
        # Several BLAS threads in every process would only wait for each other.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        self._executor = ProcessPoolExecutor(
            count, multiprocessing.get_context("spawn"), initializer=_begin, initargs=(setup,)
        )

    def __exit__(self, *_: object) -> None:
        self._executor.shutdown(cancel_futures=True)  # each ends after the task that it is at

    def run(self, tasks: Iterable[Task], done: Callable[[Task], None] = lambda _: None) -> list[Any]:
        """Hand the tasks out."""
        try:
            futures = {self._executor.submit(_answer, task): task for task in tasks}
            for future in as_completed(futures):
                problem = future.result()[1]
                if problem is not None:
                    raise WorkerError(problem)
                done(futures[future])
        except BrokenProcessPool as error:
            raise WorkerError(
                "a worker process ended; perhaps the machine ran out of memory: run fewer with --workers. "
                "The same command goes on from the last finished round"
            ) from error
        return [future.result()[0] for future in futures]


_worker: dict[str, Any] = {}  # of this process: its setup, and its devices once a task needs them


def end_with_parent() -> None:
    """Have this process end when the one that started it is gone, and at an interrupt without a word."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _begin(setup: Setup) -> None:
    end_with_parent()
    _worker["setup"] = setup


def _answer(task: Task) -> tuple[Any, str | None]:
    """Return a task's answer, or what went wrong: not every error survives the way to the main process."""
    try:
        if "devices" not in _worker:
            _worker["devices"] = VirtualDevices(_worker["setup"])
        return _worker["devices"].answer(task), None
    except AuricleError as error:
        return None, str(error)
    except Exception:  # whatever it is, the main process has to say it
        return None, traceback.format_exc()
