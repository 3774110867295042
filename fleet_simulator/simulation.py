"""The rounds of a virtual fleet: the aggregator's selection and rules, the devices' local methods, and no HTTP.

A mean is taken in two steps, in the workers over blocks of devices and here over the blocks, so that no process ever
holds more than a block of uploads; the blocks depend on the number of devices alone. Other rules see every upload.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Protocol

import numpy as np

from aggregator_server.aggregation import Updates, aggregate_weights
from aggregator_server.fleet_statistics import DeviceStatistics
from aggregator_server.selection import Candidate, History, select
from aggregator_server.strategies import strategy, unchanged
from edge_client.durable import leftovers, make_folder, write_durably
from edge_client.learning.shared_methods import SHARED_METHODS
from edge_client.learning.user_invariant import label_entropy
from fleet_protocol.bundle import Bundle, read_bundle
from fleet_protocol.messages import Choice
from fleet_simulator.clip_shards import ClipShards, open_shards, write_shards
from fleet_simulator.corpora import read_corpus
from fleet_simulator.errors import CorpusError
from fleet_simulator.experiment import Experiment
from fleet_simulator.faults import taught_labels
from fleet_simulator.ray_workers import RayWorkers
from fleet_simulator.row_file import RowFile
from fleet_simulator.run_folder import State, load_state, save_state
from fleet_simulator.splits import split
from fleet_simulator.virtual_device import Block, Setup, TestRows, device_id, layout_of, next_version
from fleet_simulator.workers import Pool, Task, Workers

_BLOCKS = 64  # of a round, at least; so many workers have something to do
_LARGEST_BLOCK = 64
_TEST_ROWS = 512  # of one task


class Progress(Protocol):
    """Told how a run goes."""

    def begin(self, rounds: int, finished: int) -> None:
        """The first round to be done is ``finished + 1`` of ``rounds``."""

    def devices_done(self, count: int, of: int) -> None:
        """So many devices of the round have been trained."""

    def round_done(self, entry: dict[str, Any], seconds: float) -> None:
        """A round is on the disk."""


@dataclass(frozen=True)
class Result:
    """How a run ended.

    Attributes:
        rounds: one entry for each: ``round``, ``devices``, ``loss`` (the median of the devices' training losses), and
            ``accuracy`` of the global model on the test clips, 0..1, in rounds that were tested.
        seconds: of the rounds that this run itself has done.
        weights: path of the state that holds the global model.
    """

    rounds: list[dict[str, Any]]
    seconds: list[float]
    folder: Path


def run(
    experiment: Experiment, folder: Path, workers: int | None, progress: Progress, cluster: str | None = None
) -> Result:
    """Run an experiment, or what is left of it; the result is the same whatever the number of workers.

    Args:
        experiment: what to do.
        folder: of the run; one that a killed run left is gone on with.
        workers: processes that train devices; None: one for each core.
        progress: told how it goes.
        cluster: address of a Ray cluster to run them on; None: this machine.

    Raises:
        SimulationError: the data, the run's folder or a worker is at fault.
        ProtocolError: a bundle cannot be used.
        AggregationError: the rule cannot combine the uploads.
    """
    make_folder(folder, 0o755)
    for path in leftovers(folder):
        if path.is_file():
            path.unlink()
    simulation = Simulation(experiment, folder)
    seconds: list[float] = []
    progress.begin(experiment.rounds.count, len(simulation.state.rounds))
    with _workers(simulation.setup, workers, cluster) as pool:
        for round_id in range(len(simulation.state.rounds) + 1, experiment.rounds.count + 1):
            start = time.perf_counter()
            entry = simulation.play(round_id, pool, progress)
            seconds.append(time.perf_counter() - start)
            progress.round_done(entry, seconds[-1])
    document = {"rounds": simulation.state.rounds}
    write_durably(folder / "result.json", (json.dumps(document, indent=1, sort_keys=True) + "\n").encode(), 0o644)
    return Result(simulation.state.rounds, seconds, folder)


def _workers(setup: Setup, count: int | None, cluster: str | None) -> Workers | RayWorkers:
    if cluster is None:
        return Workers(setup, count or available_cores())
    return RayWorkers(setup, count, cluster)


class Simulation:
    """A run: its clips, its state, and how a round is played."""

    def __init__(self, experiment: Experiment, folder: Path) -> None:
        """Read the state and the clips, or make them."""
        self.experiment = experiment
        self.folder = folder
        self.plan = experiment.rounds.plan
        self.strategy = strategy(experiment.rounds.strategy)
        self.digest = experiment.digest
        shared = read_bundle(experiment.model.bundle)
        state = load_state(folder, self.digest)
        self.shards = _shards(experiment, folder, shared, self.digest)
        self.state = state or State.first(shared.weights, self.shards.devices)
        self.layout = layout_of(shared.manifest)
        sizes = self.shards.sizes
        self.candidates = [Candidate(device_id(n), int(size)) for n, size in enumerate(sizes) if size]
        if not self.candidates:
            raise CorpusError("no device has any clip; give the data more clips")
        model = experiment.model
        self.setup = Setup(
            model.bundle, model.own, folder, self.plan.local.name, self.plan.aggregation, self.plan.seed,
            experiment.faults,
        )  # fmt: skip
        self._uploads = RowFile(folder / "uploads.f32", self.layout.width)
        self._fleet_model = RowFile(folder / "fleet-model.f32", self.layout.width)
        own_widths = [layout_of(read_bundle(path).manifest).width for path in model.own] or [self.layout.width]
        self._own_models = RowFile(folder / "own-models.f32", max(own_widths))
        self._fleet_model.write(0, self.layout.flatten(self.state.weights))

    def play(self, round_id: int, pool: Pool, progress: Progress) -> dict[str, Any]:
        """Play one round and put the state after it on the disk; return the round's entry."""
        devices = self._select(round_id)
        trained = 0

        def done(task: Task) -> None:
            nonlocal trained
            trained += len(task.devices) if isinstance(task, Block) else 0
            progress.devices_done(trained, len(devices))

        blocks = self._blocks(round_id, devices)
        losses = [loss for part in pool.run(blocks, done) for loss in part]
        self._aggregate(blocks, devices)
        entry: dict[str, Any] = {"round": round_id, "devices": len(devices), "loss": median(losses)}
        rounds = self.experiment.rounds
        if rounds.evaluate_every and (round_id % rounds.evaluate_every == 0 or round_id == rounds.count):
            entry["accuracy"] = self._accuracy(round_id, pool)
        self.state.rounds.append(entry)
        save_state(self.folder, self.state, self.digest)
        return entry

    def _select(self, round_id: int) -> list[int]:
        losses = tuple(float(entry["loss"]) for entry in self.state.rounds)
        chosen = select(self.candidates, self.plan.selection, History(len(losses), losses), (self.plan.seed, round_id))
        return [int(name, 16) for name in chosen]

    def _local(self) -> Choice:
        """Return the plan's local part, completed from what the devices told with their uploads so far."""
        if self.strategy.prepare is unchanged:
            return self.plan.local
        told = []
        for number in np.flatnonzero(self.state.uploaded):
            labels = self.shards.labels(self.shards.rows(int(number)))
            told.append(DeviceStatistics(device_id(int(number)), len(labels), label_entropy(labels)))
        return self.strategy.prepare(self.plan.local, tuple(told), len(self.shards.names))

    def _blocks(self, round_id: int, devices: Sequence[int]) -> list[Block]:
        size = min(_LARGEST_BLOCK, math.ceil(len(devices) / _BLOCKS))
        settings = self._local().settings
        blocks = []
        for number, start in enumerate(range(0, len(devices), size)):
            members = tuple(devices[start : start + size])
            versions = tuple(int(version) for version in self.state.own_versions[list(members)])
            blocks.append(Block(round_id, number if self.setup.averages else start, members, versions, settings))
        return blocks

    def _aggregate(self, blocks: Sequence[Block], devices: Sequence[int]) -> None:
        """Combine the uploads; the state becomes that after the round."""
        choice, state = self.plan.aggregation, self.state
        sizes = self.shards.sizes
        if self.setup.averages:
            names = [device_id(block.devices[0]) for block in blocks]
            by_size = bool(choice.settings["by_size"])
            weights = [sum(sizes[list(b.devices)]) if by_size else len(b.devices) for b in blocks]
            choice = Choice(choice.name, choice.settings | {"by_size": True, "clip_norm": 0.0})  # done in the blocks
        else:
            names, weights = [device_id(device) for device in devices], [int(sizes[device]) for device in devices]
        updates = Updates(self.layout, tuple(names), self._uploads.read(0, len(names)))
        state.weights, state.server, _ = aggregate_weights(
            choice, updates, np.array(weights, np.float64), state.weights, state.server
        )
        self._fleet_model.write(0, self.layout.flatten(state.weights))
        state.uploaded[list(devices)] = True
        if SHARED_METHODS[self.plan.local.name].keeps_own:
            self._own_models.flush()
            for device in devices:
                state.own_versions[device] = next_version(int(state.own_versions[device]))

    def _accuracy(self, rounds: int, pool: Pool) -> float:
        test = self.shards.test
        tasks = [
            TestRows(rounds, slice(start, min(start + _TEST_ROWS, test.stop)))
            for start in range(test.start, test.stop, _TEST_ROWS)
        ]
        return float(sum(pool.run(tasks)) / (test.stop - test.start))


def available_cores() -> int:
    """Return the cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _shards(experiment: Experiment, folder: Path, shared: Bundle, digest: str) -> ClipShards:
    found = open_shards(folder / "data", digest)
    if found is None:
        corpus = read_corpus(experiment.data, shared.manifest, experiment.rounds.seed)
        how: dict[str, Any] = {
            "faults": experiment.faults, "classes": len(corpus.names), "seed": experiment.rounds.seed
        }  # fmt: skip
        found = write_shards(
            folder / "data", corpus, split(corpus, experiment), digest,
            lambda labels, owned: taught_labels(labels, owned, **how),
        )  # fmt: skip
    return found
