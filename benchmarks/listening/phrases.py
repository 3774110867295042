"""Phrases that share a part: two words of one speaker, one behind the other, from recordings of single words."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.command import BenchmarkError
from benchmarks.listening.material import RATE_HZ, by_speaker, recordings_in, rms
from edge_client.audio.recordings import encode_wave, loud_stretch, read_recording
from fleet_protocol.numbers.arrays import Floats

# Phrases of a speaker, pause between the two words, what is left beside each, s, and the least of one.
_MOST, _PAUSE_S, _BESIDE_S, _SHORTEST_S = 16, (0.03, 0.12), 0.02, 0.1
_RMS, _SILENCE_S = 0.05, 0.2


def join(folder: Path, words: Sequence[Sequence[str]], into: Path) -> None:
    """Write `<first> <second>/<speaker>_<n>.wav`, 16 kHz, of recordings `<word>/<speaker>_*` of both kinds of words.

    Raises BenchmarkError: the folder lacks one of the words.
    """
    firsts, seconds = words
    for word in (*firsts, *seconds):
        if not recordings_in(folder / word):
            raise BenchmarkError(f"there are no recordings in {folder / word}; --join names folders of --words")
    for row, first in enumerate(firsts):
        for column, second in enumerate(seconds):
            begins, ends = (by_speaker(recordings_in(folder / word)) for word in (first, second))
            (into / f"{first} {second}").mkdir(parents=True)
            for speaker in sorted(begins.keys() & ends.keys()):
                rng = np.random.default_rng([row, column, sum(speaker.encode())])
                orders = [rng.permutation(len(found[speaker]))[:_MOST] for found in (begins, ends)]
                for number, (one, other) in enumerate(zip(*orders, strict=False)):
                    parts = [_word(begins[speaker][one]), _word(ends[speaker][other])]
                    if min(map(len, parts)) >= _SHORTEST_S * RATE_HZ:
                        path = into / f"{first} {second}" / f"{speaker}_{number}.wav"
                        path.write_bytes(encode_wave(_joined(parts, rng), RATE_HZ))


def _word(path: Path) -> Floats:
    samples = read_recording(path, RATE_HZ)
    begin, end = loud_stretch(samples, RATE_HZ)
    beside = round(_BESIDE_S * RATE_HZ)
    return samples[max(0, begin - beside) : end + beside]


def _joined(parts: Sequence[Floats], rng: np.random.Generator) -> Floats:
    first, second = (part / np.float32(rms(part)) * np.float32(_RMS) for part in parts)
    silence, pause = np.zeros(round(_SILENCE_S * RATE_HZ)), np.zeros(round(rng.uniform(*_PAUSE_S) * RATE_HZ))
    return np.asarray(np.clip(np.concatenate([silence, first, pause, second, silence]), -1, 1), np.float32)
