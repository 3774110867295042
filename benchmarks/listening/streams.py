"""Long streams: words at random times in a background, at a given ratio of their levels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.listening.material import RATE_HZ, SETTINGS, Clip, Half
from edge_client.audio.recordings import read_clip
from fleet_protocol.arrays import Doubles, Floats

# Root mean square of a word where it is loud, dB full scale; a speaker is nearer or farther by so many dB.
WORD_DB, NEARER_DB = -28.0, 4.0
GAP_S = (1.5, 4.0)
SECTION_S = 20.0
_FADE_S = 0.01
_LOUD_S = 0.03


@dataclass(frozen=True)
class Word:
    """A word in a stream.

    Attributes:
        begin_s: where its clip begins, s.
        label: what it is called; None for a word that nobody taught.
        word: what is said.
    """

    begin_s: float
    label: str | None
    word: str = ""


@dataclass(frozen=True)
class Stream:
    """float32 [samples] at ``RATE_HZ``, and the words in it in order of time."""

    samples: Floats
    words: tuple[Word, ...]


def make_stream(half: Half, snr_db: float, minutes: float, rng: np.random.Generator) -> Stream:
    """Mix all words of a half, or as many as fit into the time, into its backgrounds."""
    rate = RATE_HZ
    clips: list[Clip] = [half.clips[i] for i in rng.permutation(len(half.clips))]
    words, at_s = [], GAP_S[1]
    for clip in clips:
        if at_s > 60 * minutes - SETTINGS.clip_s:
            break
        words.append(Word(at_s, clip.label, clip.word))
        at_s += SETTINGS.clip_s + rng.uniform(*GAP_S)
    samples = background(half, round((at_s + 1) * rate), rate, rng) * np.float32(10 ** ((WORD_DB - snr_db) / 20))
    fade = np.minimum(1.0, np.arange(SETTINGS.clip_samples) / (_FADE_S * rate))
    for word, clip in zip(words, clips, strict=False):
        speech = read_clip(clip.path, SETTINGS) * fade * fade[::-1]
        start = round(word.begin_s * rate)
        gain = 10 ** ((WORD_DB + rng.uniform(-NEARER_DB, NEARER_DB)) / 20) / _loudness(speech, rate)
        samples[start : start + len(speech)] += (gain * speech).astype(np.float32)
    return Stream(np.clip(samples, -1.0, 1.0), tuple(words))


def background(half: Half, length: int, rate: int, rng: np.random.Generator) -> Floats:
    """Return sections of backgrounds, each with a root mean square of 1, float32 [length]."""
    section = round(SECTION_S * rate)
    parts = []
    for _ in range(-(-length // section)):
        recording = half.backgrounds[rng.integers(len(half.backgrounds))]
        part = np.resize(np.roll(recording, -int(rng.integers(len(recording)))), section)
        parts.append(part / max(1e-6, float(np.sqrt(np.mean(np.square(part))))))
    sections: Floats = np.concatenate(parts)[:length].astype(np.float32)
    return sections


def _loudness(speech: Doubles, rate: int) -> float:
    """Return the root mean square of the loudest tenth of 30 ms frames and what comes near it (within 20 dB)."""
    size = round(_LOUD_S * rate)
    power = np.square(speech[: len(speech) // size * size].reshape(-1, size)).mean(axis=1)
    return float(np.sqrt(power[power >= 0.01 * power.max()].mean())) or 1.0
