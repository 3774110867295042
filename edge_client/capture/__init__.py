"""Live sound: a microphone, read by ALSA's `arecord`, a network stream, and playback."""

from __future__ import annotations

from typing import Protocol

from fleet_protocol.arrays import Floats


class AudioSource(Protocol):
    """An endless stream of sound, read in order by one thread.

    Attributes:
        sample_rate_hz: Sample rate of what ``read`` returns, the model's, Hz.
        frames: Number of samples delivered so far, at that rate.
        overflows: Number of bursts of sound that were lost, because nobody read in time or the hardware said so.
        reopened: Number of times that the stream was opened anew, because it died or fell silent.
        lent: Whether another process has the microphone now, so that no sound comes and nothing is wrong.
        trouble: Why no sound comes now; "" while it comes.
    """

    sample_rate_hz: int
    frames: int
    overflows: int
    reopened: int
    lent: bool
    trouble: str

    def read(self, samples: int, timeout_s: float) -> Floats:
        """Return the next samples: float32 [samples] in -1..1; fewer (also none) only when the timeout ends first."""

    def close(self) -> None:
        """Stop recording; reading is over."""
