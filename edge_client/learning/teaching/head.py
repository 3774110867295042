"""Trains a bundle's weights on embeddings, from the bundle's own initial weights: labels and what is no label.

The graph is the bundle's: rounds go on training the same weights.

Where the fleet has sent sounds too, two heads are trained, one on the device's own takes alone, and their weights are
averaged (Wortsman et al. 2022, WiSE-FT and model soups): so the fleet's sounds cost fewer of the device's own. The head
is linear, and both begin with the same weights, so that their logits are averaged.

What it costs: 60 passes of 50 rows a label, 10 a word of the pretraining and 105 more. With nine labels these are
49,500 rows in about 1,550 steps, with a fleet at most twice that; `python -m benchmarks.arm_instructions` counts a row
of a step on ARMv7. The front end computes eight windows for each new take, up to fourteen more for one of a long word,
and 100 when the device is taught for the first time.
"""

from __future__ import annotations

import math

import numpy as np

from edge_client.errors import ModelError
from edge_client.learning.sgd import Optimiser, settling, train_epoch
from edge_client.learning.teaching.material import Material
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.numbers.tensors import Arrays

# Weight of the head that has learned the fleet's sounds too.
_FLEET = 0.8


def train_head(
    model: ModelRuntime,
    start: Arrays,
    material: Material,
    epochs: int,
    rate: float,
    seed: int,
    own: Arrays | None = None,
) -> Arrays:
    """Return weights that tell labels from one another and from what is no label; the head has background outputs.

    The model's weights are overwritten. ``own`` are weights that learned ``material.own`` before; None: they are
    trained here. Raises ModelError if the training diverged.
    """
    weights = _trained(model, start, material, epochs, rate, seed)
    head = model.manifest.head.weights
    if material.own is None or set(start) != set(head):  # with a hidden layer, averages of weights are no averages
        return weights
    if own is None:
        own = _trained(model, start, material.own, epochs, rate, seed)
    # Of an output without takes the own head knows nothing but that it is never right.
    shared = sorted(material.slots & material.own.slots)
    for name in head:
        weights[name][..., shared] = _FLEET * weights[name][..., shared] + (1 - _FLEET) * own[name][..., shared]
    return weights


def _trained(model: ModelRuntime, start: Arrays, material: Material, epochs: int, rate: float, seed: int) -> Arrays:
    rng = np.random.default_rng(seed)
    model.set_weights(start)
    loss, mask = math.nan, material.label_map.listening_mask
    for epoch in range(epochs):
        rows, targets = material.one_pass(material.label_map.capacity, rng)
        x, optimiser = model.normalise(rows[:, None]), Optimiser(settling(rate, epoch, epochs))
        loss = train_epoch(model, x, targets, mask, optimiser, rng)
    if not math.isfinite(loss):
        raise ModelError(
            f"learning what was taught diverged (loss {loss}); nothing was changed. Lower [training] "
            f"teach_learning_rate, now {rate:g}"
        )
    return model.get_weights()
