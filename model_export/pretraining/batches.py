"""What a training step sees: variants of clips drawn by class, and which class each belongs to.

The classes are the words, the same words played backwards, and noise. Backward words cost nothing, and widen what the
embedding must tell apart.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fleet_protocol.arrays import Floats
from model_export.pretraining.augmentation import Augmentation, augment, coloured_noise, normalised
from model_export.pretraining.corpus import NOISE, Corpus
from model_export.pretraining.pictures import FRAMES, LOG_POWERS, to_pixels

_FEWEST_NOISES = 200  # that the noise class counts for where the corpus has fewer
_POOL = 512  # synthesised noises
# Running speech: clips that a speaker has at least, frames of it outside the window, and how much quieter, in nepers of
# power, a word's edges are than its loudest frame.
_WORDS, _OUTSIDE, _QUIETER = 3, 20, 4.0
_SYNTHETIC_NOISE = 0.3  # share of the noises that are synthesised


@dataclass(frozen=True)
class Batches:
    """Draws batches; the same seed and step give the same batch.

    Attributes:
        corpus: the clips to draw from.
        augmentation: how much they vary.
        size: clips of a batch.
        backwards: share of the words that are played backwards.
        seed: of all draws.
    """

    corpus: Corpus
    augmentation: Augmentation
    size: int
    backwards: float
    seed: int

    @property
    def classes(self) -> int:
        """Number of classes: words, words backwards, noise."""
        return 2 * len(self.corpus.vocabulary) + 1

    @cached_property
    def _clips(self) -> list[NDArray[np.int64]]:
        """The clips' indices of every word, and of noise at the end."""
        return [np.flatnonzero(self.corpus.words == word) for word in (*self.corpus.vocabulary, NOISE)]

    @cached_property
    def _shares(self) -> Floats:
        """Share of every class: a clip is drawn with p ~ n^-0.5, and so a class of n clips with p ~ n^0.5."""
        counts = [len(clips) for clips in self._clips]
        counts[-1] = max(counts[-1], _FEWEST_NOISES)
        return np.asarray(np.sqrt(counts) / np.sqrt(counts).sum())

    @property
    def forward_shares(self) -> Floats:
        """Share of the clips drawn that each word, not played backwards, and noise has: float32 [words + 1]."""
        forwards = np.append(np.full(len(self._shares) - 1, 1 - self.backwards), 1.0)
        return np.asarray(self._shares * forwards, np.float32)

    def draw(self, step: int) -> tuple[Floats, NDArray[np.int32]]:
        """Return a step's input, float32 [size, 98, 40], and its classes, int32 [size]."""
        rng = np.random.default_rng([self.seed, step])
        words = len(self._clips) - 1
        chosen = rng.choice(words + 1, self.size, p=self._shares)
        clips = self._noises(self.size, rng)
        for row, word in enumerate(chosen):
            if word < words:
                clips[row] = LOG_POWERS[self.corpus.pixels[rng.choice(self._clips[word])]]
        backwards = (chosen < words) & (rng.random(self.size) < self.backwards)
        clips[backwards] = clips[backwards, ::-1]
        varied = augment(clips, self._noises(self.size, rng), self.augmentation, rng)
        classes = np.where(chosen == words, 2 * words, chosen + words * backwards)
        return normalised(varied), classes.astype(np.int32)

    def variants(self, each: int) -> tuple[Floats, NDArray[np.str_]]:
        """Return inputs as in training, but forwards and with nothing hidden, and the word of each.

        Args:
            each: variants of every word, and of noise.

        Returns:
            float32 [clips, 98, 40], and the words or NOISE.
        """
        rng = np.random.default_rng([self.seed, _POOL, each])
        seen = replace(self.augmentation, masks=0)
        parts = []
        for found in self._clips[:-1]:
            clips = LOG_POWERS[self.corpus.pixels[rng.choice(found, each)]]
            parts.append(augment(clips, self._noises(each, rng), seen, rng))
        parts.append(augment(self._noises(each, rng), self._noises(each, rng), seen, rng))
        return normalised(np.concatenate(parts)), np.repeat([*self.corpus.vocabulary, NOISE], each)

    def running_speech(self, count: int) -> Floats:
        """Return inputs of windows in which one person's words follow one another, in noise, float32 [count, 98, 40].

        The beginning of the first word and the end of the last are mostly outside, as in a window of talk.
        """
        rng = np.random.default_rng([self.seed, _POOL, count])
        said: dict[str, list[int]] = {}
        for row in np.concatenate(self._clips[:-1]):
            said.setdefault(str(self.corpus.speakers[row]), []).append(int(row))
        everybody = [row for rows in said.values() for row in rows]
        people = [rows for rows in said.values() if len(rows) >= _WORDS] or [everybody]
        windows = np.stack([self._run_together(people[rng.integers(len(people))], rng) for _ in range(count)])
        return normalised(augment(windows, self._noises(count, rng), replace(self.augmentation, masks=0), rng))

    def _run_together(self, rows: list[int], rng: np.random.Generator) -> Floats:
        """Join the loud parts of clips until they are longer than a window; return a window of them."""
        parts: list[Floats] = []
        while sum(map(len, parts)) < FRAMES + _OUTSIDE:
            clip = LOG_POWERS[self.corpus.pixels[rows[rng.integers(len(rows))]]]
            level = clip.mean(axis=1)
            loud = np.flatnonzero(level > level.max() - _QUIETER)
            parts.append(clip[loud[0] : loud[-1] + 1])
        line = np.concatenate(parts)
        start = rng.integers(len(line) - FRAMES + 1)
        return line[start : start + FRAMES]

    def _noises(self, count: int, rng: np.random.Generator) -> Floats:
        """Draw recorded noises and synthesised ones, float32 [count, 98, 40]."""
        recorded = self._clips[-1]
        noises: Floats = LOG_POWERS[self._synthesised[rng.integers(len(self._synthesised), size=count)]]
        if len(recorded):
            real = rng.random(count) >= _SYNTHETIC_NOISE
            noises[real] = LOG_POWERS[self.corpus.pixels[rng.choice(recorded, int(real.sum()))]]
        return noises

    @cached_property
    def _synthesised(self) -> NDArray[np.uint8]:
        """Synthesised noises, uint8 [noises, 98, 40]; to make new ones in every step would take as long as training."""
        return to_pixels(coloured_noise(_POOL, np.random.default_rng([self.seed, _POOL])))
