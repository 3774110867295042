"""Virtual devices: one after another in the same runtimes, by the device's own code for the plan's method."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from aggregator_server.aggregation import Layout, Updates, aggregate_weights
from edge_client.learning.methods.local_method import LocalTask, Rehearsal, train_shared
from edge_client.learning.methods.registry import shared_model_method
from edge_client.learning.rounds.personalise import personalise
from edge_client.learning.slot_order import SlotOrder
from edge_client.learning.training_data import Clips, held_out_accuracy
from fleet_protocol.arrays import Floats, Ints
from fleet_protocol.bundle import Manifest
from fleet_protocol.labels import LabelMap
from fleet_protocol.messages import Choice
from fleet_protocol.setting import Value
from fleet_simulator.errors import DivergedError, WorkerError
from fleet_simulator.experiment.faults import attacked, attacking_devices
from fleet_simulator.partition.clip_shards import ClipShards, open_shards
from fleet_simulator.runs.inputs import Inputs
from fleet_simulator.runs.row_file import RowFile
from fleet_simulator.shared_model.tasks import (
    NO_OWN,
    Block,
    Evaluate,
    Setup,
    Task,
    TestRows,
    Trained,
    device_id,
    next_version,
)

_EVALUATED = 256  # clips, at most, that a device's own model is evaluated on


def layout_of(manifest: Manifest) -> Layout:
    """Return the layout of a model's weights in a row."""
    return Layout(manifest.layers, manifest.weight_shapes)


class VirtualDevices:
    """The runtimes and files of one worker."""

    def __init__(self, setup: Setup, shards: ClipShards | None = None, inputs: Inputs | None = None) -> None:
        """Open the bundles.

        Args:
            setup: what to do.
            shards: the clips; None: those in the run's folder.
            inputs: where the bundles come from; None: from the disk.

        Raises:
            BundleError, ModelError: one cannot be opened.
            WorkerError: there are no clips in the folder.
        """
        self.setup = setup
        self.method = shared_model_method(setup.local)
        found = shards or open_shards(setup.folder / "data")
        if found is None:
            raise WorkerError(f"{setup.folder / 'data'} is gone; the same command makes it again")
        self.shards = found
        inputs = inputs or Inputs()
        own = setup.own or (setup.bundle,)
        self.shared = inputs.model(setup.bundle, "shared")
        self.layout = layout_of(self.shared.manifest)
        self.classes = len(self.shards.names)
        self._initial = [inputs.bundle(path).weights for path in own]
        self._own = [inputs.model(path, f"own {number}") for number, path in enumerate(own)]
        widths = [layout_of(model.manifest).width for model in self._own]
        self._own_file = RowFile(setup.folder / "own-models.f32", max(widths))
        self._models = RowFile(setup.folder / "models.f32", self.layout.width)
        self._uploads = RowFile(setup.folder / "uploads.f32", self.layout.width)
        self._architectures = np.random.default_rng([setup.seed, 3]).integers(len(self._own), size=self.shards.devices)
        self._attackers = attacking_devices(setup.faults, self.shards.devices, setup.seed)
        self._loaded = (-1, -1)

    def answer(self, task: Task) -> Any:  # noqa: ANN401  (what the task's method returns)
        """Do what a task says."""
        if isinstance(task, Block):
            return self.train(task)
        return self.confusion(task) if isinstance(task, TestRows) else self.evaluate(task)

    def train(self, block: Block) -> list[Trained]:
        """Train the devices of a block, and put their uploads (or the uploads' mean) into the file."""
        self._load(block.model, block.round_id - 1)
        rows = np.empty((len(block.devices), self.layout.width), np.float32)
        trained = []
        for row, device, version in zip(rows, block.devices, block.own_versions, strict=True):
            trained.append(self._train(device, version, block))
            self.layout.flatten(self.shared.get_weights(), row)
            if not (math.isfinite(trained[-1].loss) and np.isfinite(row).all()):
                raise DivergedError(
                    f"round {block.round_id}: the training of device {device} diverged (loss {trained[-1].loss}); "
                    f"lower [rounds] local.learning_rate, now {block.settings['learning_rate']}"
                )
            if device in self._attackers:
                rng = np.random.default_rng([self.setup.seed, block.round_id, 1, device])
                row[:] = attacked(self.setup.faults, self.layout.flatten(self._weights), row, rng)
        self._uploads.write(block.place, self._mean(block, rows) if self.setup.averages else rows)
        return trained

    def confusion(self, task: TestRows) -> Ints:
        """Return how many test clips of each class (row) the fleet's model took for each (column)."""
        self._load(0, task.rounds)
        self.shared.set_weights(self._weights)
        found = self.shared.predict(self.shards.features(task.rows), self._all_classes).argmax(axis=1)
        counts = np.zeros((self.classes, self.classes), np.int64)
        np.add.at(counts, (self.shards.labels(task.rows), found), 1)
        return counts

    def evaluate(self, task: Evaluate) -> list[dict[str, Any]]:
        """Return for every device its number of clips and the accuracy, 0..1, of the fleet's model on its own ones.

        With fine-tuning, also that of the model that the device kept, and whether that is its personal one. With models
        of the devices' own, also these models' accuracy on the device's clips and on some of the fleet's test clips.
        """
        self._load(task.model, task.rounds)
        start = self._weights
        self._load(0, task.rounds)
        found = [self._evaluate(device, task, start) for device in task.devices]
        if self.method.keeps_own:
            for entry, version in zip(found, task.own_versions, strict=True):
                entry |= self._evaluate_own(entry["device"], version)
        return found

    @cached_property
    def _all_classes(self) -> Floats:
        return (np.arange(self.shared.manifest.capacity) < self.classes).astype(np.float32)

    @cached_property
    def _label_map(self) -> LabelMap:
        labels = LabelMap(self.shared.manifest.capacity)
        for name in self.shards.names:
            labels = labels.add(name)
        return labels

    def _load(self, model: int, rounds: int) -> None:
        """Take over a global model after some rounds, and its opinion on the public set."""
        if (model, rounds) == self._loaded:
            return
        self._weights = self.layout.split(self._models.read(model, 1)[0])
        self._loaded = (model, rounds)
        public = self.shards.public
        x = self.shards.features(public) if rounds else self.shards.features(slice(0, 0))
        if len(x):
            self.shared.set_weights(self._weights)
            self._opinion = Rehearsal(x, self.shared.predict(x, self._all_classes))
        else:  # as on a device: a model that nobody has trained has no opinion to be kept
            self._opinion = Rehearsal(x, np.zeros((0, self.shared.manifest.capacity), np.float32))

    def _train(self, device: int, version: int, block: Block) -> Trained:
        task = self._task(device, block)
        before = self._samples
        task.shared.set_weights(self._weights)
        if self.method.keeps_own:
            loss = self._train_with_own(device, version, task, block)
        else:
            loss = train_shared(task, self.method.prepare(task), self._rehearsal(block.settings))
        return Trained(loss, self._samples - before)

    def _train_with_own(self, device: int, version: int, task: LocalTask, block: Block) -> float:
        layout = layout_of(task.own.manifest)
        task.own.set_weights(self._own_weights(device, version, layout))
        loss = train_shared(task, self.method.prepare(task), self._rehearsal(block.settings))
        row = np.zeros(self._own_file.width, np.float32)
        layout.flatten(task.own.get_weights(), row[: layout.width])
        self._own_file.write(2 * device + next_version(version), row)
        return loss

    def _own_weights(self, device: int, version: int, layout: Layout) -> Mapping[str, Floats]:
        if version == NO_OWN:
            first: Mapping[str, Floats] = self._initial[self._architectures[device]]
            return first
        return layout.split(self._own_file.read(2 * device + version, 1)[0][: layout.width])

    @property
    def _samples(self) -> int:
        return self.shared.samples + sum(model.samples for model in self._own)

    def _evaluate(self, device: int, task: Evaluate, start: Mapping[str, Floats]) -> dict[str, Any]:
        clips, choose, held_out = (
            self.shards.clips(rows)
            for rows in (self.shards.rows(device), self.shards.choose(device), self.shards.evaluate(device))
        )
        slots = range(self.classes)
        self.shared.set_weights(self._weights)
        found: dict[str, Any] = {"device": device, "clips": len(clips.slots)}
        found["global"] = held_out_accuracy(self.shared, self._all_classes, held_out, slots)
        if task.fine_tuning is None:
            return found
        self.shared.set_weights(start)
        rng = np.random.default_rng([self.setup.seed, task.rounds, 2, device])
        kept = personalise(self.shared, self._label_map, clips, choose, task.fine_tuning, rng, self._weights)["kept"]
        personal = held_out_accuracy(self.shared, self._all_classes, held_out, slots)
        return found | {"personal": personal, "kept": bool(kept)}

    def _evaluate_own(self, device: int, version: int) -> dict[str, float]:
        model = self._own[self._architectures[device]]
        model.set_weights(self._own_weights(device, version, layout_of(model.manifest)))
        mask = np.zeros(model.manifest.capacity, np.float32)
        mask[self.shards.labels(self.shards.rows(device))] = 1.0  # it has no slots for other sounds
        rng, found = np.random.default_rng([self.setup.seed, 9, device]), {}
        for name, rows in (("own", self.shards.evaluate(device)), ("own_test", self.shards.test)):
            some = rng.permutation(rows.stop - rows.start)[:_EVALUATED]
            x = model.normalise(self.shared.denormalise(self.shards.features(rows)[some]))
            clips = Clips(x[None], self.shards.labels(rows)[some])
            found[name] = held_out_accuracy(model, mask, clips, range(self.classes))
        return found

    def _task(self, device: int, block: Block) -> LocalTask:
        own, shared = self._own[self._architectures[device]], self.shared
        order = self._order(own.manifest.capacity)
        ours = theirs = self.shards.clips(self.shards.rows(device))
        if (own.manifest.mean, own.manifest.std) != (shared.manifest.mean, shared.manifest.std):
            ours = Clips(own.normalise(shared.denormalise(theirs.x)), theirs.slots)
        rng = np.random.default_rng([self.setup.seed, block.round_id, 0, device])  # as on a device of this number
        return LocalTask(shared, own, order, self._mask(theirs.slots, block), theirs, ours, block.settings, rng)

    def _order(self, own_capacity: int) -> SlotOrder:
        slots: Sequence[int] = range(self.classes)
        return SlotOrder(tuple(slots), tuple(slots), own_capacity, self.shared.manifest.capacity, self.classes)

    def _mask(self, slots: Ints, block: Block) -> Floats:
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
