"""Hours of connected speech in backgrounds, from a folder of recordings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.command import BenchmarkError
from benchmarks.listening.dialogue import PART_S
from benchmarks.listening.material import RATE_HZ, WORD_DB, Half, background, loudness
from benchmarks.listening.own_words import shuffled
from edge_client.audio.recordings import is_recording, read_recording
from fleet_protocol.numbers.arrays import Floats

_PAUSE_S = 0.3


def speech_in_noise(
    folder: Path, half: Half, snr_db: float, hours: float, seed: int, *, last: bool = False
) -> Iterator[Floats]:
    """Yield connected speech in backgrounds, float32 [samples] at ``RATE_HZ``, in parts of ``PART_S``.

    Recordings follow one another in an order that is drawn, or from its end, each as loud as a word, until the hours
    are full. Raises BenchmarkError: there is less speech.
    """
    rng = np.random.default_rng(seed)
    files = shuffled(sorted(path for path in folder.rglob("*") if path.is_file() and is_recording(path)), rng)
    pieces = _pieces(files[::-1] if last else files)
    pause, left = np.zeros(round(_PAUSE_S * RATE_HZ), np.float32), round(hours * 3600 * RATE_HZ)
    part = np.zeros(0, np.float32)
    while left > 0:
        size = min(left, round(PART_S * RATE_HZ))
        while len(part) < size:
            if (piece := next(pieces, None)) is None:
                raise BenchmarkError(f"{folder} has less than {hours:g} hours of speech; give --hours")
            part = np.concatenate([part, 10 ** (WORD_DB / 20) / loudness(piece) * piece, pause])
        noise = background(half, size, rng) * np.float32(10 ** ((WORD_DB - snr_db) / 20))
        yield np.clip(part[:size] + noise, -1.0, 1.0).astype(np.float32)
        part, left = part[size:], left - size


def _pieces(files: Sequence[Path]) -> Iterator[Floats]:
    """Yield the recordings, the first minute of each; a silent one is left out."""
    for path in files:
        piece = read_recording(path, RATE_HZ)
        if piece.any():
            yield piece
