"""Where sound comes from: a folder of recordings to learn from (recordings.py), a microphone (microphone.py)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # the process that records (portaudio_process.py) does without NumPy
    import numpy as np
    from numpy.typing import NDArray


class ClipSource(Protocol):
    """Clips by label, a share of them for each round."""

    def labels(self) -> tuple[str, ...]:
        """Return the labels that have clips now; one that was not there before is a new sound."""

    def clips_for_round(self, round_number: int, label: str) -> list[Path]:
        """Return a label's clips for a round: the same for the same round, none for an unknown label."""

    def load(self, clips: Sequence[Path]) -> NDArray[np.float32]:
        """Return float32 [clips, samples] in -1..1, in order, without those that cannot be used."""


class AudioSource(Protocol):
    """An endless stream of sound, read in order by one thread."""

    @property
    def sample_rate_hz(self) -> int:
        """Of the samples that ``read`` returns, the model's."""

    @property
    def frames(self) -> int:
        """Samples delivered so far, at that rate."""

    @property
    def overflows(self) -> int:
        """Bursts of sound that were lost, because nobody read in time or the hardware said so."""

    @property
    def reopened(self) -> int:
        """How many times the stream was opened anew, because it died or fell silent."""

    def read(self, samples: int, timeout_s: float) -> NDArray[np.float32]:
        """Return the next samples: float32 [samples] in -1..1; fewer (also none) only when the timeout ends first."""

    def close(self) -> None:
        """Stop recording; reading is over."""
