"""Virtual devices: one after another in the same runtimes, by the device's own code for the plan's method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import repeat
from typing import Any

import numpy as np

from aggregator_server.aggregation import Layout, Updates, aggregate_weights
from edge_client.errors import ModelError
from edge_client.learning.methods.registry import shared_model_method
from edge_client.learning.personalisations.personalisation import PersonalTask
from edge_client.learning.personalisations.registry import personalisations
from edge_client.learning.rounds.guard import Listener
from edge_client.learning.rounds.job import round_rng
from edge_client.learning.rounds.local_training import train_shared
from edge_client.learning.rounds.task import PublicRows, prepare_task
from edge_client.learning.rounds.upload import build_update, require_finite
from edge_client.learning.slot_order import SlotOrder
from edge_client.learning.training_data import Clips, held_out_accuracy, rescaled
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.arrays import Doubles, Floats, Ints
from fleet_protocol.bundle import Manifest
from fleet_protocol.labels import LabelMap
from fleet_protocol.messages import Choice, Update, Work
from fleet_protocol.setting import Value
from fleet_protocol.tensors import Arrays
from fleet_simulator.errors import DivergedError, WorkerError
from fleet_simulator.experiment.faults import MOST_CLIPS, attacked, attacking_devices, attacks
from fleet_simulator.partition.clip_shards import ClipShards, open_shards
from fleet_simulator.plugins import use_plugins
from fleet_simulator.runs.inputs import Inputs
from fleet_simulator.runs.row_file import RowFile
from fleet_simulator.shared_model.listening import Baselines, Judge
from fleet_simulator.shared_model.tasks import (
    NO_OWN,
    Block,
    Evaluate,
    Setup,
    Task,
    TestRows,
    Trained,
    classes_of,
    device_id,
    next_version,
)


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
            PluginError: a file with methods was changed since the run began.
            WorkerError: there are no clips in the folder.
        """
        self.setup = setup
        use_plugins(setup.plugins)
        self.method = shared_model_method(setup.plan.local.name)
        found = shards or open_shards(setup.folder / "data")
        if found is None:
            raise WorkerError(f"{setup.folder / 'data'} is gone; the same command makes it again")
        self.shards = found
        inputs = inputs or Inputs()
        own = setup.own or (setup.bundle,)
        self.shared = inputs.model(setup.bundle, "shared")
        self.layout = layout_of(self.shared.manifest)
        self.classes = classes_of(self.shards.names)
        self._initial = [inputs.bundle(path).weights for path in own]
        self._own = [inputs.model(path, f"own {number}") for number, path in enumerate(own)]
        self._label_map = self._labels(self.shared)
        self._judge = Judge(found, self.shared, setup.plan.seed)
        self._public_only: dict[int, Arrays] = {}
        self._orders = [
            SlotOrder.of(self._labels(model), self.shards.names, self.shared.manifest.capacity) for model in self._own
        ]
        widths = [layout_of(model.manifest).width for model in self._own]
        self._own_file = RowFile(setup.folder / "own-models.f32", max(widths))
        self._models = RowFile(setup.folder / "models.f32", self.layout.width)
        self._uploads = RowFile(setup.folder / "uploads.f32", self.layout.width)
        self._architectures = np.random.default_rng([setup.plan.seed, 3]).integers(
            len(self._own), size=self.shards.devices
        )
        self._attackers = attacking_devices(setup.faults, self.shards.devices, setup.plan.seed)
        self._loaded = (-1, -1)

    def answer(self, task: Task) -> Any:  # noqa: ANN401  (what the task's method returns)
        """Do what a task says."""
        if isinstance(task, Block):
            return self.train(task)
        return self.confusion(task) if isinstance(task, TestRows) else self.evaluate(task)

    def train(self, block: Block) -> Trained:
        """Train the devices of a block, and put their uploads (or the uploads' mean) into the file."""
        self._load(block.model, block.round_id - 1)
        work = self.setup.work(block, self.classes)
        rows = np.empty((len(block.devices), self.layout.width), np.float32)
        losses, samples = [], []
        for row, device, version in zip(rows, block.devices, block.own_versions, strict=True):
            before = self._samples
            losses.append(self._train(device, version, work))
            samples.append(self._samples - before)
            self.layout.flatten(self.shared.get_weights(), row)
            try:
                require_finite(work, losses[-1], [row])
            except ModelError as error:
                raise DivergedError(f"device {device}: {error}") from error
            if device in self._attackers and attacks(self.setup.faults, block.round_id):
                rng = np.random.default_rng([self.setup.plan.seed, block.round_id, 1, device])
                row[:] = attacked(self.setup.faults, self.layout.flatten(self._weights), row, rng)
        self._uploads.write(block.place, self._mean(block, rows) if self.setup.averages else rows)
        return Trained(self._updates(block, work, losses), tuple(losses), tuple(samples))

    def confusion(self, task: TestRows) -> Ints:
        """Return how many test clips of each class (row) the fleet's model took for each (column)."""
        self._load(0, task.rounds)
        self.shared.set_weights(self._weights)
        found = self.shared.predict(self.shards.features(task.rows), self._all_classes).argmax(axis=1)
        counts = np.zeros((len(self.classes), len(self.classes)), np.int64)
        np.add.at(counts, (self.shards.labels(task.rows), found), 1)
        return counts

    def evaluate(self, task: Evaluate) -> list[dict[str, Any]]:
        """Return an entry for every device; accuracies are 0..1, and its own clips are those held out to evaluate on.

        ``clips`` trained on; of the fleet's model on own clips ``global``; with fine-tuning of what the device kept
        ``personal``, and whether that is not the fleet's model, ``kept``; of models of the devices' own ``own``,
        ``own_test`` on strangers' clips and ``own_trained`` on the clips that they were trained on. Of the model that
        the device listens with ``listening_own`` and ``listening_strangers``; with baselines the same of ``alone_``,
        ``public_`` and ``both_``, and of whichever of ``alone_`` and ``listening_`` the device's guard chooses,
        ``guarded_``. Of the local model, where the task wants that, ``local_``.
        """
        self._load(task.model, task.rounds)
        start = self._weights
        self._load(0, task.rounds)
        return [
            self._evaluate(device, version, task, start)
            for device, version in zip(task.devices, task.own_versions, strict=True)
        ]

    @cached_property
    def _all_classes(self) -> Floats:
        return (np.arange(self.shared.manifest.capacity) < len(self.classes)).astype(np.float32)

    def _labels(self, model: ModelRuntime) -> LabelMap:
        """Return the label map of a device that knows every class of the fleet, in the fleet's order."""
        labels = LabelMap(model.manifest.capacity)
        for info in self.classes:
            labels = labels.add(info.name, info.class_id)
        return labels

    def _load(self, model: int, rounds: int) -> None:
        """Take over a global model after some rounds, whose opinion on the public set the devices keep."""
        if (model, rounds) == self._loaded:
            return
        self._weights = self.layout.split(self._models.read(model, 1)[0])
        self._loaded = (model, rounds)
        x, labels = self.shards.features(self.shards.public), self.shards.labels(self.shards.public)
        self._public = PublicRows(self.shared, x, labels, np.zeros(len(x), np.bool_), trained=rounds > 0)

    def _train(self, device: int, version: int, work: Work) -> float:
        architecture = self._architectures[device]
        own, clips = self._own[architecture], self.shards.clips(self.shards.rows(device))
        self.shared.set_weights(self._weights)
        task, rehearsal = prepare_task(
            work,
            shared=self.shared,
            own=own,
            order=self._orders[architecture],
            clips=clips,
            own_clips=Clips(rescaled(clips.x, self.shared, own), clips.slots),
            public=self._public,
            rng=round_rng(work, device_id(device)),
            first=version == NO_OWN,
        )
        if not self.method.keeps_own:
            return train_shared(task, self.method.prepare(task), rehearsal)
        layout = layout_of(own.manifest)
        own.set_weights(self._own_weights(device, version, layout))
        loss = train_shared(task, self.method.prepare(task), rehearsal)
        row = np.zeros(self._own_file.width, np.float32)
        layout.flatten(own.get_weights(), row[: layout.width])
        self._own_file.write(2 * device + next_version(version), row)
        return loss

    def _updates(self, block: Block, work: Work, losses: Sequence[float]) -> tuple[Update, ...]:
        """Return the document of every row in the uploads' file."""
        slots = [self.shards.labels(self.shards.rows(device)) for device in block.devices]
        if not self.setup.averages:
            return tuple(map(self._update, repeat(work), block.devices, slots, losses))
        whole = self._update(work, block.devices[0], np.concatenate(slots), float(np.mean(losses)))
        whole = replace(whole, clips=int(self._clips(block).sum()))
        by_size = self.setup.plan.aggregation.settings["by_size"]
        return (whole if by_size else replace(whole, clips=len(block.devices)),)

    def _update(self, work: Work, device: int, slots: Ints, loss: float) -> Update:
        update = build_update(
            work,
            device_id(device),
            features=self.shared.manifest.feature_settings.digest,
            label_map=self._label_map,
            slots=slots,
            classes=self.shards.names,
        )
        update.metrics["training_loss"] = loss
        return replace(update, clips=MOST_CLIPS) if self._lies(device) else update

    def _lies(self, device: int) -> bool:
        """Return whether a device says a false number of clips."""
        return device in self._attackers and self.setup.faults.attack == "false_clips"

    def _clips(self, block: Block) -> Doubles:
        """Return how many clips the devices of a block say that they have, float64 [devices]."""
        return np.array([MOST_CLIPS if self._lies(n) else self.shards.sizes[n] for n in block.devices], np.float64)

    def _own_weights(self, device: int, version: int, layout: Layout) -> Mapping[str, Floats]:
        if version == NO_OWN:
            first: Mapping[str, Floats] = self._initial[self._architectures[device]]
            return first
        return layout.split(self._own_file.read(2 * device + version, 1)[0][: layout.width])

    @property
    def _samples(self) -> int:
        return self.shared.samples + sum(model.samples for model in self._own)

    def _evaluate(self, device: int, version: int, task: Evaluate, start: Mapping[str, Floats]) -> dict[str, Any]:
        found: dict[str, Any] = {"device": device, "clips": int(self.shards.sizes[device])}
        self.shared.set_weights(self._weights)
        found["global"] = self._judge.accuracies("global", device, self.shared, self._all_classes)["global_own"]
        if self.method.keeps_own:
            found |= self._evaluate_own(device, version)
        model = self._own_model(device, version) if self.method.any_architecture else self.shared
        mask, personal = self._labels(model).mask, task.personal.name != "none"
        rng = np.random.default_rng([self.setup.plan.seed, task.rounds, 2, device])
        if personal:
            found["kept"] = self._personalise(device, model, task.personal, start, rng)
        elif self.method.any_architecture:
            mask = self._mask(device, model)
        found |= self._judge.accuracies("listening", device, model, mask)
        if personal:
            found["personal"] = found["listening_own"]
        found |= self._without_fleet(device, rng, self._listener(model, mask))
        return found if task.local is None else found | self._evaluate_local(device, version, task.rounds, task.local)

    def _evaluate_local(
        self, device: int, version: int, rounds: int, settings: Mapping[str, Value]
    ) -> dict[str, float]:
        """Evaluate the model that local training leaves on a device: its own or, without one, its next upload."""
        model: ModelRuntime = self.shared
        if self.method.keeps_own:
            model = self._own_model(device, version)
        else:
            self._train(
                device, version, self.setup.work(Block(rounds + 1, 0, (device,), (version,), settings), self.classes)
            )
        return self._judge.accuracies("local", device, model, self._labels(model).mask)

    def _listener(self, model: ModelRuntime, mask: Floats) -> Listener:
        """Return a model as a device listens with it, among the mask's outputs."""
        labels = self._labels(model)
        return Listener(model.get_weights(), replace(labels, off=tuple(np.flatnonzero(labels.mask > mask).tolist())))

    def _personalise(
        self,
        device: int,
        model: ModelRuntime,
        how: Choice,
        start: Mapping[str, Floats],
        rng: np.random.Generator,
    ) -> bool:
        """Fine-tune and choose as a device does; the model is left with the weights that the device listens with.

        A model of the device's own is one of the choices, where it is of the fleet's architecture; else the only one.
        """
        clips, choose, public = (
            self._judge.clips(rows, model)
            for rows in (self.shards.rows(device), self.shards.choose(device), self.shards.public)
        )
        own = model.get_weights() if self.method.any_architecture else None
        fleets: Arrays = model.get_weights()
        if model.manifest.sha256.get("model.tflite") == self.shared.manifest.sha256.get("model.tflite"):
            fleets = dict(self._weights)
            model.set_weights(start)
        else:
            own = None
        task = PersonalTask(
            model=model,
            label_map=self._labels(model),
            clips=clips,
            held_out=choose,
            settings=how.settings,
            rng=rng,
            public=public,
            global_weights=fleets,
            own_weights=own,
        )
        adapt = personalisations()[how.name].adapt
        return adapt is not None and bool(adapt(task).get("kept", 1.0))

    def _own_model(self, device: int, version: int) -> ModelRuntime:
        """Return the runtime of a device's own model, with its weights."""
        model: ModelRuntime = self._own[int(self._architectures[device])]
        model.set_weights(self._own_weights(device, version, layout_of(model.manifest)))
        return model

    def _mask(self, device: int, model: ModelRuntime) -> Floats:
        """Return the outputs of the classes that a device has clips of."""
        mask = np.zeros(model.manifest.capacity, np.float32)
        mask[self.shards.labels(self.shards.rows(device))] = 1.0
        return mask

    def _evaluate_own(self, device: int, version: int) -> dict[str, float]:
        model = self._own_model(device, version)
        mask = self._mask(device, model)
        found = self._judge.accuracies("own", device, model, mask)
        trained = self._judge.clips(self.shards.rows(device), model)
        known = held_out_accuracy(model, mask, trained, np.unique(trained.slots).tolist())
        return {"own": found["own_own"], "own_test": found["own_strangers"], "own_trained": known}

    def _without_fleet(self, device: int, rng: np.random.Generator, result: Listener) -> dict[str, float]:
        """Return what a device would have alone, from the public set alone, and from both; nothing unless wanted.

        With them comes what its guard makes of the choice between the first and the rounds' result.
        """
        if self.setup.baselines is None:
            return {}
        architecture = int(self._architectures[device])
        model = self._own[architecture]
        baselines = Baselines(model, self._initial[architecture], self._labels(model), self.setup.baselines)
        clips, public = (self._judge.clips(rows, model) for rows in (self.shards.rows(device), self.shards.public))
        baselines.train(clips, None, rng)
        alone = self._listener(model, self._mask(device, model))
        found = self._judge.accuracies("alone", device, model, alone.label_map.mask)
        if _shapes(alone) == _shapes(result):  # else the one is of another architecture
            chosen = self._judge.guarded(device, model, alone, result)
            model.set_weights(chosen.weights)
            found |= self._judge.accuracies("guarded", device, model, chosen.label_map.mask)
        if not len(public.slots):
            return found
        if architecture not in self._public_only:
            of_set = np.random.default_rng([self.setup.plan.seed, 10, architecture])
            self._public_only[architecture] = baselines.train(public, None, of_set)
        model.set_weights(self._public_only[architecture])
        found |= self._judge.accuracies("public", device, model, baselines.label_map.mask)
        baselines.train(clips, public, rng)
        return found | self._judge.accuracies("both", device, model, baselines.label_map.mask)

    def _mean(self, block: Block, rows: Floats) -> Floats:
        """Return the block's mean with clipping; a server optimiser comes after all blocks."""
        settings = self.setup.plan.aggregation.settings
        choice = Choice("weighted_mean", {name: settings[name] for name in ("by_size", "clip_norm", "clips_cap")})
        uploads = Updates(self.layout, tuple(device_id(device) for device in block.devices), rows)
        return self.layout.flatten(aggregate_weights(choice, uploads, self._clips(block), self._weights, {})[0])


def _shapes(listener: Listener) -> dict[str, tuple[int, ...]]:
    return {name: array.shape for name, array in listener.weights.items()}
