"""Everyday sounds that devices are taught instead of words, and other sounds that are heard beside them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.command import BenchmarkError
from benchmarks.listening.material import Clip, Half, Material
from edge_client.audio.recordings import SUFFIXES, speaker_of

# Shares of a label's sources.
_TRAINING, _TUNING = 0.4, 0.2


def with_sounds(material: Material, folder: Path, labels: Sequence[str], seed: int) -> Material:
    """Return material in which sounds stand for words; backgrounds stay.

    Args:
        folder: recordings ``<label>/<source>_*``; no source is in two parts.
        labels: those that are taught.

    Raises:
        BenchmarkError: a label has too few sources.
    """
    rng = np.random.default_rng(seed)
    parts: tuple[list[Clip], ...] = ([], [], [])
    for label in sorted({*labels, *(path.name for path in folder.iterdir() if path.is_dir())}):
        paths = sorted(path for path in (folder / label).glob("*") if path.suffix.lower() in SUFFIXES)
        sources = rng.permutation(sorted({speaker_of(path) for path in paths}))
        if len(sources) < 5:
            raise BenchmarkError(f"{folder / label} has {len(sources)} sources; give a folder with 5 or more of each")
        first, second = round(_TRAINING * len(sources)), round((_TRAINING + _TUNING) * len(sources))
        for clips, chosen in zip(parts, np.split(sources, [first, second]), strict=True):
            own = (path for path in paths if speaker_of(path) in chosen)
            clips += [Clip(label if label in labels else None, path) for path in own]
    training, tuning, report = (tuple(clips) for clips in parts)
    return Material(
        tuple(clip for clip in training if clip.label is not None),
        tuple(clip for clip in training if clip.label is None),
        material.noise,
        Half(tuning, material.tuning.backgrounds),
        Half(report, material.report.backgrounds),
    )
