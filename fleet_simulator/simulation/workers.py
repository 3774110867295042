"""Processes that train virtual devices, each with runtimes of its own. They end when the main process is gone."""

from __future__ import annotations

import multiprocessing
import os
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from typing import Any, Self

from fleet_protocol.errors import AuricleError
from fleet_simulator.errors import WorkerError
from fleet_simulator.partition.clip_shards import ClipShards
from fleet_simulator.runs.inputs import Inputs
from fleet_simulator.simulation.tasks import Setup, Task
from fleet_simulator.simulation.virtual_devices import VirtualDevices


class Pool(ABC):
    """Workers, wherever they are; a context that ends them."""

    @abstractmethod
    def run(self, tasks: Iterable[Task], done: Callable[[Task], None] = lambda _: None) -> list[Any]:
        """Return the tasks' answers, in the order of the tasks; ``done`` is told of each as it ends.

        Raises WorkerError: a task failed, or what did it ended.
        """

    @abstractmethod
    def close(self) -> None:
        """End the workers."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class InThisProcess(Pool):
    """A pool without processes: this one does every task, at once."""

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

    def close(self) -> None:
        """Leave the models open, for the inputs' next run."""


class Workers(Pool):
    """A pool of processes: tasks go to whoever is free, answers come back in the order of the tasks."""

    def __init__(self, setup: Setup, count: int) -> None:
        """Start ``count`` processes."""
        # Several BLAS threads in every process would only wait for each other.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        context = multiprocessing.get_context("spawn")
        self._connections: list[Connection] = []
        self._processes = []
        for number in range(count):
            ours, theirs = context.Pipe()
            process = context.Process(target=_work, args=(setup, theirs), name=f"worker-{number}", daemon=True)
            process.start()
            theirs.close()  # so that the other side's end is seen here, and ours there
            self._connections.append(ours)
            self._processes.append(process)

    def close(self) -> None:
        """End the processes."""
        for connection in self._connections:
            connection.close()
        for process in self._processes:
            process.join(5)
            if process.is_alive():
                process.kill()
                process.join()

    def run(self, tasks: Iterable[Task], done: Callable[[Task], None] = lambda _: None) -> list[Any]:
        """Hand the tasks out."""
        left: Iterator[tuple[int, Task]] = iter(enumerate(tasks))
        busy: dict[Connection, tuple[int, Task]] = {}
        answers: dict[int, Any] = {}
        for connection in self._connections:
            _give(connection, left, busy)
        while busy:
            for ready in wait(list(busy)):
                assert isinstance(ready, Connection)
                index, task = busy.pop(ready)
                answers[index] = _answer(ready)
                _give(ready, left, busy)
                done(task)
        return [answers[index] for index in sorted(answers)]


def _give(connection: Connection, left: Iterator[tuple[int, Task]], busy: dict[Connection, tuple[int, Task]]) -> None:
    following = next(left, None)
    if following is None:
        return
    busy[connection] = following
    try:
        connection.send(following[1])
    except OSError as error:
        raise _ended() from error


def _answer(connection: Connection) -> Any:  # noqa: ANN401  (whatever the task's function returns)
    try:
        answer, problem = connection.recv()
    except (EOFError, OSError) as error:
        raise _ended() from error
    if problem is not None:
        raise WorkerError(problem)
    return answer


def _ended() -> WorkerError:
    return WorkerError(
        "a worker process ended; perhaps the machine ran out of memory: run fewer with --workers. "
        "The same command goes on from the last finished round"
    )


def _work(setup: Setup, connection: Connection) -> None:
    """Answer tasks until the main process closes its end, or is gone."""
    devices: VirtualDevices | None = None
    while True:
        try:
            task: Task = connection.recv()
        except (EOFError, OSError, KeyboardInterrupt):
            return
        try:
            if devices is None:
                devices = VirtualDevices(setup)
            reply: tuple[Any, str | None] = (devices.answer(task), None)
        except KeyboardInterrupt:
            return
        except AuricleError as error:
            reply = (None, str(error))
        except Exception:  # whatever it is, the main process has to say it
            reply = (None, traceback.format_exc())
        try:
            connection.send(reply)
        except OSError:
            return
