"""The form in which the device keeps sound: WAV files of one channel, 16 bit, as every player reads them."""

from __future__ import annotations

import io
import wave

import numpy as np

from fleet_protocol.arrays import Floats


def encode_wave(samples: Floats, rate_hz: int) -> bytes:
    """Return a WAV file; read again, its samples are within half a step (2^-16) of these.

    Args:
        samples: float32 [samples] in -1..1; what lies beyond is clipped.
        rate_hz: their rate.
    """
    levels = np.clip(np.rint(samples.astype(np.float64) * 32_768), -32_768, 32_767).astype("<i2")
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate_hz)
        file.writeframes(levels.tobytes())
    return buffer.getvalue()
