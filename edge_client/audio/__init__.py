"""Sound that is stored: recordings on disk, wave files, resampling and level."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # the process that records (portaudio_process.py) does without NumPy
    from fleet_protocol.arrays import Floats


class ClipSource(Protocol):
    """Clips by label, a share of them for each round."""

    def labels(self) -> tuple[str, ...]:
        """Return the labels that have clips now; one that was not there before is a new sound."""

    def clips_for_round(self, round_number: int, label: str) -> list[Path]:
        """Return a label's clips for a round: the same for the same round, none for an unknown label."""

    def load(self, clips: Sequence[Path]) -> Floats:
        """Return float32 [clips, samples] in -1..1, in order, without those that cannot be used."""
