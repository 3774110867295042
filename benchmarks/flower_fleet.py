"""A fleet of trivial devices in Flower's simulation engine on Ray, beside which `benchmarks.simulation` stands.

Every client does what a virtual device does: it takes the weights, one step on one batch by the same runtime, and gives
the weights back; FedAvg combines them. Neither Flower nor Ray tells anybody that they were used.
"""

from __future__ import annotations

import os
import statistics
import time
from functools import cache
from pathlib import Path
from typing import Any

os.environ.update(FLWR_TELEMETRY_ENABLED="0", RAY_USAGE_STATS_ENABLED="0", OPENBLAS_NUM_THREADS="1")

import numpy as np
from flwr.client import Client, ClientApp, NumPyClient
from flwr.common import Context, ndarrays_to_parameters
from flwr.server import ServerApp, ServerAppComponents, ServerConfig
from flwr.server.strategy import FedAvg
from flwr.simulation import run_simulation

from benchmarks.command import BenchmarkError
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.bundle.bundle_file import read_bundle

CLASSES = 10
_runtime = cache(lambda bundle: ModelRuntime(read_bundle(Path(bundle))))  # of a process, for its clients in turn


class OneBatch(NumPyClient):
    """A device with one batch of made-up clips."""

    def __init__(self, bundle: str, number: int) -> None:
        self._model, rng = _runtime(bundle), np.random.default_rng(number)
        manifest = self._model.manifest
        self._x = rng.standard_normal((manifest.batch, *manifest.input_shape), np.float32)
        self._targets = np.eye(manifest.capacity, dtype=np.float32)[rng.integers(CLASSES, size=manifest.batch)]
        self._mask = (np.arange(manifest.capacity) < CLASSES).astype(np.float32)

    def fit(self, parameters: list[Any], _config: dict[str, Any]) -> tuple[list[Any], int, dict[str, Any]]:
        """Take a step from the fleet's weights."""
        self._model.set_weights(dict(zip(self._model.manifest.weight_shapes, parameters, strict=True)))
        loss = self._model.train_step(self._x, self._targets, self._mask, learning_rate=0.02)
        return list(self._model.get_weights().values()), len(self._x), {"loss": loss}


class Timed(FedAvg):
    """FedAvg that notes when every round ended."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401  (Flower's)
        super().__init__(**options)
        self.ends: list[float] = []

    def aggregate_fit(self, server_round: int, results: Any, failures: Any) -> Any:  # noqa: ANN401  (Flower's)
        """Note the end of a round."""
        if failures:
            raise BenchmarkError(f"{len(failures)} of Flower's clients failed; the first: {failures[0]}")
        combined = super().aggregate_fit(server_round, results, failures)
        self.ends.append(time.perf_counter())
        return combined


def measure(bundle: str, devices: int, rounds: int, workers: int) -> float:
    """Run a fleet; return the median seconds of the rounds after the first."""
    opened = read_bundle(Path(bundle))
    start = ndarrays_to_parameters([opened.weights[name] for name in opened.manifest.weight_shapes])
    strategy = Timed(
        fraction_evaluate=0.0, initial_parameters=start, min_fit_clients=devices, min_available_clients=devices
    )

    def server(_: Context) -> ServerAppComponents:
        return ServerAppComponents(strategy=strategy, config=ServerConfig(num_rounds=rounds))

    def client(context: Context) -> Client:
        return OneBatch(bundle, int(context.node_config["partition-id"])).to_client()

    one: Any = {"client_resources": {"num_cpus": 1}, "init_args": {"num_cpus": workers, "include_dashboard": False}}
    run_simulation(ServerApp(server_fn=server), ClientApp(client_fn=client), devices, backend_config=one)
    return float(statistics.median(np.diff(strategy.ends)))
