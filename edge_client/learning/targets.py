"""Soft targets: the only thing in which the fleet's methods differ (docs/models.md, "The loss").

Each function returns float32 [rows, capacity]. A row that sums to less than 1 pulls less; a zero row does not pull.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fleet_protocol.arrays import Floats, Ints

_SURE = 0.99


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
