"""What a training step sees: variants of clips drawn by class, and which class each belongs to.

The classes are the words, the same words played backwards, noise, and connected speech where the corpus has any.
Backward words cost nothing, and widen what the embedding must tell apart. JAX draws where it trains.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from numpy.typing import NDArray

from edge_client.features.front_end import open_front_end
from fleet_protocol.ground import sample_sounds
from fleet_protocol.numbers.arrays import Floats
from model_export.pretraining.corpus import NOISE, SPEECH, Corpus
from model_export.pretraining.pictures import BANDS, FLOOR, FRAMES, LOG_POWERS, normalised, to_pixels, without_unknown
from model_export.pretraining.read_speech import ReadSpeech
from model_export.pretraining.variants import NEPERS, Augmentation, Draws, augment, even


def coloured_noise(count: int, rng: np.random.Generator, width: int = BANDS) -> Floats:
    """Return ln(power + 1e-6) of steady noises of random colour and level, float32 [count, 98, width].

    A band's power in a frame is that of a sum of a few independent bins, and so scatters as a gamma variable does.
    """
    bands = np.arange(width, dtype=np.float32) / BANDS - 0.5
    tilt = rng.uniform(-5, 1.5, (count, 1, 1)).astype(np.float32) * bands
    bumps = np.cumsum(rng.normal(0, 0.25, (count, 1, width)), axis=2).astype(np.float32)
    level = rng.uniform(-11, 3, (count, 1, 1)).astype(np.float32)
    bins = 1.5 + 5 * np.arange(width, dtype=np.float32) / BANDS
    scatter = rng.standard_gamma(bins, (count, FRAMES, width), dtype=np.float32) / bins
    return np.asarray(np.log(np.exp(tilt + bumps + level) * scatter + FLOOR), np.float32)


_POOL = 512  # synthesised noises
_PART = 120  # variants for the statistics that are made at a time, at most
_SHARE = 0.03  # of noise, and of connected speech, for all words' 1
_FAVOUR = 1.6  # how much oftener a word of the corpus is drawn than one of read speech with as many clips
_TALKERS = 4  # that are heard at the same time, at most
_TALK_QUIETER_DB = 5.0  # than other noise
_SECOND_DB = (-8.0, 8.0)  # the first of two noises against the second
# A word of read speech: frames by which its middle is off the window's at most, and by which what belongs to it reaches
# beyond its marks; share of the windows in which the words beside it are quieter, and by how many dB.
_OFF, _BEYOND, _ALONE, _QUIETER_DB = 12, 2, 0.5, (12.0, 50.0)
# Running speech: clips that a speaker has at least, frames of it outside the window, and how much quieter, in nepers of
# power, a word's edges are than its loudest frame.
_WORDS, _OUTSIDE, _QUIETER = 3, 20, 4.0
_INSIDE = 3  # frames that a window has on either side of where two phones meet, for it to hold the pair


class Sounds(NamedTuple):
    """What is drawn from, where JAX works. A clip is a picture, or a marked word of read speech."""

    pictures: jax.Array  # the corpus, uint8 [pictures, 98, bands]
    synthesised: jax.Array  # noises, uint8 [noises, 98, bands]
    speech: jax.Array  # read speech, uint8 [frames, bands]
    marks: jax.Array  # first and last frame of its words, int32 [marks, 2]
    phones: jax.Array  # of its frames, int32 [frames]; -1: none, here and below
    pairs: jax.Array  # of phones that meet at its frames, int32 [frames]
    # The clips' numbers, group by group, int32 [clips]: of a picture its row, of a mark its row behind all pictures.
    # The groups are the words, noise, and connected speech.
    clips: jax.Array
    starts: jax.Array  # where each group begins, int32 [groups]
    counts: jax.Array  # how many clips it has, int32 [groups]
    shares: jax.Array  # how often it and all before it are drawn, float32 [groups]


class Phones(NamedTuple):
    """What is said in a batch's windows of read speech."""

    frames: jax.Array  # the phone of each frame, int32 [size, 98]; -1: unknown
    pairs: jax.Array  # whether each frequent pair of phones is said, boolean [size, pairs]
    known: jax.Array  # whether that is known, boolean [size, pairs]


@dataclass(frozen=True)
class Batches:
    """Draws batches; the same seed and step give the same batch."""

    corpus: Corpus  # the clips to draw from
    augmentation: Augmentation  # how much they vary
    size: int  # clips of a batch
    backwards: float  # share of the words that are played backwards
    seed: int  # of all draws
    speech: ReadSpeech | None = None  # words that train the network alone: no part of head and statistics

    @property
    def classes(self) -> int:
        """Number of classes: words, words backwards, noise, and connected speech if there is any."""
        return self._words + len(self._clips)

    @property
    def phones(self) -> tuple[int, int]:
        """Number of phones, and of their frequent pairs, that are marked in read speech."""
        marked = (None, None) if self.speech is None else (self.speech.phones, self.speech.pairs)
        phones, pairs = (0 if found is None else int(found.max()) + 1 for found in marked)
        return phones, pairs

    @cached_property
    def _labels(self) -> list[str]:
        """The groups: words of the corpus, other words, noise, and connected speech if there is any."""
        known = self.corpus.vocabulary
        others = set() if self.speech is None else set(self.speech.words.tolist()) - set(known)
        return [*known, *sorted(others), NOISE, *({SPEECH} & set(self.corpus.words.tolist()))]

    @cached_property
    def _clips(self) -> list[NDArray[np.int64]]:
        """The numbers of every group's clips, as :class:`Sounds` counts them."""
        words = self.corpus.words if self.speech is None else np.concatenate([self.corpus.words, self.speech.words])
        order = np.argsort(words, kind="stable")
        labels, starts = np.unique(words[order], return_index=True)
        rows = dict(zip(labels.tolist(), np.split(order, starts[1:]), strict=True))
        return [rows.get(label, order[:0]) for label in self._labels]

    @property
    def _words(self) -> int:
        return self._labels.index(NOISE)

    @cached_property
    def _shares(self) -> Floats:
        """Share of every group: of a word of n clips ~ n^0.5."""
        weights = np.sqrt([len(clips) for clips in self._clips])
        weights[: len(self.corpus.vocabulary)] *= _FAVOUR
        weights[self._words :] = _SHARE * weights[: self._words].sum()
        return np.asarray(weights / weights.sum())

    @property
    def head(self) -> list[int]:
        """The classes of the corpus' words and, last, of noise."""
        return [*range(len(self.corpus.vocabulary)), 2 * self._words]

    @property
    def forward_shares(self) -> Floats:
        """Share of the clips drawn that each word of the corpus, not played backwards, and noise has, float32."""
        words = len(self.corpus.vocabulary)
        shares = self._shares[[*range(words), self._words]]
        return np.asarray(shares * np.append(np.full(words, 1 - self.backwards), 1.0), np.float32)

    @cached_property
    def sounds(self) -> Sounds:
        """What is drawn from."""
        counts = np.array([len(clips) for clips in self._clips])
        silence = ReadSpeech(
            np.zeros((FRAMES, self.corpus.settings.mel_bands), np.uint8), np.array([]), np.zeros((1, 2), np.int64)
        )
        speech = self.speech or silence
        return Sounds(
            jnp.asarray(self.corpus.pixels),
            jnp.asarray(self._synthesised()),
            jnp.asarray(speech.pixels),
            jnp.asarray(speech.marks, jnp.int32),
            jnp.asarray([] if speech.phones is None else speech.phones, jnp.int32),
            jnp.asarray([] if speech.pairs is None else speech.pairs, jnp.int32),
            jnp.asarray(np.concatenate(self._clips), jnp.int32),
            jnp.asarray(np.cumsum(counts) - counts, jnp.int32),
            jnp.asarray(counts, jnp.int32),
            jnp.asarray(np.cumsum(self._shares), jnp.float32),
        )

    def draw(self, sounds: Sounds, step: jax.Array | int) -> tuple[jax.Array, jax.Array, Phones | None]:
        """Return a step's input, float32 [size, 98, bands], classes, int32 [size], and what is said, where it is known.

        For a compiled function.
        """
        draws = Draws(random.fold_in(random.key(self.seed), step), self.size)
        chosen = jnp.minimum(jnp.searchsorted(sounds.shares, draws.uniform((0.0, 1.0))), len(self._labels) - 1)
        clips, rows, heard = self._of(sounds, chosen, draws)
        clips = jnp.where((chosen == self._words)[:, None, None], self._noises(sounds, draws), clips)
        backwards = (chosen < self._words) & draws.happens(self.backwards)
        clips = jnp.where(backwards[:, None, None], clips[:, ::-1], clips)
        noise, quieter_db = self._backgrounds(sounds, draws)
        varied, times = augment(clips, noise, self.augmentation, draws, quieter_db)
        seen = normalised(varied)
        if self.corpus.settings.mel_bands > BANDS:
            seen = without_unknown(seen, clips, draws.happens(self.augmentation.cut))
        heard &= ~(backwards | (chosen == self._words))[:, None]
        phones = self._said_in(sounds, rows, heard, times) if self.phones[0] else None
        behind = backwards | (chosen >= self._words)  # the words played backwards stand between words and noise
        return seen, chosen + self._words * behind, phones

    @cached_property
    def _drawn(self) -> Callable[[Sounds, int], tuple[jax.Array, jax.Array, Phones | None]]:
        return jax.jit(self.draw)

    def at(self, step: int) -> tuple[Floats, NDArray[np.int32]]:
        """Return a step's pictures and classes, as arrays of NumPy."""
        pictures, classes, _ = self._drawn(self.sounds, step)
        return np.asarray(pictures), np.asarray(classes)

    def _of(self, sounds: Sounds, groups: jax.Array, draws: Draws) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Draw a clip of each group, ln(power + 1e-6), float32 [size, 98, bands].

        Also returns its frames of read speech, int32 [size, 98], and which of them are heard as they are.
        """
        clips = sounds.clips[sounds.starts[groups] + draws.below(jnp.maximum(sounds.counts[groups], 1))]
        pictures = len(self.corpus)
        found = _log_power(sounds.pictures[jnp.minimum(clips, pictures - 1)])
        is_read = (clips >= pictures)[:, None]
        if self.speech is None:
            return found, jnp.zeros((self.size, FRAMES), jnp.int32), is_read
        marks = sounds.marks[jnp.maximum(clips - pictures, 0)]
        windows, rows, as_it_is = _windows(sounds.speech, marks, draws)
        return jnp.where(is_read[:, :, None], windows, found), rows, as_it_is & is_read

    def _said_in(self, sounds: Sounds, rows: jax.Array, heard: jax.Array, times: jax.Array) -> Phones:
        """Return what is said in windows: their frames of read speech, which are heard, and what is seen where."""
        seen = jnp.rint(times).astype(jnp.int32)
        known = (seen >= 0) & (seen < FRAMES)
        seen = jnp.clip(seen, 0, FRAMES - 1)
        known &= jnp.take_along_axis(heard, seen, 1)
        frames = jnp.where(known, sounds.phones[jnp.take_along_axis(rows, seen, 1)], -1)
        place, meetings = jnp.arange(FRAMES), sounds.pairs[rows]
        inside = (place >= times[:, :1] + _INSIDE) & (place <= times[:, -1:] - _INSIDE)

        def held(where: jax.Array) -> jax.Array:
            pairs = jnp.zeros((self.size, self.phones[1]), bool)
            numbers = jnp.where(where & (meetings >= 0), meetings, self.phones[1])
            return pairs.at[jnp.arange(self.size)[:, None], numbers].set(True, mode="drop")

        said, perhaps = held(inside & heard), held(jnp.ones_like(heard))
        return Phones(frames, said, (said | ~perhaps) & heard.any(1, keepdims=True))

    def _noises(self, sounds: Sounds, draws: Draws) -> jax.Array:
        """Draw recorded noises and synthesised ones, ln(power + 1e-6), float32 [size, 98, bands]."""
        noises = sounds.synthesised[draws.below(len(sounds.synthesised))]
        if len(self._clips[self._words]):
            clips = sounds.clips[sounds.starts[self._words] + draws.below(sounds.counts[self._words])]
            real = draws.happens(self.augmentation.recorded, 1, 1)
            noises = jnp.where(real, sounds.pictures[clips], noises)
        return _log_power(noises)

    def _backgrounds(self, sounds: Sounds, draws: Draws) -> tuple[jax.Array, jax.Array]:
        """Draw noises [size, 98, bands], some of which are two or people who talk, and how much quieter they are."""
        settings, power = self.augmentation, even(self._noises(sounds, draws))
        talk = draws.happens(settings.talk)
        if settings.second_noise:
            level = jnp.exp(-NEPERS * draws.uniform(_SECOND_DB, 1, 1)) * draws.happens(settings.second_noise, 1, 1)
            power += level * even(self._noises(sounds, draws))
        if settings.talk:
            power = jnp.where(talk[:, None, None], self._talk(sounds, draws), power)
        return jnp.log(power), _TALK_QUIETER_DB * talk

    def _talk(self, sounds: Sounds, draws: Draws) -> jax.Array:
        """Draw powers of one to four people who talk at once, float32 [size, 98, bands]."""
        people = draws.below(_TALKERS, 1) + 1
        heard = jnp.arange(_TALKERS) < people
        words = draws.below(sum(len(clips) for clips in self._clips[: self._words]), _TALKERS)
        power = [even(self._said(sounds, words[:, one], draws)) for one in range(_TALKERS)]
        return jnp.einsum("np,pnfb->nfb", heard / people, jnp.stack(power))

    def _said(self, sounds: Sounds, words: jax.Array, draws: Draws) -> jax.Array:
        """Return ln(power + 1e-6) of clips of words, as they are, float32 [size, 98, bands]."""
        clips, pictures = sounds.clips[words], len(self.corpus)
        found = sounds.pictures[jnp.minimum(clips, pictures - 1)]
        if self.speech is not None:
            rows = draws.below(len(self.speech.pixels) - FRAMES + 1, 1) + jnp.arange(FRAMES)
            found = jnp.where((clips < pictures)[:, None, None], found, sounds.speech[rows])
        return _log_power(found)

    def variants(self, each: int) -> tuple[Floats, NDArray[np.str_]]:
        """Return inputs as in training, float32 [clips, 98, bands], and the word of each, or NOISE.

        But they are forwards, with nothing hidden and nobody behind.
        """
        rng = np.random.default_rng([self.seed, _POOL, each])
        words = self.corpus.vocabulary
        rows = [rng.choice(found[found < len(self.corpus)], each) for found in self._clips[: len(words)]]
        clips = [LOG_POWERS[self.corpus.pixels[row]] for row in rows]
        noises = replace(self, size=each)._noises(self.sounds, Draws(random.key(self.seed), each))
        return self._varied([*clips, np.asarray(noises)], each), np.repeat([*words, NOISE], each)

    def running_speech(self, count: int) -> Floats:
        """Return inputs of windows in which one person's words follow one another, in noise, float32 [count, 98, 40].

        The beginning of the first word and the end of the last are mostly outside, as in a window of talk.
        """
        rng = np.random.default_rng([self.seed, _POOL, count])
        said: dict[str, list[int]] = {}
        for row in np.flatnonzero(np.isin(self.corpus.words, self.corpus.vocabulary)):
            said.setdefault(str(self.corpus.speakers[row]), []).append(int(row))
        everybody = [row for rows in said.values() for row in rows]
        people = [rows for rows in said.values() if len(rows) >= _WORDS] or [everybody]
        windows = np.stack([self._run_together(people[rng.integers(len(people))], rng) for _ in range(count)])
        return self._varied(np.array_split(windows, -(-count // _PART)), count)

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

    def _varied(self, parts: Sequence[Floats], purpose: int) -> Floats:
        """Return inputs with nothing hidden and nobody behind, part by part, each float32 [clips, 98, bands]."""

        @jax.jit
        def varied(sounds: Sounds, clips: jax.Array, number: int) -> jax.Array:
            draws = Draws(random.fold_in(random.key(self.seed + purpose), number), len(clips))
            seen, _ = augment(clips, self._noises(sounds, draws), replace(self.augmentation, masks=0.0), draws)
            return jnp.asarray(without_unknown(normalised(seen), clips))

        return np.concatenate([np.asarray(varied(self.sounds, part, number)) for number, part in enumerate(parts)])

    def _synthesised(self) -> NDArray[np.uint8]:
        """Synthesise noises, uint8 [noises, 98, bands]; new ones in every step would take as long as training."""
        rng = np.random.default_rng([self.seed, _POOL])
        settings = self.corpus.settings
        found = [coloured_noise(_POOL, rng, settings.mel_bands)]
        kinds = list(sample_sounds.SOUNDS)
        if self.augmentation.sources:
            draws = (kinds[n % len(kinds)] for n in range(self.augmentation.sources))
            clips = np.concatenate([sample_sounds.takes(kind, 1, settings.clip_samples, rng) for kind in draws])
            found.append(open_front_end(settings)(clips))
        return to_pixels(np.concatenate(found))


def _log_power(pixels: jax.Array) -> jax.Array:
    return jnp.asarray(LOG_POWERS).at[pixels].get()


def _windows(speech: jax.Array, marks: jax.Array, draws: Draws) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Cut a window round each word of read speech, ln(power + 1e-6), float32 [clips, 98, bands].

    In some the words beside it are quieter. ``speech`` and ``marks`` as in :class:`Sounds`; a mark for each clip. Also
    returns the windows' frames of ``speech``, int32 [clips, 98], and which of them are as they were.
    """
    begin = marks.sum(1, keepdims=True) // 2 - FRAMES // 2 + draws.below(2 * _OFF + 1, 1) - _OFF
    rows = jnp.clip(begin, 0, len(speech) - FRAMES) + jnp.arange(FRAMES)
    inside = (rows >= marks[:, :1] - _BEYOND) & (rows <= marks[:, 1:] + _BEYOND)
    quieter = NEPERS * draws.uniform(_QUIETER_DB, 1) * draws.happens(_ALONE, 1) * ~inside
    return jnp.maximum(_log_power(speech[rows]) - quieter[:, :, None], LOG_POWERS[0]), rows, quieter == 0
