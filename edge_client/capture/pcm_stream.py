"""One opened capture device: the process that records from it, and what its bytes mean."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edge_client.capture.pcm_process import PcmProcess
from fleet_protocol.arrays import Floats

_FULL_SCALE = 32_768.0


@dataclass
class PcmStream:
    """Sound from an opened device.

    Attributes:
        process: Process that records.
        device: Name of the device.
        rate_hz: Sample rate of the recording, Hz.
        channels: Number of recorded channels.
    """

    process: PcmProcess
    device: str
    rate_hz: int
    channels: int

    def read(self, timeout_s: float) -> Floats:
        """Return what arrived meanwhile, the mean of all channels: float32 [any] in -1..1, none when the timeout ends.

        Raises:
            AudioError: the recording ended.
        """
        frames = self.process.read(self.channels, timeout_s)
        mixed: Floats = frames.mean(axis=1, dtype=np.float32)
        return mixed / np.float32(_FULL_SCALE)
