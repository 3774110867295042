"""How long devices would take for what they did: each has a speed of its own, and a link.

seconds of a device = samples x seconds for a sample x its factor + bytes up and down / bytes in a second
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fleet_protocol.arrays import Doubles
from fleet_simulator.experiment.sections import FleetSection


@dataclass(frozen=True)
class DeviceTime:
    """The devices' speeds.

    Attributes:
        sample_s: Seconds for one sample of a training step, float64 [devices].
        transfer_s: Seconds for one model down and one up.
    """

    sample_s: Doubles
    transfer_s: float

    @classmethod
    def of(cls, fleet: FleetSection, weights: int, seed: int) -> DeviceTime:
        """Draw the devices' factors, lognormal with median 1; a model's weights have four bytes each."""
        factors = np.random.default_rng([seed, 7]).lognormal(0.0, fleet.speed_spread, fleet.devices)
        transfer = 2 * 4 * weights / fleet.bytes_per_second if fleet.bytes_per_second else 0.0
        return cls(fleet.sample_seconds * factors, transfer)

    def of_round(self, devices: Sequence[int], samples: Sequence[int]) -> dict[str, float]:
        """Return ``round_seconds``, the slowest device's, and ``device_seconds``, the sum of all."""
        seconds = self.sample_s[list(devices)] * np.asarray(samples) + self.transfer_s
        return {"round_seconds": float(seconds.max()), "device_seconds": float(seconds.sum())}
