"""How well a virtual device recognises its own held-out clips, and strangers' clips; with a fleet and without one.

The measure of a method is the model that the device listens with. Without a fleet that is one trained on its clips
alone, on the public set alone, or on both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from edge_client.learning.methods.local_method import LocalMethod
from edge_client.learning.personalisation import PersonalTask, fine_tune, personalisations
from edge_client.learning.rounds.client_update import ClientUpdate
from edge_client.learning.rounds.guard import Evidence, Listener, choose_listener, recognised
from edge_client.learning.training_data import FEWEST, Clips, held_out_accuracy
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.messages.rest import Choice, Work
from fleet_protocol.numbers.arrays import Floats, Ints
from fleet_protocol.numbers.tensors import Arrays
from fleet_simulator.experiment.local_kinds import is_prototypes, method_of
from fleet_simulator.simulation.device_models import DeviceModels
from fleet_simulator.simulation.heads import Heads
from fleet_simulator.simulation.tasks import Evaluate, TestRows

_STRANGERS = 256
"""Test clips, at most, that a device's model is evaluated on."""
_SETTLE, _SMALLER = 0.7, 0.25


class Evaluation:
    """Evaluates one worker's virtual devices, and the fleet's model."""

    def __init__(self, models: DeviceModels, job: Callable[[int, int, Work], ClientUpdate]) -> None:
        """Take the models; ``job`` returns the part of a device, with its own model's place, in a round."""
        self._models = models
        self._job = job
        self._shards = models.shards
        self._seed = models.setup.experiment.rounds.seed
        self._public_only: dict[int, Arrays] = {}
        self._newcomer: tuple[Work, Listener] | None = None

    def confusion(self, task: TestRows) -> Ints:
        """Return how many test clips of each class (row) the fleet's model took for each (column).

        With prototypes that is the head that a device fits without any clip; what it takes for no label is missed, and
        stands in the last column.
        """
        models, count = self._models, len(self._shards.names)
        if is_prototypes(method_of(task.work.plan.local.name)):
            head = self._fleets_head(task.work)
            weights, mask = head.weights, head.label_map.listening_mask
        else:
            models.load(0, task.work.round_id)
            weights, mask = models.weights, models.all_classes
        models.shared.set_weights(weights)
        scores = models.shared.predict(self._shards.features(task.rows), mask)
        counts = np.zeros((count, count + int(mask[count:].any())), np.int64)
        np.add.at(counts, (self._shards.labels(task.rows), np.minimum(scores.argmax(axis=1), count)), 1)
        return counts

    def devices(self, task: Evaluate) -> list[dict[str, Any]]:
        """Return an entry for every device, as docs/simulator.md says; own clips are those held out to evaluate on."""
        method = method_of(task.work.plan.local.name)
        if is_prototypes(method):
            return [self._heads(device, task) for device in task.devices]
        start: Arrays = {}
        if isinstance(method, LocalMethod):
            self._models.load(task.model, task.rounds)
            start = self._models.weights
            self._models.load(0, task.rounds)
        return [
            self._device(device, version, task, start)
            for device, version in zip(task.devices, task.own_versions, strict=True)
        ]

    def _strangers(self, device: int, model: ModelRuntime) -> Clips:
        """Return some of the test clips, others for every device; none of their speakers is on any device."""
        rows = self._shards.test
        some = np.random.default_rng([self._seed, 9, device]).permutation(rows.stop - rows.start)[:_STRANGERS]
        clips = self._models.clips(rows, model)
        return Clips(clips.x[:, some], clips.slots[some])

    def _accuracies(self, name: str, device: int, model: ModelRuntime, mask: Floats) -> dict[str, float]:
        """Return the accuracy among the mask's outputs, 0..1; a clip of a class whose output is off is missed."""
        slots = range(len(self._shards.names))
        own = held_out_accuracy(model, mask, self._models.clips(self._shards.evaluate(device), model), slots)
        strangers = held_out_accuracy(model, mask, self._strangers(device, model), slots)
        return {f"{name}_own": own, f"{name}_strangers": strangers}

    def _guarded(self, device: int, model: ModelRuntime, present: Listener, result: Listener) -> Listener:
        """Choose between models by own clips held out for it, and by the public set where these do not tell."""
        own, public = (self._models.clips(rows, model) for rows in (self._shards.choose(device), self._shards.public))
        judged = self._shards.labels(self._shards.rows(device)) if len(own.slots) >= FEWEST else own.slots[:0]
        others = ~np.isin(public.slots, judged)
        evidence = Evidence(own, "held_out", Clips(public.x[:, others], public.slots[others]))
        return choose_listener(model, present, result, None, evidence)[0]

    def _fleets_head(self, work: Work) -> Listener:
        """Return the head that a device fits to the fleet's prototypes and public set, without any clip."""
        models = self._models
        if self._newcomer is None or self._newcomer[0] != work:
            heads = Heads(models.shared, models.bundle.weights)
            label_map = heads.label_map(models.public_set.classes)
            centres = heads.centres(models.prototypes(work), self._seed)
            self._newcomer = work, heads.fit(label_map, {}, self._seed, models.public_set, centres)
        return self._newcomer[1]

    def _heads(self, device: int, task: Evaluate) -> dict[str, Any]:
        """Evaluate the heads that a device fits: with the fleet's prototypes, and without."""
        models = self._models
        found: dict[str, Any] = {"device": device, "clips": int(self._shards.sizes[device])}
        fleets = self._fleets_head(task.work)
        found["global"] = self._listened("global", device, models.shared, fleets)["global_own"]
        heads, takes, public_set = models.heads(device), models.takes(device), models.public_set
        seed = int(np.random.default_rng([self._seed, task.rounds, 2, device]).integers(2**31))
        label_map = heads.label_map(public_set.classes, takes)
        own = heads.fit(label_map, takes, seed)
        centres = heads.centres(models.prototypes(task.work), self._seed)
        result = heads.fit(label_map, takes, seed, public_set, centres, own.weights)
        found |= self._listened("listening", device, heads.model, result)
        if models.setup.experiment.baselines is None:
            return found
        found |= self._listened("alone", device, heads.model, own)
        chosen = own if heads.refuses(own, result, takes, public_set) else result
        found |= self._listened("guarded", device, heads.model, chosen)
        found |= self._listened("public", device, heads.model, heads.fit(label_map, {}, seed, public_set))
        both = heads.fit(label_map, takes, seed, public_set, own=own.weights)
        return found | self._listened("both", device, heads.model, both)

    def _listened(self, name: str, device: int, model: ModelRuntime, listener: Listener) -> dict[str, float]:
        """Return the accuracy of a head: what it takes for no label is missed."""
        own, strangers = self._models.clips(self._shards.evaluate(device), model), self._strangers(device, model)
        found = {f"{name}_own": own, f"{name}_strangers": strangers}
        return {
            key: float(recognised(model, listener, clips).mean()) if len(clips.slots) else math.nan
            for key, clips in found.items()
        }

    def _device(self, device: int, version: int, task: Evaluate, start: Mapping[str, Floats]) -> dict[str, Any]:
        models, method = self._models, method_of(task.work.plan.local.name)
        found: dict[str, Any] = {"device": device, "clips": int(self._shards.sizes[device])}
        has_own = not isinstance(method, LocalMethod)
        if isinstance(method, LocalMethod):
            models.shared.set_weights(models.weights)
            found["global"] = self._accuracies("global", device, models.shared, models.all_classes)["global_own"]
            has_own = method.any_architecture
        if not isinstance(method, LocalMethod) or method.keeps_own:
            found |= self._own(device, version)
        model = models.own_model(device, version) if has_own else models.shared
        mask, personal = models.labels(model).mask, task.personal.name != "none"
        rng = np.random.default_rng([self._seed, task.rounds, 2, device])
        if personal:
            found["kept"] = self._personalise(device, model, task.personal, start, rng, has_own=has_own)
        elif isinstance(method, LocalMethod) and has_own:
            mask = models.mask(device, model)
        found |= self._accuracies("listening", device, model, mask)
        if personal:
            found["personal"] = found["listening_own"]
        found |= self._without_fleet(device, rng, self._listener(model, mask))
        return found if task.local is None else found | self._local(device, version, task.local)

    def _local(self, device: int, version: int, work: Work) -> dict[str, float]:
        """Evaluate the model that local training leaves on a device: its own or, without one, its next upload."""
        models, method = self._models, method_of(work.plan.local.name)
        model: ModelRuntime = models.shared
        if not isinstance(method, LocalMethod) or method.keeps_own:
            model = models.own_model(device, version)
        else:
            job = self._job(device, version, work)
            job.contribute(models.clips(self._shards.rows(device), job.model), share_names=False)
        return self._accuracies("local", device, model, models.labels(model).mask)

    def _listener(self, model: ModelRuntime, mask: Floats) -> Listener:
        """Return a model as a device listens with it, among the mask's outputs."""
        labels = self._models.labels(model)
        return Listener(model.get_weights(), replace(labels, off=tuple(np.flatnonzero(labels.mask > mask).tolist())))

    def _personalise(
        self,
        device: int,
        model: ModelRuntime,
        how: Choice,
        start: Mapping[str, Floats],
        rng: np.random.Generator,
        *,
        has_own: bool,
    ) -> bool:
        """Fine-tune and choose as a device does, its own model among the choices if the fleet has its architecture."""
        models = self._models
        clips, choose, public = (
            self._models.clips(rows, model)
            for rows in (self._shards.rows(device), self._shards.choose(device), self._shards.public)
        )
        own = model.get_weights() if has_own else None
        fleets: Arrays = model.get_weights()
        if start and model.manifest.sha256.get("model.tflite") == models.shared.manifest.sha256.get("model.tflite"):
            fleets = dict(models.weights)
            model.set_weights(start)
        else:
            own = None
        task = PersonalTask(
            model=model,
            label_map=models.labels(model),
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

    def _own(self, device: int, version: int) -> dict[str, float]:
        model = self._models.own_model(device, version)
        mask = self._models.mask(device, model)
        found = self._accuracies("own", device, model, mask)
        trained = self._models.clips(self._shards.rows(device), model)
        known = held_out_accuracy(model, mask, trained, np.unique(trained.slots).tolist())
        return {"own": found["own_own"], "own_test": found["own_strangers"], "own_trained": known}

    def _without_fleet(self, device: int, rng: np.random.Generator, result: Listener) -> dict[str, float]:
        """Return what a device would have alone, from the public set, and from both, and what its guard chooses."""
        models, how = self._models, self._models.setup.experiment.baselines
        if how is None:
            return {}
        architecture = int(models.architectures[device])
        model = models.own[architecture]
        initial, labels = models.initial[architecture], models.labels(model)

        def train(clips: Clips, beside: Clips | None, rng: np.random.Generator) -> Arrays:
            """Train on clips, and beside them on as many others; the last passes take smaller steps."""
            model.set_weights(initial)
            large = round(_SETTLE * how.passes)
            for passes, factor in ((large, 1.0), (how.passes - large, _SMALLER)):
                settings = {"epochs": passes, "learning_rate": factor * how.learning_rate, "momentum": 0.9}
                fine_tune(model, labels, clips, settings, rng, beside)
            return model.get_weights()

        clips, public = (self._models.clips(rows, model) for rows in (self._shards.rows(device), self._shards.public))
        train(clips, None, rng)
        alone = self._listener(model, models.mask(device, model))
        found = self._accuracies("alone", device, model, alone.label_map.mask)
        shapes = [{name: array.shape for name, array in one.weights.items()} for one in (alone, result)]
        if shapes[0] == shapes[1]:  # else the one is of another architecture
            chosen = self._guarded(device, model, alone, result)
            model.set_weights(chosen.weights)
            found |= self._accuracies("guarded", device, model, chosen.label_map.mask)
        if not len(public.slots):
            return found
        if architecture not in self._public_only:
            of_set = np.random.default_rng([self._seed, 10, architecture])
            self._public_only[architecture] = train(public, None, of_set)
        model.set_weights(self._public_only[architecture])
        found |= self._accuracies("public", device, model, labels.mask)
        train(clips, public, rng)
        return found | self._accuracies("both", device, model, labels.mask)
