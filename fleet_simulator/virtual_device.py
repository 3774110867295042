"""Virtual devices: one after another in the same runtimes, by the device's own code for the plan's method."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from aggregator_server.aggregation import Layout, Updates, aggregate_weights
from edge_client.learning.shared_methods import SHARED_METHODS
from edge_client.learning.shared_training import LocalTask, Rehearsal, train_shared
from edge_client.learning.slot_order import SlotOrder
from edge_client.learning.training_data import Clips
from edge_client.model_runtime import ModelRuntime
from fleet_protocol.bundle import Manifest, read_bundle
from fleet_protocol.messages import Choice
from fleet_protocol.setting import Value
from fleet_simulator.clip_shards import ClipShards
from fleet_simulator.errors import WorkerError
from fleet_simulator.faults import FaultsSection, attacked, attacking_devices
from fleet_simulator.row_file import RowFile

Floats = NDArray[np.float32]
NO_OWN = 2  # a device that has not trained a model of its own yet


@dataclass(frozen=True)
class Setup:
    """What every worker is told once.

    Attributes:
        bundle: of the shared model.
        own: bundles of the devices' own models; none: the shared one.
        folder: of the run: ``data/``, and the files that workers and main process share.
        local: name of the plan's local method.
        aggregation: the plan's aggregation part, with every setting.
        seed: the plan's.
        faults: what goes wrong.
    """

    bundle: Path
    own: tuple[Path, ...]
    folder: Path
    local: str
    aggregation: Choice
    seed: int
    faults: FaultsSection

    @property
    def averages(self) -> bool:
        """Whether the rule is a mean, so that a block of devices can be averaged where it was trained."""
        return self.aggregation.name == "weighted_mean"


@dataclass(frozen=True)
class Block:
    """Devices of a round that one worker trains one after another.

    Attributes:
        round_id: counts from 1.
        place: row of the uploads' file that is the block's first.
        devices: their numbers, ascending.
        own_versions: which of its two places in the file holds a device's own model; ``NO_OWN``: neither.
        settings: of the local method.
    """

    round_id: int
    place: int
    devices: tuple[int, ...]
    own_versions: tuple[int, ...]
    settings: Mapping[str, Value]


@dataclass(frozen=True)
class TestRows:
    """Test clips for the global model after some rounds."""

    rounds: int
    rows: slice


def device_id(number: int) -> str:
    """Return a virtual device's identifier, 32 hex digits."""
    return f"{number:032x}"


def layout_of(manifest: Manifest) -> Layout:
    """Return the layout of a model's weights in a row."""
    return Layout(manifest.layers, manifest.weight_shapes)


class VirtualDevices:
    """The runtimes and files of one worker."""

    def __init__(self, setup: Setup) -> None:
        """Open the bundles.

        Raises:
            BundleError, ModelError: one cannot be opened.
        """
        self.setup = setup
        self.method = SHARED_METHODS[setup.local]
        self.shards = ClipShards(setup.folder / "data")
        self.shared = ModelRuntime(read_bundle(setup.bundle))
        self.layout = layout_of(self.shared.manifest)
        self.classes = len(self.shards.names)
        self._initial = [read_bundle(path).weights for path in setup.own or (setup.bundle,)]
        self._own = [ModelRuntime(read_bundle(path)) for path in setup.own or (setup.bundle,)]
        widths = [layout_of(model.manifest).width for model in self._own]
        self._own_file = RowFile(setup.folder / "own-models.f32", max(widths))
        self._fleet_file = RowFile(setup.folder / "fleet-model.f32", self.layout.width)
        self._uploads = RowFile(setup.folder / "uploads.f32", self.layout.width)
        self._architectures = np.random.default_rng([setup.seed, 3]).integers(len(self._own), size=self.shards.devices)
        self._attackers = attacking_devices(setup.faults, self.shards.devices, setup.seed)
        self._rounds = -1

    def train(self, block: Block) -> list[float]:
        """Train the devices of a block, put their uploads (or the uploads' mean) into the file; return their losses."""
        self._load(block.round_id - 1)
        rows = np.empty((len(block.devices), self.layout.width), np.float32)
        losses = []
        for row, device, version in zip(rows, block.devices, block.own_versions, strict=True):
            losses.append(self._train(device, version, block))
            self.layout.flatten(self.shared.get_weights(), row)
            if not (math.isfinite(losses[-1]) and np.isfinite(row).all()):
                raise WorkerError(
                    f"round {block.round_id}: the training of device {device} diverged (loss {losses[-1]}); lower "
                    f"[rounds] local.learning_rate, now {block.settings['learning_rate']}"
                )
            if device in self._attackers:
                rng = np.random.default_rng([self.setup.seed, block.round_id, 1, device])
                row[:] = attacked(self.setup.faults, self.layout.flatten(self._weights), row, rng)
        self._uploads.write(block.place, self._mean(block, rows) if self.setup.averages else rows)
        return losses

    def count_right(self, task: TestRows) -> int:
        """Return how many test clips the global model names rightly, among all classes."""
        self._load(task.rounds)
        self.shared.set_weights(self._weights)
        found = self.shared.predict(self.shards.features(task.rows), self._all_classes).argmax(axis=1)
        return int((found == self.shards.labels(task.rows)).sum())

    @cached_property
    def _all_classes(self) -> Floats:
        return (np.arange(self.shared.manifest.capacity) < self.classes).astype(np.float32)

    def _load(self, rounds: int) -> None:
        """Take over the global model after some rounds, and its opinion on the public set."""
        if rounds == self._rounds:
            return
        self._weights = self.layout.split(self._fleet_file.read(0, 1)[0])
        self._rounds = rounds
        public = self.shards.public
        x = self.shards.features(public) if rounds else self.shards.features(slice(0, 0))
        if len(x):
            self.shared.set_weights(self._weights)
            self._opinion = Rehearsal(x, self.shared.predict(x, self._all_classes))
        else:  # as on a device: a model that nobody has trained has no opinion to be kept
            self._opinion = Rehearsal(x, np.zeros((0, self.shared.manifest.capacity), np.float32))

    def _train(self, device: int, version: int, block: Block) -> float:
        task = self._task(device, block)
        task.shared.set_weights(self._weights)
        if not self.method.keeps_own:
            return train_shared(task, self.method.prepare(task), self._rehearsal(block.settings))
        layout = layout_of(task.own.manifest)
        before = self._initial[self._architectures[device]]
        if version != NO_OWN:
            before = layout.split(self._own_file.read(2 * device + version, 1)[0][: layout.width])
        task.own.set_weights(before)
        loss = train_shared(task, self.method.prepare(task), self._rehearsal(block.settings))
        row = np.zeros(self._own_file.width, np.float32)
        layout.flatten(task.own.get_weights(), row[: layout.width])
        self._own_file.write(2 * device + next_version(version), row)
        return loss

    def _task(self, device: int, block: Block) -> LocalTask:
        rows = self.shards.rows(device)
        own, shared = self._own[self._architectures[device]], self.shared
        x, slots = self.shards.features(rows), self.shards.labels(rows)
        order = self._order(own.manifest.capacity)
        theirs = Clips(x[None], slots)
        ours = theirs
        if (own.manifest.mean, own.manifest.std) != (shared.manifest.mean, shared.manifest.std):
            ours = Clips(own.normalise(shared.denormalise(x))[None], slots)
        rng = np.random.default_rng([self.setup.seed, block.round_id, 0, device])  # as on a device of this number
        return LocalTask(shared, own, order, self._mask(slots, block), theirs, ours, block.settings, rng)

    def _order(self, own_capacity: int) -> SlotOrder:
        slots: Sequence[int] = range(self.classes)
        return SlotOrder(tuple(slots), tuple(slots), own_capacity, self.shared.manifest.capacity, self.classes)

    def _mask(self, slots: NDArray[np.int64], block: Block) -> Floats:
        """Return the outputs to train: as on a device, those for which clips or the public set speak."""
        if not block.settings["restrict"]:
            return self._all_classes
        mask = np.zeros(self.shared.manifest.capacity, np.float32)
        mask[slots] = 1.0
        if len(self._opinion.x) and block.settings["rehearsal"]:
            mask[self.shards.labels(self.shards.public)] = 1.0
        return mask

    def _rehearsal(self, settings: Mapping[str, Value]) -> Rehearsal:
        weight = np.float32(float(settings["rehearsal"]))
        rows = slice(None) if weight else slice(0)
        return Rehearsal(self._opinion.x[rows], weight * self._opinion.targets[rows])

    def _mean(self, block: Block, rows: Floats) -> Floats:
        """Return the block's mean with clipping; a server optimiser comes after all blocks."""
        settings = self.setup.aggregation.settings
        choice = Choice("weighted_mean", {name: settings[name] for name in ("by_size", "clip_norm")})
        uploads = Updates(self.layout, tuple(device_id(device) for device in block.devices), rows)
        sizes = self.shards.sizes[list(block.devices)].astype(np.float64)
        return self.layout.flatten(aggregate_weights(choice, uploads, sizes, self._weights, {})[0])


def next_version(version: int) -> int:
    """Return the place that a device's own model goes to: not the one that a resumed run would start from."""
    return 0 if version == NO_OWN else 1 - version
