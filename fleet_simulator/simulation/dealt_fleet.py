"""The devices of an experiment with ``[fleet]``: clips of a corpus are dealt to them, and workers do their part.

Where the strategy makes a mean of uploads, the aggregator gets the means of blocks of devices, which workers take, so
that no process holds more than a block of uploads; the blocks depend on the number of devices alone. Everything else
gets every device's upload.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from aggregator_server.aggregation.contract import Contribution, RoundResult
from aggregator_server.strategies.strategy import DeviceStatistics
from aggregator_server.strategies.weight_sharing import PREFIX
from edge_client.learning.methods.local_method import LocalMethod
from edge_client.learning.personalisation import personalisations
from fleet_protocol.ground.atomic_files import write_durably
from fleet_protocol.messages.public_set import pack_consensus
from fleet_protocol.messages.rest import Work
from fleet_protocol.methods.clip_utility import label_entropy
from fleet_protocol.methods.group_balanced import Schedule
from fleet_protocol.numbers.arrays import Ints
from fleet_protocol.numbers.tensors import Arrays
from fleet_simulator.errors import CorpusError
from fleet_simulator.experiment.faults import taught_labels
from fleet_simulator.experiment.local_kinds import averages_blocks, is_scores, method_of
from fleet_simulator.experiment.sections import Experiment
from fleet_simulator.partition.clip_shards import ClipShards, deal, open_shards, write_shards
from fleet_simulator.partition.splits import hold_out, split
from fleet_simulator.runs.inputs import Inputs
from fleet_simulator.runs.run_folder import RowFile
from fleet_simulator.simulation import tasks
from fleet_simulator.simulation.aggregator import FleetState, Uploads
from fleet_simulator.simulation.device_models import CONSENSUS, PROTOTYPES, layout_of, public_set_of
from fleet_simulator.simulation.federation import Devices, Federation, State
from fleet_simulator.simulation.metrics import metrics
from fleet_simulator.simulation.workers import Pool

_BLOCKS = 64  # of a round, at least; so many workers have something to do
_LARGEST_BLOCK = 64
_TEST_ROWS = 512  # of one task


class DealtFleet(Devices):
    """Virtual devices."""

    def __init__(
        self, experiment: Experiment, folder: Path, inputs: Inputs | None = None, *, in_memory: bool = False
    ) -> None:
        """Read the clips, or deal them; ``in_memory``: no other process reads them."""
        inputs = inputs or Inputs()
        self.experiment = experiment
        self.pool: Pool
        shared = inputs.bundle(experiment.model.bundle)
        self._folder = folder
        self.shards = _shards(experiment, folder, inputs, in_memory)
        self.first = FleetState(public_set_of(self.shards, shared.manifest), shared.weights)
        self.manifest, self.clips = shared.manifest, self.shards.sizes
        self.layout = layout_of(shared.manifest)
        if not self.shards.sizes.any():
            raise CorpusError("no device has any clip; give the data more clips")
        self.setup = tasks.Setup(experiment, folder, averages_blocks(experiment))
        self._uploads = RowFile(folder / "uploads.f32", self.layout.width)
        # Weights that devices start from: those of the fleet, then those of its groups.
        self.models = RowFile(folder / "models.f32", self.layout.width)
        own = [inputs.bundle(path).manifest for path in self.setup.own]
        self._own_models = RowFile(folder / "own-models.f32", max(layout_of(one).width for one in own))
        self.own_versions = np.full(self.shards.devices, tasks.NO_OWN, np.uint8)  # see Block
        self._samples = 0

    def restore(self, state: State) -> None:
        """Take up where a state was saved."""
        super().restore(state)
        self.own_versions = state.devices.get("own_versions", self.own_versions).copy()
        self.models.write(0, self.layout.flatten(state.fleet.weights))
        self._send()

    def kept(self) -> tuple[Arrays, dict[str, Any]]:
        """Return the places of the devices' own models."""
        return {"own_versions": self.own_versions}, {}

    def statistics(self, devices: Sequence[int]) -> list[DeviceStatistics]:
        """Return what devices report of their clips."""
        slots = [self.shards.labels(self.shards.rows(device)) for device in devices]
        return [
            DeviceStatistics(tasks.device_id(device), len(labels), label_entropy(labels))
            for device, labels in zip(devices, slots, strict=True)
        ]

    def contribute(self, work: Work, devices: Sequence[int]) -> Uploads:
        """Have workers do the part of devices that were asked to contribute."""
        blocks = self.blocks(work, devices)
        trained: list[tasks.Trained] = self.pool.run(blocks)
        self._samples = sum(part.samples for part in trained)
        for one in devices if self._keeps_own(work) else ():
            self.own_versions[one] = tasks.next_version(int(self.own_versions[one]))
        sent = [
            upload for block, part in zip(blocks, trained, strict=True) for upload in self.contributions(block, part)
        ]
        return Uploads(sent, [loss for part in trained for loss in part.losses], averaged=self.setup.averages)

    def blocks(self, work: Work, devices: Sequence[int], model: int = 0) -> list[tasks.Block]:
        """Cut a round's devices into blocks that depend on nothing else; ``model``: row of what they start from."""
        parts = _parts(devices)
        return [
            tasks.Block(
                work, number * (1 if self.setup.averages else len(parts[0])), members, self.versions(members), model
            )
            for number, members in enumerate(parts)
        ]

    def contributions(self, block: tasks.Block, trained: tasks.Trained) -> list[Contribution]:
        """Return a block's uploads as the aggregator reads them."""
        if trained.arrays:
            return [
                Contribution(update, partial(dict, arrays))
                for update, arrays in zip(trained.updates, trained.arrays, strict=True)
            ]
        return [
            Contribution(update, partial(self._read, block.place + row)) for row, update in enumerate(trained.updates)
        ]

    def learn(self, work: Work, result: RoundResult, devices: Sequence[int]) -> dict[str, Any]:
        """Have devices with models of their own learn from the result; return what a round's entry has."""
        shares, scores = result.weights is not None, is_scores(method_of(work.plan.local.name))
        if shares:
            self.models.write(0, self.layout.flatten(self.state.fleet.weights))
        self._send()
        due, last = self.experiment.rounds.is_due(work.round_id), work.round_id == self.experiment.rounds.count
        entry: dict[str, Any] = {"samples": self._samples}
        if scores:
            accuracy = self._learned(work, np.flatnonzero(self.clips > 0).tolist(), set(devices))
            if due and accuracy is not None:
                entry["accuracy"] = accuracy
        if self._keeps_own(work):
            self._own_models.flush()
        return entry | (self._tested(work, last=last) if due and not scores else {})

    def _learned(self, work: Work, devices: Sequence[int], took_part: set[int]) -> float | None:
        """Have devices learn; return the mean accuracy of the fleet's scores on their classes' public clips, 0..1."""
        orders = []
        for members in _parts(devices):
            versions = self.versions(members)
            places = tuple(
                version if device in took_part else tasks.next_version(version)
                for device, version in zip(members, versions, strict=True)
            )
            orders.append(tasks.Learn(work, members, versions, places))
        measured = [one for part in self.pool.run(orders) for one in part]
        for task in orders:
            self.own_versions[list(task.devices)] = task.places
        found = [one["global_accuracy"] for one in measured if "global_accuracy" in one]
        return fmean(found) / 100 if found else None

    def versions(self, devices: Sequence[int]) -> tuple[int, ...]:
        """Return the places of devices' own models."""
        return tuple(int(version) for version in self.own_versions[list(devices)])

    def _keeps_own(self, work: Work) -> bool:
        method = method_of(work.plan.local.name)
        return method.keeps_own if isinstance(method, LocalMethod) else is_scores(method)

    def _send(self) -> None:
        """Put what the aggregator sends along with work where workers find it."""
        fleet = self.state.fleet
        if fleet.consensus is not None:
            data = pack_consensus(fleet.consensus, fleet.public_set.class_ids)
            write_durably(self._folder / CONSENSUS, data)
        if fleet.prototypes is not None:
            write_durably(self._folder / PROTOTYPES, fleet.prototypes.pack())

    def _read(self, row: int) -> Arrays:
        arrays = self.layout.split(self._uploads.read(row, 1)[0])
        return {PREFIX + name: array for name, array in arrays.items()}

    def _tested(self, work: Work, *, last: bool) -> dict[str, Any]:
        """Return what the test clips say of the fleet's model."""
        test = self.shards.test
        starts = range(test.start, test.stop, _TEST_ROWS)
        orders = [tasks.TestRows(work, slice(start, min(start + _TEST_ROWS, test.stop))) for start in starts]
        confusion: Ints = np.sum(self.pool.run(orders), axis=0)
        return metrics(confusion) | ({"confusion": confusion.tolist()} if last else {})


def _parts(devices: Sequence[int], size: int = 0) -> list[tuple[int, ...]]:
    """Cut devices into parts of a size; 0: one that depends on their number alone."""
    size = size or max(1, min(_LARGEST_BLOCK, math.ceil(len(devices) / _BLOCKS)))
    return [tuple(devices[start : start + size]) for start in range(0, len(devices), size)]


def _shards(experiment: Experiment, folder: Path, inputs: Inputs, in_memory: bool) -> ClipShards:
    digest = experiment.digest
    if not in_memory and (found := open_shards(folder / "data", digest)):
        return found
    seed, faults, fleet = experiment.rounds.seed, experiment.faults, experiment.fleet
    corpus = inputs.corpus(experiment.data, inputs.bundle(experiment.model.bundle).manifest, seed)
    parts, classes = split(corpus, experiment), len(corpus.names)
    owned = hold_out(parts.devices, fleet.held_out, seed, corpus.windows)
    shards = deal(
        corpus, owned, parts.public, parts.test, lambda labels, rows: taught_labels(labels, rows, faults, classes, seed)
    )
    if not in_memory:
        write_shards(folder / "data", shards, digest)
        return open_shards(folder / "data", digest) or shards
    return shards


_DEVICES = 16  # of one task


def evaluate_devices(federation: Federation) -> list[dict[str, Any]]:
    """Return an entry for each device that has clips, in the order of their numbers; none where none are held out.

    After the last round groups train and devices fine-tune, by the same code as for a real fleet (Xu et al. 2025,
    algorithm 1).
    """
    fleet = federation.devices
    if not isinstance(fleet, DealtFleet) or not fleet.experiment.fleet.held_out:
        return []
    experiment, members = fleet.experiment, federation.members
    how, rounds = experiment.personal, experiment.rounds.count
    work = federation.opened(rounds)
    making = personalisations()[how.name].groups
    if making is not None:
        planned = making({tasks.device_id(one): int(fleet.clips[one]) for one in members}, how.settings)
        rounds += _train_groups(federation, fleet, planned)
        groups = {index + 1: [int(one, 16) for one in group] for index, group in enumerate(planned.groups)}
    else:
        groups = {0: members}
    next_round = federation.opened(rounds + 1) if experiment.fleet.local_models else None
    orders = [
        tasks.Evaluate(rounds, work, some, model, how, fleet.versions(some), next_round)
        for model, group in groups.items()
        for some in _parts(group, _DEVICES)
    ]
    entries = [entry for part in fleet.pool.run(orders) for entry in part]
    of_device = {device: model - 1 for model, group in groups.items() for device in group if model}
    for entry in entries:
        entry |= {key: None for key, value in entry.items() if isinstance(value, float) and math.isnan(value)}
        entry |= {"group": of_device[entry["device"]]} if of_device else {}
    return sorted(entries, key=lambda entry: int(entry["device"]))


def _train_groups(federation: Federation, fleet: DealtFleet, planned: Schedule) -> int:
    """Let every group go on from the fleet's model among itself; return how many rounds that took."""
    state, layout = federation.state.fleet, fleet.layout
    start = (state.weights, state.kept)
    present = dict.fromkeys(range(len(planned.groups)), start)
    for index in present:
        fleet.models.write(1 + index, layout.flatten(state.weights))
    for step, index in enumerate(planned.sequence):
        devices = [int(member, 16) for member in planned.groups[index]]
        work = federation.opened(federation.experiment.rounds.count + 1 + step)
        blocks = fleet.blocks(work, devices, 1 + index)
        trained = fleet.pool.run(blocks)
        sent = [one for block, part in zip(blocks, trained, strict=True) for one in fleet.contributions(block, part)]
        uploads = Uploads(sent, averaged=fleet.setup.averages)
        result, _ = federation.aggregator.combined(work, uploads, *present[index])
        assert result.weights is not None
        present[index] = result.weights, result.state
        fleet.models.write(1 + index, layout.flatten(result.weights))
    return len(planned.sequence)
