"""The form in which the device keeps sound: WAV files of one channel, 16 bit, as every player reads them."""

from __future__ import annotations

import hashlib
import io
import re
import wave
from pathlib import Path

import numpy as np

from edge_client.errors import RecordingError
from fleet_protocol.arrays import Floats

# A taught clip; an unknown sound, behind its time and score.
_OWN_NAME = re.compile(r"([0-9a-f]{16})\.wav|\d{13,}-\d{4}-([0-9a-f]{8})\.wav")


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


def content_name(data: bytes, digits: int = 16) -> str:
    """Return the name of a sound file that the device keeps: the first hex digits of the SHA-256 of its bytes."""
    return f"{hashlib.sha256(data).hexdigest()[:digits]}.wav"


def require_whole(path: Path) -> None:
    """Compare a file that the device named by its content with its name; any other cannot be checked.

    Raises:
        RecordingError: the content is another one.
        OSError: it cannot be read.
    """
    match = _OWN_NAME.fullmatch(path.name)
    if match is None:
        return
    named = match[1] or match[2]
    if content_name(path.read_bytes(), len(named)) != f"{named}.wav":
        raise RecordingError(
            f"{path} is damaged: its name is the digest of what was recorded, and its content is something else; "
            "delete it and record the sound again, or rename it if it is a recording of your own"
        )
