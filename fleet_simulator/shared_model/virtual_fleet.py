"""A virtual fleet round by round: who takes part, what they upload, and what that is combined to.

The strategy's own functions check and combine the uploads. Where that is a mean, they get the means of blocks of
devices, which workers take, so that no process holds more than a block of uploads; the blocks depend on the number of
devices alone. Everything else gets every device's upload.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from aggregator_server.aggregation.contract import Contribution, RoundInputs, SharedModel, UploadTerms
from aggregator_server.fleet.reputation import suspicion_after
from aggregator_server.limits import SUSPICION
from aggregator_server.selection.contract import Candidate, History
from aggregator_server.selection.draw import select
from aggregator_server.strategies.registry import strategy
from aggregator_server.strategies.statistics import DeviceStatistics
from aggregator_server.strategies.strategy import unchanged
from aggregator_server.strategies.weight_sharing import PREFIX
from edge_client.learning.methods.registry import shared_model_method
from fleet_protocol.adaptive_training import label_entropy
from fleet_protocol.arrays import Ints
from fleet_protocol.bundle import Manifest
from fleet_protocol.messages import Choice
from fleet_protocol.public_set import PublicSet
from fleet_protocol.tensors import Arrays
from fleet_simulator.errors import CorpusError, SimulationError
from fleet_simulator.experiment.faults import accepted, taught_labels
from fleet_simulator.experiment.sections import Experiment
from fleet_simulator.experiment.upload_memory import averages_blocks
from fleet_simulator.partition.clip_shards import ClipShards, deal, open_shards, write_shards
from fleet_simulator.partition.held_out import hold_out
from fleet_simulator.partition.splits import split
from fleet_simulator.runs.inputs import Inputs
from fleet_simulator.runs.progress import Progress
from fleet_simulator.runs.row_file import RowFile
from fleet_simulator.shared_model.device_time import DeviceTime
from fleet_simulator.shared_model.metrics import metrics
from fleet_simulator.shared_model.state import State, load_state, save_state
from fleet_simulator.shared_model.tasks import (
    Block,
    Setup,
    Task,
    TestRows,
    Trained,
    classes_of,
    device_id,
    next_version,
)
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
        self.manifest = shared.manifest
        self.public_set = _public_set(self.shards, shared.manifest)
        self.setup = Setup(
            bundle=model.bundle,
            own=model.own,
            folder=folder,
            plan=self.plan,
            averages=averages_blocks(experiment.rounds),
            public_set=hashlib.sha256(self.public_set.pack()).hexdigest(),
            faults=experiment.faults,
            baselines=experiment.baselines,
            plugins=experiment.plugins,
        )
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
        state.weights, state.server, dropped = self.aggregate(blocks, trained, state.weights, state.server)
        quarantined = []
        if self.experiment.rounds.quarantine:
            for device in devices:
                state.suspicion[device] = suspicion_after(int(state.suspicion[device]), dropped.get(device_id(device)))
                if state.suspicion[device] >= SUSPICION:
                    quarantined.append(device)
        self.models.write(0, self.layout.flatten(state.weights))
        state.uploaded[devices] = True
        if shared_model_method(self.plan.local.name).keeps_own:
            self._own_models.flush()
            for device in devices:
                state.own_versions[device] = next_version(int(state.own_versions[device]))
        entry: dict[str, Any] = {"round": round_id, "devices": len(devices)}
        entry["loss"] = median(loss for block in trained for loss in block.losses)
        entry |= {"quarantined": quarantined} if quarantined else {}
        entry |= self.time.of_round(devices, [samples for block in trained for samples in block.samples])
        state.rounds.append(entry | self._tested(round_id, pool))
        save_state(self.folder, state, self.digest)
        return state.rounds[-1]

    def blocks(self, round_id: int, devices: Sequence[int], model: int = 0) -> list[Block]:
        """Cut a round's devices into blocks that depend on nothing else; ``model``: row of what they start from."""
        size = min(_LARGEST_BLOCK, math.ceil(len(devices) / _BLOCKS))
        settings = self.local().settings
        blocks = []
        for number, start in enumerate(range(0, len(devices), size)):
            members = tuple(devices[start : start + size])
            versions = tuple(int(version) for version in self.state.own_versions[list(members)])
            place = number if self.setup.averages else start
            blocks.append(Block(round_id, place, members, versions, settings, model))
        return blocks

    def aggregate(
        self, blocks: Sequence[Block], trained: Sequence[Trained], weights: Arrays, server: Arrays
    ) -> tuple[Arrays, Arrays, dict[str, dict[str, Any]]]:
        """Let the strategy check and combine the uploads of devices that started from ``weights``.

        Returns:
            The new weights; what the aggregation keeps for the next round; and by device why an upload did not count,
            as the round's details have it, empty where it was refused.

        Raises:
            AggregatorError: the strategy refuses an honest fleet's upload, or cannot combine them.
            SimulationError: the strategy refuses all uploads, or made no weights of them.
        """
        plan, public_set = self.plan, self.public_set
        if self.setup.averages:  # the blocks' sizes are their weights, and they are clipped already
            settings = plan.aggregation.settings | {"by_size": True, "clip_norm": 0.0}
            plan = replace(plan, aggregation=Choice(plan.aggregation.name, settings))
        terms = UploadTerms(
            self.setup.public_set, len(public_set.labels), public_set.class_ids, public_set.settings, self.manifest
        )
        contributions = [
            Contribution(update, partial(self._read, block.place + row))
            for block, part in zip(blocks, trained, strict=True)
            for row, update in enumerate(part.updates)
        ]
        contributions = accepted(self.strategy, terms, contributions, attackers=self.setup.faults.attackers > 0)
        if not contributions:
            raise SimulationError(f"round {blocks[0].round_id}: the aggregator refuses the uploads of all devices")
        consensus = np.zeros((len(public_set.labels), len(public_set.classes)), np.float32)
        model = SharedModel(self.manifest, weights, server)
        round_id = blocks[0].round_id
        result = self.strategy.aggregate(
            RoundInputs(
                round_id=round_id,
                plan=plan,
                public_set=public_set,
                consensus=consensus,
                contributions=tuple(contributions),
                model=model,
                has_consensus=False,
            )
        )
        if result.weights is None:
            raise SimulationError(
                f"round {round_id}: the strategy {self.strategy.name!r} made no weights of {len(contributions)} "
                "uploads; its aggregate must return the shared model's new weights"
            )
        taken = {one.update.device_id for one in contributions}
        refused: dict[str, dict[str, Any]] = {
            update.device_id: {} for part in trained for update in part.updates if update.device_id not in taken
        }
        return result.weights, result.state, refused | result.details.get("aggregation", {}).get("screened", {})

    def local(self) -> Choice:
        """Return the plan's local part, completed from what the devices reported with their uploads so far."""
        if self.strategy.prepare is unchanged:
            return self.plan.local
        reported = []
        for number in np.flatnonzero(self.state.uploaded):
            labels = self.shards.labels(self.shards.rows(int(number)))
            reported.append(DeviceStatistics(device_id(int(number)), len(labels), label_entropy(labels)))
        return self.strategy.prepare(self.plan.local, tuple(reported), len(self.shards.names))

    def _read(self, row: int) -> Arrays:
        arrays = self.layout.split(self._uploads.read(row, 1)[0])
        return {PREFIX + name: array for name, array in arrays.items()}

    def _train(self, blocks: Sequence[Block], pool: Pool, progress: Progress) -> list[Trained]:
        done, of = 0, sum(len(block.devices) for block in blocks)

        def tell(task: Task) -> None:
            nonlocal done
            done += len(task.devices) if isinstance(task, Block) else 0
            progress.devices_done(done, of)

        return pool.run(blocks, tell)

    def _select(self, round_id: int) -> list[int]:
        losses = tuple(float(entry["loss"]) for entry in self.state.rounds)
        trusted = [one for one in self.candidates if self.state.suspicion[int(one.device_id, 16)] < SUSPICION]
        if not trusted:
            raise SimulationError(f"round {round_id}: all devices are in quarantine; set rounds.quarantine to false")
        chosen = select(trusted, self.plan.selection, History(len(losses), losses), (self.plan.seed, round_id))
        return [int(name, 16) for name in chosen]

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


def _public_set(shards: ClipShards, manifest: Manifest) -> PublicSet:
    """Return the public clips as the aggregator would have them, not normalised."""
    x, settings = shards.features(shards.public), manifest.feature_settings
    mean, std = np.asarray(manifest.mean, np.float32), np.asarray(manifest.std, np.float32)
    features = np.asarray(x * std + mean, np.float32)
    labels = shards.labels(shards.public)
    return PublicSet(settings, classes_of(shards.names), features, labels, np.zeros(len(labels), np.bool_))


def _shards(experiment: Experiment, folder: Path, inputs: Inputs, digest: str, in_memory: bool) -> ClipShards:
    if not in_memory and (found := open_shards(folder / "data", digest)):
        return found
    seed, faults, fleet = experiment.rounds.seed, experiment.faults, experiment.fleet
    corpus = inputs.corpus(experiment.data, inputs.bundle(experiment.model.bundle).manifest, seed)
    parts, classes = split(corpus, experiment), len(corpus.names)
    owned = hold_out(parts.devices, fleet.held_out, seed, corpus.windows)
    shards = deal(
        corpus,
        owned,
        parts.public,
        parts.test,
        lambda labels, rows: taught_labels(labels, rows, faults, classes, seed),
    )
    if not in_memory:
        write_shards(folder / "data", shards, digest)
        return open_shards(folder / "data", digest) or shards
    return shards
