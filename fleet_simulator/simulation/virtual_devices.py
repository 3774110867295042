"""Virtual devices: one after another in the same runtimes, by the device's own part of a round."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from aggregator_server.aggregation import Updates, aggregate_weights
from aggregator_server.strategies.weight_sharing import PREFIX
from edge_client.errors import ModelError
from edge_client.learning.methods.local_method import LocalMethod
from edge_client.learning.rounds.client_update import ClientUpdate
from edge_client.learning.rounds.prototype_sharing import PrototypeExchange
from edge_client.learning.rounds.score_sharing import ScoreSharing
from edge_client.learning.rounds.weight_sharing import WeightSharing
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.messages.rest import Choice, Update, Work
from fleet_protocol.methods.clip_utility import label_entropy
from fleet_protocol.numbers.arrays import Doubles, Floats, Ints
from fleet_protocol.numbers.tensors import Arrays
from fleet_simulator.errors import DivergedError, WorkerError
from fleet_simulator.experiment.faults import MOST_CLIPS, attacked, attacking_devices, attacks
from fleet_simulator.experiment.local_kinds import is_prototypes, method_of
from fleet_simulator.partition.clip_shards import ClipShards, open_shards
from fleet_simulator.plugins import use_plugins
from fleet_simulator.runs.inputs import Inputs
from fleet_simulator.runs.run_folder import RowFile
from fleet_simulator.simulation import tasks
from fleet_simulator.simulation.device_models import DeviceModels
from fleet_simulator.simulation.evaluation import Evaluation


class VirtualDevices:
    """The runtimes and files of one worker."""

    def __init__(self, setup: tasks.Setup, shards: ClipShards | None = None, inputs: Inputs | None = None) -> None:
        """Open the bundles."""
        use_plugins(setup.experiment.plugins)
        found = shards or open_shards(setup.folder / "data")
        if found is None:
            raise WorkerError(f"{setup.folder / 'data'} is gone; the same command makes it again")
        self._faults, self._plan = setup.experiment.faults, setup.experiment.plan
        self._averages = setup.averages
        self._shards = found
        self._models = DeviceModels(setup, found, inputs or Inputs())
        self._evaluation = Evaluation(self._models, self._job)
        self._uploads = RowFile(setup.folder / "uploads.f32", self._models.layout.width)
        self._attackers = attacking_devices(self._faults, found.devices, self._plan.seed)

    def answer(self, task: tasks.Task) -> Any:  # noqa: ANN401  (what the task's method returns)
        """Do what a task says."""
        if isinstance(task, tasks.Block):
            return self.train(task)
        if isinstance(task, tasks.Learn):
            return self.learn(task)
        return self._evaluation.confusion(task) if isinstance(task, tasks.TestRows) else self._evaluation.devices(task)

    def train(self, block: tasks.Block) -> tasks.Trained:
        """Have the devices of a block contribute; weights (or their mean) go into the uploads' file."""
        work, method = block.work, method_of(block.work.plan.local.name)
        if is_prototypes(method):
            uploads = [self._prototypes(device, work) for device in block.devices]
            return tasks.Trained(tuple(update for update, _ in uploads), (), 0, tuple(arrays for _, arrays in uploads))
        shares = isinstance(method, LocalMethod)
        if shares:
            self._models.load(block.model, work.round_id - 1)
        rows = np.empty((len(block.devices) if shares else 0, self._models.layout.width), np.float32)
        updates, arrays, before = [], [], self._models.samples
        for number, (device, version) in enumerate(zip(block.devices, block.own_versions, strict=True)):
            update, sent = self._contribute(device, version, work)
            updates.append(update)
            if shares:
                weights = {name.removeprefix(PREFIX): array for name, array in sent.items()}
                self._models.layout.flatten(weights, rows[number])
                self._attack_weights(device, work, rows[number])
            else:
                arrays.append(self._silenced(device, work, sent))
        losses = tuple(float(update.metrics["training_loss"]) for update in updates)
        if shares and self._averages:
            self._uploads.write(block.place, self._mean(block, rows))
            updates = [self._whole(block, updates)]
        elif shares:
            self._uploads.write(block.place, rows)
        return tasks.Trained(tuple(updates), losses, self._models.samples - before, tuple(arrays))

    def learn(self, task: tasks.Learn) -> list[dict[str, float]]:
        """Have devices learn from a round's result, with models of their own; return what each measured."""
        measured = []
        for device, version, place in zip(task.devices, task.own_versions, task.places, strict=True):
            job = self._job(device, version, task.work)
            measured.append(job.apply_result({info.class_id for info in task.work.classes}))
            self._models.keep_own(device, place)
        return measured

    def _contribute(self, device: int, version: int, work: Work) -> tuple[Update, Arrays]:
        """Have a device train and return its upload; its own model, if it keeps one, goes to its other place."""
        job = self._job(device, version, work)
        clips = self._models.clips(self._shards.rows(device), job.model)
        try:
            update, arrays = job.contribute(clips, share_names=False)
        except ModelError as error:
            raise DivergedError(f"device {device}: {error}") from error
        if job.model is not self._models.shared:
            self._models.keep_own(device, tasks.next_version(version))
        return (replace(update, clips=MOST_CLIPS) if self._lies(device) else update), arrays

    def _job(self, device: int, version: int, work: Work) -> ClientUpdate:
        """Return a device's part of a round, with the weights that it starts from."""
        models, method = self._models, method_of(work.plan.local.name)
        context = models.context(work, first=version == tasks.NO_OWN)
        if not isinstance(method, LocalMethod):
            own = models.own_model(device, version)
            return ScoreSharing(own, models.labels(own), work, context, tasks.device_id(device))
        model: ModelRuntime = models.own_model(device, version) if method.keeps_own else models.shared
        models.shared.set_weights(models.weights)
        return WeightSharing(
            method, model, models.labels(model), work, context, tasks.device_id(device), models.shared, models.public
        )

    def _prototypes(self, device: int, work: Work) -> tuple[Update, Arrays]:
        """Return what a device uploads that has the pretrained front end."""
        models = self._models
        model, context = models.own[int(models.architectures[device])], models.context(work, first=False)
        exchange = PrototypeExchange(model.manifest, models.labels(model), work, context)
        update, arrays = exchange.contribute(models.takes(device), tasks.device_id(device), share_names=False)
        arrays = self._silenced(device, work, arrays)
        return (replace(update, clips=MOST_CLIPS) if self._lies(device) else update), arrays

    def _attack_weights(self, device: int, work: Work, row: Floats) -> None:
        """Put what an attacker sends in the place of what it trained."""
        faults = self._faults
        if self._attacks(device, work):
            rng = np.random.default_rng([self._plan.seed, work.round_id, 1, device])
            row[:] = attacked(faults, self._models.layout.flatten(self._models.weights), row, rng)

    def _attacks(self, device: int, work: Work) -> bool:
        return device in self._attackers and attacks(self._faults, work.round_id)

    def _silenced(self, device: int, work: Work, arrays: Arrays) -> Arrays:
        """Return what a device sends that uploads no weights."""
        if self._faults.attack != "silent" or not self._attacks(device, work):
            return arrays
        return {name: np.full_like(array, np.nan) for name, array in arrays.items()}

    def _lies(self, device: int) -> bool:
        """Return whether a device says a false number of clips."""
        return device in self._attackers and self._faults.attack == "false_clips"

    def _whole(self, block: tasks.Block, updates: list[Update]) -> Update:
        """Return the document of a block's mean."""
        slots: Ints = np.concatenate([self._shards.labels(self._shards.rows(device)) for device in block.devices])
        by_size = self._plan.aggregation.settings["by_size"]
        return replace(
            updates[0],
            clips=int(self._clips(block).sum()) if by_size else len(block.devices),
            label_entropy=label_entropy(slots),
            metrics={"training_loss": float(np.mean([update.metrics["training_loss"] for update in updates]))},
        )

    def _clips(self, block: tasks.Block) -> Doubles:
        """Return how many clips the devices of a block say that they have, float64 [devices]."""
        return np.array([MOST_CLIPS if self._lies(n) else self._shards.sizes[n] for n in block.devices], np.float64)

    def _mean(self, block: tasks.Block, rows: Floats) -> Floats:
        """Return the block's mean with clipping; a server optimiser comes after all blocks."""
        settings, layout = self._plan.aggregation.settings, self._models.layout
        choice = Choice("weighted_mean", {name: settings[name] for name in ("by_size", "clip_norm", "clips_cap")})
        uploads = Updates.of_rows(layout, [tasks.device_id(device) for device in block.devices], rows)
        return layout.flatten(aggregate_weights(choice, uploads, self._clips(block), self._models.weights, {})[0])
