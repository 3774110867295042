"""A model of the device's own: the round's result, fine-tuned on its clips (Xu et al. 2025, algorithm 1, phase 2).

Beside the clips it passes over the public set by its labels, unless the plan says otherwise: the model then goes on to
know other voices, and classes of which the device has few clips. The paper has the clips alone.

The device listens with the better of the personal and the global model on clips that neither was trained on here. With
FedMLAC it has a model of its own as well, as a third choice. Few clips often cannot tell models apart. With public
labels beside, which keep the model from forgetting, the personal one is then taken; in the paper's form the global one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from edge_client.learning.sgd import Optimiser, train_epoch
from edge_client.learning.targets import from_slots
from edge_client.learning.training_data import Clips, held_out_accuracy
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.labels import LabelMap
from fleet_protocol.setting import Value
from fleet_protocol.tensors import Arrays

_PERSONAL, _GLOBAL = "personal_accuracy", "global_accuracy_held_out"


def personalise(
    model: ModelRuntime,
    label_map: LabelMap,
    clips: Clips,
    held_out: Clips,
    settings: Mapping[str, Value],
    rng: np.random.Generator,
    global_weights: Arrays | None = None,
    public: Clips | None = None,
    own_weights: Arrays | None = None,
) -> dict[str, float]:
    """Fine-tune a model and leave it with whichever weights serve the device better.

    Args:
        model: with the weights to start from: the fleet's, or those of the device's group.
        label_map: of the model.
        clips: to train on.
        held_out: to evaluate on.
        settings: of the plan's personalisation.
        rng: of order and variants.
        global_weights: of the fleet's model, where the model starts from its group's.
        public: the public set, of which the first variant is used; None: there is none.
        own_weights: of a model of the device's own; None: it has none beside the fleet's.

    Returns:
        ``personal_accuracy``, ``global_accuracy_held_out`` and, with own weights, ``own_accuracy_held_out`` among all
        of the device's classes, in %, and ``kept``: 0 for the global model, else 1. Without clips to train on or to
        evaluate on, ``kept`` alone: 0.
    """
    baseline = model.get_weights() if global_weights is None else global_weights
    beside = public if settings["labels"] else None
    loss = fine_tune(model, label_map, clips, settings, rng, beside) if len(held_out.slots) else math.nan
    personal = model.get_weights()
    if not math.isfinite(loss) or not all(np.isfinite(array).all() for array in personal.values()):
        model.set_weights(baseline)
        return {"kept": 0.0}
    choices = {_GLOBAL: baseline, _PERSONAL: personal}
    if own_weights is not None:
        choices["own_accuracy_held_out"] = own_weights
    found = {}
    for name, weights in choices.items():
        model.set_weights(weights)
        found[name] = 100.0 * held_out_accuracy(model, label_map.mask, held_out, range(len(label_map.slots)))
    preferred = _PERSONAL if settings["labels"] else _GLOBAL
    best = max(found, key=lambda name: (found[name], name == preferred))
    model.set_weights(choices[best])
    return found | {"kept": float(best != _GLOBAL)}


def fine_tune(
    model: ModelRuntime,
    label_map: LabelMap,
    clips: Clips,
    settings: Mapping[str, Value],
    rng: np.random.Generator,
    public: Clips | None = None,
) -> float:
    """Train on the device's clips, and beside them on as many public rows; return the last pass's mean loss.

    It is nan without clips. Only the outputs of classes with clips or public rows are trained: the others would be
    pushed down on every clip and so unlearned.
    """
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
