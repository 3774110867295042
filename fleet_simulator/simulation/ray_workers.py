"""Workers on a Ray cluster: the same tasks and the same answers as with processes of this machine.

The run's folder and the bundles must be at the same place on every machine of the cluster, on a file system that they
share.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Iterable
from typing import Any

from fleet_simulator.errors import WorkerError
from fleet_simulator.simulation.tasks import Setup, Task
from fleet_simulator.simulation.virtual_devices import VirtualDevices
from fleet_simulator.simulation.workers import Pool

LOCAL = "local"
_PATIENCE_S = 10.0


class RayWorkers(Pool):
    """A pool of Ray actors, each on one core: tasks go to whoever is free, answers come in the order of the tasks."""

    def __init__(self, setup: Setup, count: int | None, address: str = LOCAL) -> None:
        """Connect to a cluster, or start one on this machine.

        Args:
            count: actors; None: one for each core of the cluster.
            address: of the cluster; ``local`` starts one that ends with this process.
        """
        if address == LOCAL:  # listen on loopback alone; Ray has no better name for it
            os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
        cores: dict[str, Any] = {"num_cpus": count, "include_dashboard": False} if address == LOCAL else {}
        try:
            ray = _connected(address, **cores)
        except ImportError as error:
            raise WorkerError(f"--ray needs Ray ({error}); pip install 'auricle[ray]'") from error
        except ConnectionError as error:
            raise WorkerError(f"{error}, or leave the address out to start one here") from error
        self._ray = ray
        actor = ray.remote(num_cpus=1)(VirtualDevices)
        everywhere: dict[str, Any] = ray.cluster_resources()  # type: ignore[no-untyped-call,unused-ignore]
        self._actors = [actor.remote(setup) for _ in range(count or int(everywhere["CPU"]))]

    def __exit__(self, *_: object) -> None:
        self._ray.shutdown()  # a cluster that was started here ends

    def run(self, tasks: Iterable[Task], done: Callable[[Task], None] = lambda _: None) -> list[Any]:
        """Hand the tasks out."""
        left = iter(enumerate(tasks))
        busy: dict[Any, tuple[int, Task, Any]] = {}
        answers: dict[int, Any] = {}

        def give(actor: Any) -> None:  # noqa: ANN401  (Ray's handles have no types)
            index, task = next(left, (-1, None))
            if task is not None:
                busy[actor.answer.remote(task)] = (index, task, actor)

        for actor in self._actors:
            give(actor)
        while busy:
            (reference,), _ = self._ray.wait(list(busy), num_returns=1)
            index, task, actor = busy.pop(reference)
            answers[index] = self._answer(reference)
            give(actor)
            done(task)
        return [answers[index] for index in sorted(answers)]

    def _answer(self, reference: Any) -> Any:  # noqa: ANN401  (whatever the task's method returns)
        try:
            return self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:
            raise WorkerError(str(error.cause)) from error
        except self._ray.exceptions.RayError as error:
            raise WorkerError(
                f"a Ray actor ended ({error}). The same command goes on from the last finished round"
            ) from error


def _connected(address: str, **options: Any) -> Any:  # noqa: ANN401  (Ray's own options; Ray has no types)
    """Connect this process to a cluster, and return Ray; raise ConnectionError if none answers there."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # else a warning about what Ray will do one day
    import ray

    host, _, port = address.rpartition(":")
    try:
        if host and "/" not in host and port.isdigit():  # Ray itself would try for minutes
            socket.create_connection((host, int(port)), _PATIENCE_S).close()
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **options)
    except (OSError, RuntimeError, ValueError) as error:
        raise ConnectionError(
            f"no Ray cluster answers at {address!r} ({error}); start one with `ray start --head` and give its address"
        ) from error
    return ray
