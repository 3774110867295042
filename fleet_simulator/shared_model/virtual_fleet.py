"""A virtual fleet round by round: who takes part, what they upload, and what that is combined to.

A mean is taken in two steps, in the workers over blocks of devices and here over the blocks, so that no process ever
holds more than a block of uploads; the blocks depend on the number of devices alone. Other rules see every upload.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from aggregator_server.aggregation import Updates, aggregate_weights
from aggregator_server.selection.contract import Candidate, History
from aggregator_server.selection.draw import select
from aggregator_server.strategies.registry import strategy
from aggregator_server.strategies.statistics import DeviceStatistics
from aggregator_server.strategies.strategy import unchanged
from edge_client.learning.methods.registry import shared_model_method
from fleet_protocol.adaptive_training import label_entropy
from fleet_protocol.arrays import Ints
from fleet_protocol.messages import Choice
from fleet_protocol.tensors import Arrays
from fleet_simulator.errors import CorpusError
from fleet_simulator.experiment.faults import taught_labels
from fleet_simulator.experiment.sections import Experiment
from fleet_simulator.partition.clip_shards import ClipShards, deal, open_shards, write_shards
from fleet_simulator.partition.held_out import hold_out
from fleet_simulator.partition.splits import split
from fleet_simulator.runs.inputs import Inputs
from fleet_simulator.runs.progress import Progress
from fleet_simulator.runs.row_file import RowFile
from fleet_simulator.runs.run_folder import State, load_state, save_state
from fleet_simulator.shared_model.device_time import DeviceTime
from fleet_simulator.shared_model.metrics import metrics
from fleet_simulator.shared_model.tasks import Block, Setup, Task, TestRows, Trained, device_id, next_version
from fleet_simulator.shared_model.virtual_device import layout_of
from fleet_simulator.shared_model.workers import Pool

_BLOCKS = 64  # of a round, at least; so many workers have something to do
_LARGEST_BLOCK = 64
_TEST_ROWS = 512  # of one task


class VirtualFleet:
    """A run: its clips, its state, and how a round is played."""

    def __init__(
        self, experiment: Experiment, folder: Path, inputs: Inputs | None = None, *, in_memory: bool = False
    ) -> None:
        """Read the state and the clips, or make them; ``in_memory``: no other process reads the clips."""
        inputs = inputs or Inputs()
        self.experiment = experiment
        self.folder = folder
        self.plan = experiment.rounds.plan
        self.strategy = strategy(experiment.rounds.strategy)
        self.digest = experiment.digest
        model, shared = experiment.model, inputs.bundle(experiment.model.bundle)
        state = load_state(folder, self.digest)
        self.shards = _shards(experiment, folder, inputs, self.digest, in_memory)
        self.state = state or State.first(shared.weights, self.shards.devices)
        self.layout = layout_of(shared.manifest)
        sizes = self.shards.sizes
        self.candidates = [Candidate(device_id(n), int(size)) for n, size in enumerate(sizes) if size]
        if not self.candidates:
            raise CorpusError("no device has any clip; give the data more clips")
        self.setup = Setup(
            model.bundle, model.own, folder, self.plan.local.name, self.plan.aggregation, self.plan.seed,
            experiment.faults,
        )  # fmt: skip
        self.time = DeviceTime.of(experiment.fleet, self.layout.width, self.plan.seed)
        self._uploads = RowFile(folder / "uploads.f32", self.layout.width)
        self.models = RowFile(folder / "models.f32", self.layout.width)
        own_widths = [layout_of(inputs.bundle(path).manifest).width for path in model.own] or [self.layout.width]
        self._own_models = RowFile(folder / "own-models.f32", max(own_widths))
        self.models.write(0, self.layout.flatten(self.state.weights))

    def play(self, round_id: int, pool: Pool, progress: Progress) -> dict[str, Any]:
        """Play one round and put the state after it on the disk; return the round's entry."""
        state, devices = self.state, self._select(round_id)
        blocks = self.blocks(round_id, devices)
        trained = self._train(blocks, pool, progress)
        state.weights, state.server = self.aggregate(blocks, devices, state.weights, state.server)
        self.models.write(0, self.layout.flatten(state.weights))
        state.uploaded[devices] = True
        if shared_model_method(self.plan.local.name).keeps_own:
            self._own_models.flush()
            for device in devices:
                state.own_versions[device] = next_version(int(state.own_versions[device]))
        entry: dict[str, Any] = {"round": round_id, "devices": len(devices)}
        entry["loss"] = median(one.loss for one in trained)
        entry |= self.time.of_round(devices, [one.samples for one in trained])
        state.rounds.append(entry | self._tested(round_id, pool))
        save_state(self.folder, state, self.digest)
        return state.rounds[-1]

    def blocks(self, round_id: int, devices: Sequence[int], model: int = 0) -> list[Block]:
        """Cut a round's devices into blocks that depend on nothing else; ``model``: row of what they start from."""
        size = min(_LARGEST_BLOCK, math.ceil(len(devices) / _BLOCKS))
        settings = self._local().settings
        blocks = []
        for number, start in enumerate(range(0, len(devices), size)):
            members = tuple(devices[start : start + size])
            versions = tuple(int(version) for version in self.state.own_versions[list(members)])
            place = number if self.setup.averages else start
            blocks.append(Block(round_id, place, members, versions, settings, model))
        return blocks

    def aggregate(
        self, blocks: Sequence[Block], devices: Sequence[int], weights: Arrays, server: Arrays
    ) -> tuple[Arrays, Arrays]:
        """Combine the uploads of devices that started from ``weights``; return new weights and the server's state."""
        choice, sizes = self.plan.aggregation, self.shards.sizes
        if self.setup.averages:
            names = [device_id(block.devices[0]) for block in blocks]
            by_size = bool(choice.settings["by_size"])
            counts = [int(sum(sizes[list(b.devices)])) if by_size else len(b.devices) for b in blocks]
            choice = Choice(choice.name, choice.settings | {"by_size": True, "clip_norm": 0.0})  # done in the blocks
        else:
            names, counts = [device_id(device) for device in devices], [int(sizes[device]) for device in devices]
        updates = Updates(self.layout, tuple(names), self._uploads.read(0, len(names)))
        combined, state, _ = aggregate_weights(choice, updates, np.array(counts, np.float64), weights, server)
        return combined, state

    def _train(self, blocks: Sequence[Block], pool: Pool, progress: Progress) -> list[Trained]:
        done, of = 0, sum(len(block.devices) for block in blocks)

        def tell(task: Task) -> None:
            nonlocal done
            done += len(task.devices) if isinstance(task, Block) else 0
            progress.devices_done(done, of)

        return [one for part in pool.run(blocks, tell) for one in part]

    def _select(self, round_id: int) -> list[int]:
        losses = tuple(float(entry["loss"]) for entry in self.state.rounds)
        chosen = select(self.candidates, self.plan.selection, History(len(losses), losses), (self.plan.seed, round_id))
        return [int(name, 16) for name in chosen]

    def _local(self) -> Choice:
        """Return the plan's local part, completed from what the devices reported with their uploads so far."""
        if self.strategy.prepare is unchanged:
            return self.plan.local
        reported = []
        for number in np.flatnonzero(self.state.uploaded):
            labels = self.shards.labels(self.shards.rows(int(number)))
            reported.append(DeviceStatistics(device_id(int(number)), len(labels), label_entropy(labels)))
        return self.strategy.prepare(self.plan.local, tuple(reported), len(self.shards.names))

    def _tested(self, round_id: int, pool: Pool) -> dict[str, Any]:
        """Return what the test clips say of the global model, in rounds that are tested."""
        every, last = self.experiment.rounds.evaluate_every, round_id == self.experiment.rounds.count
        if not every or (round_id % every and not last):
            return {}
        test = self.shards.test
        starts = range(test.start, test.stop, _TEST_ROWS)
        tasks = [TestRows(round_id, slice(start, min(start + _TEST_ROWS, test.stop))) for start in starts]
        confusion: Ints = np.sum(pool.run(tasks), axis=0)
        return metrics(confusion) | ({"confusion": confusion.tolist()} if last else {})


def _shards(experiment: Experiment, folder: Path, inputs: Inputs, digest: str, in_memory: bool) -> ClipShards:
    if not in_memory and (found := open_shards(folder / "data", digest)):
        return found
    seed, faults, fleet = experiment.rounds.seed, experiment.faults, experiment.fleet
    corpus = inputs.corpus(experiment.data, inputs.bundle(experiment.model.bundle).manifest, seed)
    parts, classes = split(corpus, experiment), len(corpus.names)
    owned = hold_out(parts.devices, fleet.held_out, seed, corpus.windows)
    shards = deal(
        corpus, owned, parts.public, parts.test,
        lambda labels, rows: taught_labels(labels, rows, faults, classes, seed),
    )  # fmt: skip
    if not in_memory:
        write_shards(folder / "data", shards, digest)
        return open_shards(folder / "data", digest) or shards
    return shards
