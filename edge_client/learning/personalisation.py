"""What a personalisation is: how a device makes a model of its own of a round's result (docs/methods.md).

Fine-tuning passes over the public set by its labels beside the device's clips, unless the plan says otherwise: the
model then goes on to know other voices, and classes of which the device has few clips. The paper has the clips alone
(Xu et al. 2025, algorithm 1, phase 2).

The device listens with the better of the personal and the global model on clips that neither was trained on here. With
FedMLAC it has a model of its own as well, as a third choice. Few clips often cannot tell models apart. With public
labels beside, which keep the model from forgetting, the personal one is then taken; in the paper's form the global one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from edge_client.learning.sgd import Optimiser, from_slots, train_epoch
from edge_client.learning.training_data import Clips, held_out_accuracy
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.bundle.labels import LabelMap
from fleet_protocol.methods.personalisations import GROUP_BALANCED, LOCAL, NONE, PersonalisationTerms
from fleet_protocol.methods.registry import Registry, discover
from fleet_protocol.methods.setting import Value
from fleet_protocol.numbers.tensors import Arrays

_PERSONAL, _GLOBAL = "personal_accuracy", "global_accuracy_held_out"


@dataclass(frozen=True, kw_only=True)
class PersonalTask:
    """What a personalisation works on, on a device.

    Attributes:
        model: Model with the weights to start from: the fleet's, or those of the device's group.
        public: Public set, of which the first variant is used; None: there is none.
        own_weights: Weights of a model of the device's own; None: it has none beside the fleet's.
    """

    model: ModelRuntime
    label_map: LabelMap
    clips: Clips
    held_out: Clips
    settings: Mapping[str, Value]
    rng: np.random.Generator
    global_weights: Arrays
    public: Clips | None = None
    own_weights: Arrays | None = None

    def fine_tune(self) -> float:
        """Train the model as ``FINE_TUNING`` says; return the last pass's mean loss, nan where nothing was trained."""
        if not len(self.held_out.slots):
            return math.nan
        beside = self.public if self.settings.get("labels", True) else None
        return fine_tune(self.model, self.label_map, self.clips, self.settings, self.rng, beside)

    def keep_better(self, loss: float) -> dict[str, float]:
        """Leave the model with whichever weights serve the device better: those that it has now, or the fleet's.

        Where the loss of its training is not finite, the fleet's weights are taken. Returns ``personal_accuracy``,
        ``global_accuracy_held_out`` and, with own weights, ``own_accuracy_held_out`` among all of the device's classes,
        in %, and ``kept``: 0 for the global model, else 1. Without clips to train on or to evaluate on, ``kept`` alone:
        0.
        """
        personal = self.model.get_weights()
        if not math.isfinite(loss) or not all(np.isfinite(array).all() for array in personal.values()):
            self.model.set_weights(self.global_weights)
            return {"kept": 0.0}
        choices = {_GLOBAL: self.global_weights, _PERSONAL: personal}
        if self.own_weights is not None:
            choices["own_accuracy_held_out"] = self.own_weights
        found, mask, labels = {}, self.label_map.mask, range(len(self.label_map.slots))
        for name, weights in choices.items():
            self.model.set_weights(weights)
            found[name] = 100.0 * held_out_accuracy(self.model, mask, self.held_out, labels)
        preferred = _PERSONAL if self.settings.get("labels", True) else _GLOBAL
        best = max(found, key=lambda name: (found[name], name == preferred))
        self.model.set_weights(choices[best])
        return found | {"kept": float(best != _GLOBAL)}


@dataclass(frozen=True)
class Personalisation(PersonalisationTerms):
    """A way to make a model of each device's own from a round's result.

    ``adapt``, the device's part, leaves the task's model with the weights to listen with, and returns what was
    measured; None: the result stays as it is.
    """

    adapt: Callable[[PersonalTask], dict[str, float]] | None = None


def fine_tuned(task: PersonalTask) -> dict[str, float]:
    """Fine-tune a model and leave it with whichever weights serve the device better; return what was measured."""
    return task.keep_better(task.fine_tune())


def fine_tune(
    model: ModelRuntime,
    label_map: LabelMap,
    clips: Clips,
    settings: Mapping[str, Value],
    rng: np.random.Generator,
    public: Clips | None = None,
) -> float:
    """Train on the device's clips, and as many public rows; return the last pass's mean loss, nan without clips."""
    # Only the outputs of classes with clips or public rows are trained: the others would be pushed down on every clip
    # and so unlearned.
    beside = np.zeros(0, np.int64) if public is None else public.slots
    trained = np.zeros(label_map.capacity, np.float32)
    trained[clips.slots] = trained[beside] = 1.0
    optimiser = Optimiser(float(settings["learning_rate"]), float(settings["momentum"]))
    loss = math.nan
    for _ in range(int(settings["epochs"]) if len(clips.slots) else 0):
        x, slots = clips.draw(rng), clips.slots
        if public is not None and len(beside):
            rows = rng.integers(len(beside), size=len(slots))
            x, slots = np.concatenate([x, public.x[0][rows]]), np.concatenate([slots, beside[rows]])
        loss = train_epoch(model, x, from_slots(slots, label_map.capacity), trained, optimiser, rng)
    return loss


PERSONALISATIONS = (
    Personalisation("none", NONE.settings, about=NONE.about),
    Personalisation("local", LOCAL.settings, fine_tuned, about=LOCAL.about),
    # (Xu et al. 2025): a device does what ``local`` does, the aggregator makes groups.
    Personalisation(
        "group_balanced", GROUP_BALANCED.settings, fine_tuned, groups=GROUP_BALANCED.groups, about=GROUP_BALANCED.about
    ),
)


def personalisations() -> Registry[Personalisation]:
    """Return every personalisation by name."""
    return discover("PERSONALISATION", "auricle.personalisations", Personalisation, table=PERSONALISATIONS)
