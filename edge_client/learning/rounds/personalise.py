"""A model of the device's own: the round's result, fine-tuned on its clips (Xu et al. 2025, algorithm 1, phase 2).

The device listens with the better of the personal and the global model on clips that neither was trained on here;
ties go to the global one.
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


def personalise(
    model: ModelRuntime,
    label_map: LabelMap,
    clips: Clips,
    held_out: Clips,
    settings: Mapping[str, Value],
    rng: np.random.Generator,
    global_weights: Arrays | None = None,
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

    Returns:
        ``personal_accuracy`` and ``global_accuracy_held_out`` among all of the device's classes, in %, and ``kept``: 1
        for the personal model, 0 for the global one. Without clips to train on or to evaluate on, ``kept`` alone: 0.
    """
    baseline = model.get_weights() if global_weights is None else global_weights
    loss = fine_tune(model, label_map, clips, settings, rng) if len(held_out.slots) else math.nan
    if not math.isfinite(loss):
        model.set_weights(baseline)
        return {"kept": 0.0}
    personal = model.get_weights()
    slots = range(len(label_map.slots))
    found = held_out_accuracy(model, label_map.mask, held_out, slots)
    model.set_weights(baseline)
    before = held_out_accuracy(model, label_map.mask, held_out, slots)
    if found > before:
        model.set_weights(personal)
    return {
        "personal_accuracy": 100.0 * found,
        "global_accuracy_held_out": 100.0 * before,
        "kept": float(found > before),
    }


def fine_tune(
    model: ModelRuntime, label_map: LabelMap, clips: Clips, settings: Mapping[str, Value], rng: np.random.Generator
) -> float:
    """Train on the device's clips; return the last pass's mean loss (nan without clips).

    Only the outputs of the classes in ``clips`` are trained: the others, of which the device has no clip, would be
    pushed down on every one and so unlearned.
    """
    own = np.zeros(label_map.capacity, np.float32)
    own[np.unique(clips.slots)] = 1.0
    targets = from_slots(clips.slots, label_map.capacity)
    optimiser = Optimiser(float(settings["learning_rate"]), float(settings["momentum"]))
    loss = math.nan
    for _ in range(int(settings["epochs"]) if len(clips.slots) else 0):
        loss = train_epoch(model, clips.draw(rng), targets, own, optimiser, rng)
    return loss
