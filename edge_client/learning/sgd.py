"""Momentum SGD on the device, the accuracy of scores, and soft targets, the only thing in which the fleet's methods
differ (docs/models.md, "The loss").

A target is float32 [rows, capacity]. A row that sums to less than 1 pulls less; a zero row does not pull.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edge_client.model.runtime import ModelRuntime
from fleet_protocol.numbers.arrays import Floats, Ints

# After this share of the passes the steps become this much smaller, so that the last batch does not decide.
_SETTLE, _SMALLER = 0.7, 0.25
_SURE = 0.99


def settling(rate: float, epoch: int, epochs: int) -> float:
    """Return the step size of a pass: ``rate``, and less in the last passes."""
    return rate if epoch < _SETTLE * epochs else _SMALLER * rate


@dataclass(frozen=True)
class Optimiser:
    """Settings of momentum SGD. ``momentum``: share of the last step that the next one keeps.

    ``temperature``: T of the softmax. Gradients shrink by 1/T^2, which is made up for (Hinton et al. 2015).
    """

    learning_rate: float
    momentum: float = 0.9
    temperature: float = 1.0
    proximal: float = 0.0


def train_epoch(
    model: ModelRuntime, x: Floats, targets: Floats, mask: Floats, optimiser: Optimiser, rng: np.random.Generator
) -> float:
    """Pass once over rows, float32 [rows, frames, coefficients], in a random order; return the mean loss, nan of none.

    Targets are float32 [rows, capacity], the mask is float32 [capacity]; the model is trained in place.
    """
    order, batch, total = rng.permutation(len(x)), model.manifest.batch, 0.0
    step = {"momentum": optimiser.momentum, "temperature": optimiser.temperature}
    step["learning_rate"] = optimiser.learning_rate * optimiser.temperature**2
    step["proximal"] = optimiser.proximal / optimiser.temperature**2
    for start in range(0, len(order), batch):
        rows = order[start : start + batch]
        total += len(rows) * model.train_step(x[rows], targets[rows], mask, **step)
    return total / len(x) if len(x) else float("nan")


def accuracy(scores: Floats, labels: Ints, columns: Sequence[int]) -> float:
    """Share of right answers among the samples of some classes, as a fraction 0..1 (nan where there are none).

    Scores are float32 [samples, len(columns)], labels int64 [samples]; ``columns`` has the class of every column.
    """
    order = np.asarray(columns, np.int64)
    rows = np.isin(labels, order)
    if not rows.any():
        return float("nan")
    return float((order[scores[rows].argmax(axis=1)] == labels[rows]).mean())


def from_slots(slots: Ints, capacity: int) -> Floats:
    """Turn int64 [rows] slots into one-hot targets: plain cross-entropy."""
    targets = np.zeros((len(slots), capacity), np.float32)
    targets[np.arange(len(slots)), slots] = 1.0
    return targets


def at_temperature(targets: Floats, mask: Floats, temperature: float) -> Floats:
    """Return what a network that is 99 % sure of one-hot targets, float32 [rows, capacity], answers at a temperature.

    Distillation compares answers at its temperature. A one-hot target would ask there for logits that grow without end,
    and the labels' rows would outweigh the others. ``mask``, float32 [capacity], has the classes to choose from.
    """
    certain = np.log(_SURE / (1 - _SURE) * max(1.0, float(mask.sum()) - 1)) / temperature
    powers = np.exp(certain * targets) * mask
    return np.asarray(powers / powers.sum(axis=1, keepdims=True), np.float32)


def from_consensus(scores: Floats, slots: Sequence[int], capacity: int) -> Floats:
    """Turn the fleet's scores into targets: distillation of the consensus (after FedMD, Li & Wang 2019).

    Scores, float32 [rows, len(slots)], are the columns of f_G that the device has a slot for. Every row is normalised
    to sum 1; rows that nobody has scored yet stay zero.
    """
    total = scores.sum(axis=1, keepdims=True)
    targets = np.zeros((len(scores), capacity), np.float32)
    targets[:, list(slots)] = np.divide(scores, total, out=np.zeros_like(scores), where=total > 0)
    return targets
