"""A round's result, computed on a machine of a Ray cluster: the same bytes as on this one.

Every machine of the cluster has the same release of Auricle, and reaches the store that holds the arrays.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import socket
from typing import Any

from aggregator_server.aggregation.updates import use_threads
from aggregator_server.errors import StartError
from aggregator_server.rounds.result import Compute, StoredResult
from aggregator_server.rounds.snapshot import RoundSnapshot
from aggregator_server.store.blobs import BlobStore
from aggregator_server.store.location import Location

_PATIENCE_S = 10.0
THIS_MACHINE = "auto"
"""Address of the cluster that runs on this machine."""


def require_ray(address: str, place: Location) -> None:
    """Check, before a server starts, that Ray is installed, and that a cluster could compute.

    Raises:
        StartError: it could not.
    """
    if importlib.util.find_spec("ray") is None:
        raise StartError("--ray needs Ray; pip install 'auricle[ray]'")
    if place.store is None and address != THIS_MACHINE:
        raise StartError(
            "--ray needs --store: machines of a cluster do not see this machine's data folder. Give an object store or "
            f"a folder that all of them have, or --ray {THIS_MACHINE} for a cluster on this machine"
        )
    try:
        _require_answer(address)
    except OSError as error:
        raise StartError(_nobody(address, error)) from error


def connect(address: str, **options: Any) -> Any:  # noqa: ANN401  (Ray's own options; Ray has no types)
    """Connect this process to a cluster, and return Ray.

    Args:
        address: HOST:PORT, ``auto`` for the one that runs on this machine, or what else Ray takes.
        options: of ``ray.init``.

    Raises:
        ImportError: Ray is not installed.
        OSError: no cluster answers there.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # else a warning about what Ray will do one day
    import ray

    try:
        _require_answer(address)
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **options)
    except (OSError, RuntimeError, ValueError) as error:
        raise ConnectionError(_nobody(address, error)) from error
    return ray


def _nobody(address: str, error: Exception) -> str:
    return f"no Ray cluster answers at {address!r} ({error}); start one with `ray start --head` and give its address"


class RayComputation:
    """Computes a round's result as one task, on all processors of the cluster's largest machine."""

    def __init__(self, address: str, compute: Compute) -> None:
        """Make one that is not connected yet.

        Args:
            compute: what a machine of the cluster is to do.
        """
        self._address = address
        self._compute = compute
        self._ray: Any = None

    def __call__(self, blobs: BlobStore, snapshot: RoundSnapshot) -> StoredResult | str:
        """Return what ``compute`` returns there.

        Raises:
            OSError: the cluster is away, or its machine has a full disk or memory; it can be tried again.
            SystemExit: the process there was killed, or its machine was lost. This process is to end with it, so that
                what kills it every time ends the round.
        """
        if self._ray is None or not self._ray.is_initialized():
            self._ray = connect(self._address)
        try:
            machines = [node["Resources"].get("CPU", 0) for node in self._ray.nodes() if node["Alive"]]
            processors = int(max(machines, default=1))
            task = self._ray.remote(num_cpus=processors, max_retries=0)(_on_threads)
            answer: StoredResult | str = self._ray.get(task.remote(processors, self._compute, blobs, snapshot))
        except self._ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, OSError | MemoryError):
                raise OSError(f"{type(error.cause).__name__}: {error.cause}") from error
            raise
        except (self._ray.exceptions.WorkerCrashedError, self._ray.exceptions.OutOfMemoryError) as error:
            raise SystemExit(str(error)) from error
        except self._ray.exceptions.RayError as error:
            self.close()  # the next attempt connects anew
            raise ConnectionError(f"the Ray cluster at {self._address!r} lost the computation ({error})") from error
        return answer

    def close(self) -> None:
        """Leave the cluster."""
        self._ray.shutdown()


def _on_threads(count: int, compute: Compute, blobs: BlobStore, snapshot: RoundSnapshot) -> StoredResult | str:
    use_threads(count)
    return compute(blobs, snapshot)


def _require_answer(address: str) -> None:
    """Check that somebody listens at HOST:PORT, for Ray tries for minutes; other forms of address are Ray's own."""
    host, _, port = address.rpartition(":")
    if host and "/" not in host and port.isdigit():
        socket.create_connection((host, int(port)), _PATIENCE_S).close()
