"""Trains a bundle's weights on embeddings, from the bundle's own initial weights: labels and what is no label.

Every teaching starts anew, so that the order in which sounds were taught does not matter and nothing is forgotten.
The graph is the bundle's: rounds go on training the same weights.

Where a fleet tells of sounds too, two heads are trained, one on the device's own takes alone, and their weights are
averaged (Wortsman et al. 2022, WiSE-FT and model soups): so the fleet's sounds cost fewer of the device's own. The head
is linear, and both begin with the same weights, so that their logits are averaged.

What it costs: 60 passes of 50 rows a label, 10 a word of the pretraining and 105 more. With nine labels these are
49,500 rows in about 1,550 steps, with a fleet at most twice that; `python -m benchmarks.arm_instructions` counts a row
of a step on ARMv7. The front end computes eight windows for each new take, and 100 more when the device is taught for
the first time.
"""

from __future__ import annotations

import math

import numpy as np

from edge_client.learning.sgd import Optimiser, settling, train_epoch
from edge_client.learning.teaching.head_material import HeadMaterial
from edge_client.learning.teaching.taught import require_learned
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.labels import LabelMap
from fleet_protocol.tensors import Arrays

# Weight of the head that has learned the fleet's sounds too; docs/teaching.md says how it was chosen.
_FLEET = 0.8


def train_head(
    model: ModelRuntime,
    start: Arrays,
    label_map: LabelMap,
    material: HeadMaterial,
    epochs: int,
    rate: float,
    seed: int,
    own: Arrays | None = None,
) -> Arrays:
    """Return weights that tell labels from one another and from what is no label.

    Args:
        model: does the work; its own weights are overwritten.
        start: weights to begin with: the bundle's.
        label_map: of the head; it has background outputs.
        material: what to train on.
        epochs: passes.
        rate: step size of the first ones.
        seed: of everything random.
        own: weights that learned ``material.own`` before; None: they are trained here.

    Raises:
        ModelError: the training diverged.
    """
    weights = _trained(model, start, label_map, material, epochs, rate, seed)
    head = model.manifest.head.weights
    if material.own is None or set(start) != set(head):  # with a hidden layer, averages of weights are no averages
        return weights
    if own is None:
        own = _trained(model, start, label_map, material.own, epochs, rate, seed)
    # Of an output without takes the own head knows nothing but that it is never right.
    shared = sorted(material.slots & material.own.slots)
    for name in head:
        weights[name][..., shared] = _FLEET * weights[name][..., shared] + (1 - _FLEET) * own[name][..., shared]
    return weights


def _trained(
    model: ModelRuntime, start: Arrays, label_map: LabelMap, material: HeadMaterial, epochs: int, rate: float, seed: int
) -> Arrays:
    rng = np.random.default_rng(seed)
    model.set_weights(start)
    loss = math.nan
    for epoch in range(epochs):
        rows, targets = material.one_pass(label_map.capacity, rng)
        x, optimiser = model.normalise(rows[:, None]), Optimiser(settling(rate, epoch, epochs))
        loss = train_epoch(model, x, targets, label_map.listening_mask, optimiser, rng)
    require_learned(loss, rate)
    return model.get_weights()
