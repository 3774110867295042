"""A fleet of trivial devices in Flower's simulation engine on Ray, for comparison.

Every client does what a virtual device does: it takes the weights, one step on one batch with the same runtime, and
gives the weights back; FedAvg combines them. Neither Flower nor Ray tells anybody that they were used.
"""

from __future__ import annotations

import os
import statistics
import time
from functools import cache
from pathlib import Path
from typing import Any

os.environ.update(
    FLWR_TELEMETRY_ENABLED="0",
    RAY_USAGE_STATS_ENABLED="0",
    OPENBLAS_NUM_THREADS="1",
    RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER="0",  # Ray's name for: listen on loopback alone
)

import numpy as np
from flwr.client import Client, ClientApp, NumPyClient
from flwr.common import Context, FitIns, FitRes, Parameters, Scalar, ndarrays_to_parameters
from flwr.server import ClientManager, ServerApp, ServerAppComponents, ServerConfig
from flwr.server.client_proxy import ClientProxy
from flwr.server.strategy import FedAvg
from flwr.simulation import run_simulation

from benchmarks.command import BenchmarkError
from benchmarks.processes import Usage
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.bundle import read_bundle

CLASSES = 10
Weights = list[Any]


@cache
def model(bundle: str) -> ModelRuntime:
    """Return the runtime of this process, which all of its clients use one after another."""
    return ModelRuntime(read_bundle(Path(bundle)))


class OneBatch(NumPyClient):
    """A device with one batch of made-up clips."""

    def __init__(self, bundle: str, number: int) -> None:
        self._model = model(bundle)
        manifest, rng = self._model.manifest, np.random.default_rng(number)
        self._x = rng.standard_normal((manifest.batch, *manifest.input_shape), np.float32)
        self._targets = np.eye(manifest.capacity, dtype=np.float32)[rng.integers(CLASSES, size=manifest.batch)]
        self._mask = (np.arange(manifest.capacity) < CLASSES).astype(np.float32)

    def fit(self, parameters: Weights, _config: dict[str, Any]) -> tuple[Weights, int, dict[str, Any]]:
        """Take a step from the fleet's weights."""
        names = self._model.manifest.weight_shapes
        self._model.set_weights(dict(zip(names, parameters, strict=True)))
        loss = self._model.train_step(self._x, self._targets, self._mask, learning_rate=0.02)
        return list(self._model.get_weights().values()), len(self._x), {"loss": loss}


class Timed(FedAvg):
    """FedAvg that notes how long every round took, and what the processes have used until then."""

    def __init__(self, bundle: Path, devices: int) -> None:
        opened = read_bundle(bundle)
        weights = ndarrays_to_parameters([opened.weights[name] for name in opened.manifest.weight_shapes])
        super().__init__(
            fraction_evaluate=0.0, min_fit_clients=devices, min_available_clients=devices, initial_parameters=weights
        )
        self.usage = Usage()
        self.seconds: list[float] = []
        self.cpu_s: list[float] = []
        self._begun = 0.0

    def configure_fit(
        self, server_round: int, parameters: Parameters, client_manager: ClientManager
    ) -> list[tuple[ClientProxy, FitIns]]:
        """Note the beginning of a round."""
        self._begun = time.perf_counter()
        return super().configure_fit(server_round, parameters, client_manager)

    def aggregate_fit(
        self,
        server_round: int,
        results: list[tuple[ClientProxy, FitRes]],
        failures: list[tuple[ClientProxy, FitRes] | BaseException],
    ) -> tuple[Parameters | None, dict[str, Scalar]]:
        """Note the end of a round."""
        if failures:
            raise BenchmarkError(f"{len(failures)} of Flower's clients failed; the first: {failures[0]}")
        combined = super().aggregate_fit(server_round, results, failures)
        self.seconds.append(time.perf_counter() - self._begun)
        self.cpu_s.append(self.usage.look())
        return combined


def measure(bundle: Path, devices: int, rounds: int, workers: int) -> list[float]:
    """Run a fleet; return [seconds per round, MB, processor s a round]."""
    strategy = Timed(bundle, devices)

    def server(_: Context) -> ServerAppComponents:
        return ServerAppComponents(strategy=strategy, config=ServerConfig(num_rounds=rounds))

    def client(context: Context) -> Client:
        return OneBatch(str(bundle), int(context.node_config["partition-id"])).to_client()

    run_simulation(
        ServerApp(server_fn=server),
        ClientApp(client_fn=client),
        devices,
        backend_config={
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
            "init_args": {"num_cpus": workers, "include_dashboard": False},
        },
    )
    cpu_s = (strategy.cpu_s[-1] - strategy.cpu_s[0]) / (rounds - 1)
    return [statistics.median(strategy.seconds[1:]), strategy.usage.peak_mb, cpu_s]
