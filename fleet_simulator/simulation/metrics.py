"""What devices cost and what models are worth: simulated seconds, and a classifier's metrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fleet_protocol.arrays import Doubles, Ints
from fleet_simulator.experiment.sections import FleetSection


@dataclass(frozen=True)
class DeviceTime:
    """The devices' speeds, of which each has its own, and their links.

    seconds of a device = samples x seconds for a sample x its factor + bytes up and down / bytes in a second
    """

    sample_s: Doubles  # Seconds for one sample of a training step, float64 [devices]
    bytes_per_second: float  # Speed of every device's link; 0: transfers cost no time

    @classmethod
    def of(cls, fleet: FleetSection, seed: int) -> DeviceTime:
        """Draw the devices' factors, lognormal with median 1."""
        factors = np.random.default_rng([seed, 7]).lognormal(0.0, fleet.speed_spread, fleet.devices)
        return cls(fleet.sample_seconds * factors, fleet.bytes_per_second)

    def of_round(self, devices: Sequence[int], samples: Sequence[int], numbers: Sequence[int]) -> dict[str, float]:
        """Return ``round_seconds``, the slowest device's, and ``device_seconds``, the sum of all.

        Args:
            samples: that each trained on.
            numbers: of four bytes that each got, and sent.
        """
        sent = 2 * 4 * np.asarray(numbers) / self.bytes_per_second if self.bytes_per_second else 0.0
        seconds = self.sample_s[list(devices)] * np.asarray(samples) + sent
        return {"round_seconds": float(seconds.max()), "device_seconds": float(seconds.sum())}


def metrics(confusion: Ints) -> dict[str, float]:
    """Return a model's metrics, each 0..1.

    Args:
        confusion: [classes, classes], how many clips of each class (row) were taken for each (column); one more column
            may have those that were taken for none.

    Returns:
        ``accuracy``; and means over the classes that have clips of ``macro_f1``; ``false_accept``, the share of the
        other classes' clips that are taken for the class; and ``false_reject``, the share of the class's clips that
        are not (Li et al. 2022, section 4.1).
    """
    right, clips, taken = np.diag(confusion), confusion.sum(axis=1), confusion.sum(axis=0)[: len(confusion)]
    there = clips > 0
    others = np.maximum(clips.sum() - clips, 1)
    return {
        "accuracy": float(right.sum() / clips.sum()),
        "macro_f1": float((2 * right / np.maximum(clips + taken, 1))[there].mean()),
        "false_accept": float(((taken - right) / others)[there].mean()),
        "false_reject": float(((clips - right) / np.maximum(clips, 1))[there].mean()),
    }
