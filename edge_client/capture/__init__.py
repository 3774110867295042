"""Live sound: a microphone, read by ALSA's `arecord`, a network stream, and playback."""

from __future__ import annotations

from typing import Protocol

from fleet_protocol.numbers.arrays import Floats


class AudioSource(Protocol):
    """An endless stream of sound, read in order by one thread."""

    sample_rate_hz: int  # of what ``read`` returns, the model's, Hz
    frames: int  # number of samples delivered so far, at that rate
    overflows: int  # bursts of sound that were lost, because nobody read in time or the hardware said so
    reopened: int  # number of times that the stream was opened anew, because it died or fell silent
    lent: bool  # whether another process has the microphone now, so that no sound comes and nothing is wrong
    trouble: str  # why no sound comes now; "" while it comes

    def read(self, samples: int, timeout_s: float) -> Floats:
        """Return the next samples: float32 [samples] in -1..1; fewer (also none) only when the timeout ends first."""

    def close(self) -> None:
        """Stop recording; reading is over."""
