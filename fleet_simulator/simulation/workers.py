"""Who trains virtual devices: this process, processes that end when it is gone, or actors of a Ray cluster."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import socket
import threading
import traceback
from abc import abstractmethod
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager
from typing import Any

from fleet_protocol.errors import AuricleError
from fleet_protocol.ground.own_python import safe_path
from fleet_simulator.errors import WorkerError
from fleet_simulator.partition.clip_shards import ClipShards
from fleet_simulator.runs.inputs import Inputs
from fleet_simulator.simulation.tasks import Setup, Task
from fleet_simulator.simulation.virtual_devices import VirtualDevices

LOCAL = "local"
_PATIENCE_S = 10.0


class Pool(AbstractContextManager["Pool"]):
    """Workers, wherever they are; a context that ends them."""

    @abstractmethod
    def run(self, tasks: Iterable[Task]) -> list[Any]:
        """Return the tasks' answers, in their order. Raises WorkerError: a task failed, or what did it ended."""

    def __exit__(self, *_: object) -> None:
        """Leave nothing behind."""


class InThisProcess(Pool):
    """A pool without processes: this one does every task, at once; the models stay open for the inputs' next run."""

    def __init__(self, setup: Setup, shards: ClipShards, inputs: Inputs) -> None:
        """Open the models, or take those that are open; see :class:`VirtualDevices`."""
        self._devices = VirtualDevices(setup, shards, inputs)

    def run(self, tasks: Iterable[Task]) -> list[Any]:
        """Do every task."""
        return [self._devices.answer(task) for task in tasks]


class Workers(Pool):
    """A pool of processes: tasks go to whoever is free."""

    def __init__(self, setup: Setup, count: int) -> None:
        """Start ``count`` processes."""
        # Several BLAS threads in every process would only wait for each other.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        with safe_path():  # a process of multiprocessing's own begins here
            self._executor = ProcessPoolExecutor(
                count, multiprocessing.get_context("spawn"), initializer=_begin, initargs=(setup,)
            )

    def __exit__(self, *_: object) -> None:
        self._executor.shutdown(cancel_futures=True)  # each ends after the task that it is at

    def run(self, tasks: Iterable[Task]) -> list[Any]:
        """Hand the tasks out."""
        answers = []
        try:
            with safe_path():  # processes begin as tasks are handed out
                found = self._executor.map(_answer, tasks)
            for answer, problem in found:
                if problem is not None:
                    raise WorkerError(problem)
                answers.append(answer)
        except BrokenProcessPool as error:
            raise WorkerError(
                "a worker process ended; perhaps the machine ran out of memory: run fewer with --workers. "
                "The same command goes on from the last finished round"
            ) from error
        return answers


class RayWorkers(Pool):
    """A pool of Ray actors, each on one core.

    The run's folder and the bundles must be at the same place on every machine of the cluster, on a file system that
    they share.
    """

    def __init__(self, setup: Setup, count: int | None, address: str = LOCAL) -> None:
        """Connect to a cluster, or start a ``local`` one that ends with this process; no ``count``: all its cores."""
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # else a warning of what Ray will do one day
        if address == LOCAL:  # listen on loopback alone; Ray has no better name for it
            os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
        cores: dict[str, Any] = {"num_cpus": count, "include_dashboard": False} if address == LOCAL else {}
        host, _, port = address.rpartition(":")
        try:
            import ray
            from ray.util import ActorPool

            if host and "/" not in host and port.isdigit():  # Ray itself would try for minutes
                socket.create_connection((host, int(port)), _PATIENCE_S).close()
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **cores)
        except ImportError as error:
            raise WorkerError(f"--ray needs Ray ({error}); pip install 'auricle[ray]'") from error
        except (OSError, RuntimeError, ValueError) as error:
            raise WorkerError(
                f"no Ray cluster answers at {address!r} ({error}); start one with `ray start --head` and give its "
                "address, or leave the address out to start one here"
            ) from error
        self._ray: Any = ray
        actor: Any = self._ray.remote(num_cpus=1)(VirtualDevices)
        actors = [actor.remote(setup) for _ in range(count or int(self._ray.cluster_resources()["CPU"]))]
        self._actors: Any = ActorPool(actors)

    def __exit__(self, *_: object) -> None:
        self._ray.shutdown()  # a cluster that was started here ends

    def run(self, tasks: Iterable[Task]) -> list[Any]:
        """Hand the tasks out."""
        try:
            return list(self._actors.map(lambda actor, task: actor.answer.remote(task), tasks))
        except self._ray.exceptions.RayTaskError as error:
            raise WorkerError(str(error.cause)) from error
        except self._ray.exceptions.RayError as error:
            raise WorkerError(
                f"a Ray actor ended ({error}). The same command goes on from the last finished round"
            ) from error


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
