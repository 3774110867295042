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
        bytes_per_second: Speed of every device's link; 0: transfers cost no time.
    """

    sample_s: Doubles
    bytes_per_second: float

    @classmethod
    def of(cls, fleet: FleetSection, seed: int) -> DeviceTime:
        """Draw the devices' factors, lognormal with median 1."""
        factors = np.random.default_rng([seed, 7]).lognormal(0.0, fleet.speed_spread, fleet.devices)
        return cls(fleet.sample_seconds * factors, fleet.bytes_per_second)

    def of_round(self, devices: Sequence[int], samples: Sequence[int], numbers: Sequence[int]) -> dict[str, float]:
        """Return ``round_seconds``, the slowest device's, and ``device_seconds``, the sum of all.

        Args:
            devices: of the round.
            samples: that each trained on.
            numbers: of four bytes that each got, and sent.
        """
        sent = 2 * 4 * np.asarray(numbers) / self.bytes_per_second if self.bytes_per_second else 0.0
        seconds = self.sample_s[list(devices)] * np.asarray(samples) + sent
        return {"round_seconds": float(seconds.max()), "device_seconds": float(seconds.sum())}
