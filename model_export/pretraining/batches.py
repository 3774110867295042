"""What a training step sees: variants of clips drawn by class, and which class each belongs to.

The classes are the words, the same words played backwards, noise, and connected speech where the corpus has any.
Backward words cost nothing, and widen what the embedding must tell apart. Variants are moved, stretched, spoken by
another throat, through another microphone, in a room, in noise or before other talkers, partly hidden (masks: Park et
al. 2019); what a waveform's picture would show is computed on powers, in which sound and noise add.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from edge_client.features.front_end import open_front_end
from fleet_protocol import sample_sounds
from fleet_protocol.arrays import Array, Floats
from model_export.pretraining.corpus import NOISE, SETTINGS, SPEECH, Corpus
from model_export.pretraining.pictures import BANDS, FLOOR, FRAMES, LOG_POWERS, to_pixels

_LOG_FLOOR = np.float32(np.log(FLOOR))
_NEPERS = np.float32(np.log(10) / 10)  # of a decibel of power
_MEAN, _SCALE = np.float32(6.0), np.float32(0.2)


@dataclass(frozen=True)
class Augmentation:
    """How much the pictures vary."""

    shift_frames: int = 20  # largest move in time, frames of 10 ms
    stretch: tuple[float, float] = (0.87, 1.15)  # slowest and fastest pace, as a share of the original's
    warp: tuple[float, float] = (0.86, 1.16)  # how much higher or lower all bands may lie
    gain_db: tuple[float, float] = (-13.0, 10.0)  # quietest and loudest level against the original's, dB
    noise: float = 0.8  # share of the clips that get noise
    snr_db: tuple[float, float] = (-2.0, 30.0)  # smallest and largest distance of sound and noise, dB of power
    microphones: float = 0.0  # share of the clips that another microphone colours
    rooms: float = 0.0  # share of the clips that get late reverberation
    second_noise: float = 0.0  # share of the noises that are two
    talk: float = 0.0  # share of the noises that are one to four people
    sources: int = 0  # synthesised sounds of a household and a street among the noises, one of each source
    masks: int = 1  # hidden stretches of time, and of bands, each
    mask_frames: int = 16  # longest hidden stretch, frames
    mask_bands: int = 6  # broadest hidden stretch, bands


def normalised(log_power: Array) -> Floats:
    """Return the network's input, (x + 6) / 5, float32 of the same shape."""
    return np.asarray((log_power + _MEAN) * _SCALE, np.float32)


def augment(log_power: Floats, noise: Floats, settings: Augmentation, rng: np.random.Generator) -> Floats:
    """Return variants of clips, float32 [clips, 98, 40], before :func:`normalised`.

    Args:
        log_power: ln(power + 1e-6), float32 [clips, 98, 40].
        noise: the same of noises, one for each clip.
    """
    moved = _resampled(log_power, settings, rng)
    noise = _rolled(noise, rng)
    power = np.exp(moved)
    if settings.microphones:
        power *= _coloured(len(power), settings.microphones, rng)
    if settings.rooms:
        power = _reverberant(power, settings.rooms, rng)
    power *= np.exp(_NEPERS * _draw(settings.gain_db, len(moved), rng))
    noise_power = np.exp(noise)
    wanted = power.mean((1, 2), keepdims=True) * np.exp(-_NEPERS * _draw(settings.snr_db, len(moved), rng))
    level = wanted / noise_power.mean((1, 2), keepdims=True)
    level *= rng.random((len(moved), 1, 1)) < settings.noise
    power += noise_power * level.astype(np.float32)
    varied: Floats = np.log(power + FLOOR)
    return _masked(varied, settings, rng)


def coloured_noise(count: int, rng: np.random.Generator) -> Floats:
    """Return ln(power + 1e-6) of steady noises of random colour and level, float32 [count, 98, 40].

    A band's power in a frame is that of a sum of a few independent bins, and so scatters as a gamma variable does.
    """
    bands = np.arange(BANDS, dtype=np.float32) / BANDS - 0.5
    tilt = rng.uniform(-5, 1.5, (count, 1, 1)).astype(np.float32) * bands
    bumps = np.cumsum(rng.normal(0, 0.25, (count, 1, BANDS)), axis=2).astype(np.float32)
    level = rng.uniform(-11, 3, (count, 1, 1)).astype(np.float32)
    bins = 1.5 + 5 * np.arange(BANDS, dtype=np.float32) / BANDS
    scatter = rng.standard_gamma(bins, (count, FRAMES, BANDS), dtype=np.float32) / bins
    return np.asarray(np.log(np.exp(tilt + bumps + level) * scatter + FLOOR), np.float32)


_COLOUR_DB = 3.0  # of a microphone: standard deviation of its response over the bands
_FALL_S, _DIRECT_DB = (0.12, 0.9), (-2.0, 14.0)  # a room's reverberation time; direct against reverberant sound
_DECAY = 13.8 * 0.01  # nepers of power that are lost in 10 ms, times the reverberation time in seconds: 60 dB


def _coloured(count: int, share: float, rng: np.random.Generator) -> Floats:
    """Return microphones' responses in power, float32 [count, 1, 40]: three slow cosines over the bands."""
    places = np.pi * (np.arange(BANDS) + 0.5) / BANDS
    curves = np.cos(np.outer((1, 2, 3), places)) * (_COLOUR_DB * _NEPERS / np.sqrt(3))
    strengths = rng.normal(size=(count, 3)) * (rng.random((count, 1)) < share)
    return np.asarray(np.exp(strengths @ curves), np.float32)[:, None]


def _reverberant(power: Floats, share: float, rng: np.random.Generator) -> Floats:
    """Add a room's late sound, which falls off exponentially (Polack 1988), to a share of clips, [clips, 98, 40]."""
    fall = np.exp(-_DECAY / _draw(_FALL_S, len(power), rng))[:, 0]
    late = np.exp(-_NEPERS * _draw(_DIRECT_DB, len(power), rng))[:, 0] * (1 - fall)
    late *= rng.random((len(power), 1)) < share
    result, tail = power.copy(), np.zeros_like(power[:, 0])
    for frame in range(1, FRAMES):
        tail = fall * tail + power[:, frame - 1]
        result[:, frame] += late * tail
    return np.asarray(result, np.float32)


def _rolled(noise: Floats, rng: np.random.Generator) -> Floats:
    """Let noises begin somewhere else."""
    rows = (np.arange(FRAMES) + rng.integers(FRAMES, size=(len(noise), 1))) % FRAMES
    return np.asarray(noise[np.arange(len(noise))[:, None], rows], np.float32)


def _draw(bounds: tuple[float, float], count: int, rng: np.random.Generator) -> Floats:
    return rng.uniform(*bounds, (count, 1, 1)).astype(np.float32)


def _resampled(log_power: Floats, settings: Augmentation, rng: np.random.Generator) -> Floats:
    """Move and stretch in time, warp the bands; what comes in from outside is the edge, or silence in every other."""
    count = len(log_power)
    centre = (FRAMES - 1) / 2
    shift = rng.integers(-settings.shift_frames, settings.shift_frames + 1, (count, 1))
    times = (np.arange(FRAMES) - centre - shift) * _draw(settings.stretch, count, rng)[..., 0] + centre
    times = np.where(rng.random((count, 1)) < 0.5, np.clip(times, 0, FRAMES - 1), times)
    bands = np.clip((np.arange(BANDS) + 0.5) * _draw(settings.warp, count, rng)[..., 0] - 0.5, 0, BANDS - 1)
    raised = _interpolation(times, FRAMES) @ (log_power - _LOG_FLOOR) @ _interpolation(bands, BANDS).transpose(0, 2, 1)
    return np.asarray(raised + _LOG_FLOOR, np.float32)


def _interpolation(places: Array, size: int) -> Floats:
    """Return matrices [clips, places, size] that read linearly between neighbours, and 0 outside."""
    distance = np.abs(places.astype(np.float32)[..., None] - np.arange(size, dtype=np.float32))
    return np.asarray(np.maximum(0, 1 - distance), np.float32)


def _masked(log_power: Floats, settings: Augmentation, rng: np.random.Generator) -> Floats:
    """Hide stretches of time and of bands behind the clip's mean."""
    count = len(log_power)
    hidden = np.zeros(log_power.shape, bool)
    for _ in range(settings.masks):
        hidden |= _stretches(count, FRAMES, settings.mask_frames, rng)[:, :, None]
        hidden |= _stretches(count, BANDS, settings.mask_bands, rng)[:, None, :]
    return np.where(hidden, log_power.mean((1, 2), keepdims=True), log_power)


def _even(log_power: Floats) -> Floats:
    """Return powers, each clip's mean 1, float32 of the same shape."""
    power = np.exp(log_power)
    return np.asarray(power / power.mean((-2, -1), keepdims=True), np.float32)


def _stretches(count: int, size: int, longest: int, rng: np.random.Generator) -> Array:
    """Return boolean [count, size], true within one stretch of each row."""
    length = rng.integers(0, longest + 1, (count, 1))
    start = rng.integers(0, size - length + 1)
    place = np.arange(size)
    return np.asarray((place >= start) & (place < start + length))


_FEWEST_NOISES = 200  # that the noise class counts for where the corpus has fewer
_POOL = 512  # synthesised noises
# Running speech: clips that a speaker has at least, frames of it outside the window, and how much quieter, in nepers of
# power, a word's edges are than its loudest frame.
_WORDS, _OUTSIDE, _QUIETER = 3, 20, 4.0
_SYNTHETIC_NOISE = 0.3  # share of the noises that are synthesised
_TALKERS = 4  # that are heard at the same time, at most


@dataclass(frozen=True)
class Batches:
    """Draws batches; the same seed and step give the same batch."""

    corpus: Corpus  # the clips to draw from
    augmentation: Augmentation  # how much they vary
    size: int  # clips of a batch
    backwards: float  # share of the words that are played backwards
    seed: int  # of all draws
    more: Corpus | None = None  # clips of words that train the network alone: no part of head and statistics
    power: float = 0.5  # a class of n clips is drawn with p ~ n ** power

    @property
    def classes(self) -> int:
        """Number of classes: words, words backwards, noise, and connected speech if there is any."""
        return len(self._words) + len(self._clips)

    @cached_property
    def _clips(self) -> list[NDArray[np.int64]]:
        """The clips' indices of every word, of noise, and of connected speech if there is any."""
        known = self.corpus.vocabulary
        found = sorted(set(self._all.vocabulary) - set(known))
        labels = [*known, *found, NOISE, *({SPEECH} & set(self._all.words))]
        order = np.argsort(self._all.words, kind="stable")
        words, starts = np.unique(self._all.words[order], return_index=True)
        rows = dict(zip(words.tolist(), np.split(order, starts[1:]), strict=True))
        return [rows.get(label, order[:0]) for label in labels]

    @cached_property
    def _all(self) -> Corpus:
        return self.corpus if self.more is None else self.corpus.joined(self.more)

    @cached_property
    def _words(self) -> list[NDArray[np.int64]]:
        return self._clips[: len(self._all.vocabulary)]

    @cached_property
    def _spoken(self) -> NDArray[np.int64]:
        """The clips' indices of all words."""
        return np.concatenate(self._words)

    @property
    def _recorded_noise(self) -> NDArray[np.int64]:
        return self._clips[len(self._words)]

    @cached_property
    def _shares(self) -> Floats:
        """Share of every class."""
        counts = [len(clips) for clips in self._clips]
        counts[len(self._words)] = max(len(self._recorded_noise), _FEWEST_NOISES)
        weights = np.power(counts, self.power)
        return np.asarray(weights / weights.sum())

    @property
    def head(self) -> list[int]:
        """The classes of the corpus' words and, last, of noise."""
        return [*range(len(self.corpus.vocabulary)), 2 * len(self._words)]

    @property
    def forward_shares(self) -> Floats:
        """Share of the clips drawn that each word of the corpus, not played backwards, and noise has, float32."""
        words = len(self.corpus.vocabulary)
        shares = self._shares[[*range(words), len(self._words)]]
        return np.asarray(shares * np.append(np.full(words, 1 - self.backwards), 1.0), np.float32)

    def draw(self, step: int) -> tuple[Floats, NDArray[np.int32]]:
        """Return a step's input, float32 [size, 98, 40], and its classes, int32 [size]."""
        rng = np.random.default_rng([self.seed, step])
        words = len(self._words)
        chosen = rng.choice(len(self._clips), self.size, p=self._shares)
        clips = self._noises(self.size, rng)
        for row, word in enumerate(chosen):
            if word != words:
                clips[row] = LOG_POWERS[self._all.pixels[rng.choice(self._clips[word])]]
        backwards = (chosen < words) & (rng.random(self.size) < self.backwards)
        clips[backwards] = clips[backwards, ::-1]
        varied = augment(clips, self._backgrounds(self.size, rng), self.augmentation, rng)
        classes = np.where(chosen < words, chosen + words * backwards, chosen + words)
        return normalised(varied), classes.astype(np.int32)

    def variants(self, each: int) -> tuple[Floats, NDArray[np.str_]]:
        """Return inputs as in training, but forwards and with nothing hidden, and the word of each.

        Returns:
            float32 [clips, 98, 40], and the words or NOISE.
        """
        rng = np.random.default_rng([self.seed, _POOL, each])
        seen = replace(self.augmentation, masks=0)
        parts = []
        for found in self._words[: len(self.corpus.vocabulary)]:
            clips = LOG_POWERS[self._all.pixels[rng.choice(found, each)]]
            parts.append(augment(clips, self._noises(each, rng), seen, rng))
        parts.append(augment(self._noises(each, rng), self._noises(each, rng), seen, rng))
        return normalised(np.concatenate(parts)), np.repeat([*self.corpus.vocabulary, NOISE], each)

    def running_speech(self, count: int) -> Floats:
        """Return inputs of windows in which one person's words follow one another, in noise, float32 [count, 98, 40].

        The beginning of the first word and the end of the last are mostly outside, as in a window of talk.
        """
        rng = np.random.default_rng([self.seed, _POOL, count])
        said: dict[str, list[int]] = {}
        for row in np.concatenate(self._words[: len(self.corpus.vocabulary)]):
            said.setdefault(str(self._all.speakers[row]), []).append(int(row))
        everybody = [row for rows in said.values() for row in rows]
        people = [rows for rows in said.values() if len(rows) >= _WORDS] or [everybody]
        windows = np.stack([self._run_together(people[rng.integers(len(people))], rng) for _ in range(count)])
        return normalised(augment(windows, self._noises(count, rng), replace(self.augmentation, masks=0), rng))

    def _run_together(self, rows: list[int], rng: np.random.Generator) -> Floats:
        """Join the loud parts of clips until they are longer than a window; return a window of them."""
        parts: list[Floats] = []
        while sum(map(len, parts)) < FRAMES + _OUTSIDE:
            clip = LOG_POWERS[self._all.pixels[rows[rng.integers(len(rows))]]]
            level = clip.mean(axis=1)
            loud = np.flatnonzero(level > level.max() - _QUIETER)
            parts.append(clip[loud[0] : loud[-1] + 1])
        line = np.concatenate(parts)
        start = rng.integers(len(line) - FRAMES + 1)
        return line[start : start + FRAMES]

    def _noises(self, count: int, rng: np.random.Generator) -> Floats:
        """Draw recorded noises and synthesised ones, float32 [count, 98, 40]."""
        recorded = self._recorded_noise
        noises: Floats = LOG_POWERS[self._synthesised[rng.integers(len(self._synthesised), size=count)]]
        if len(recorded):
            real = rng.random(count) >= _SYNTHETIC_NOISE
            noises[real] = LOG_POWERS[self._all.pixels[rng.choice(recorded, int(real.sum()))]]
        return noises

    def _backgrounds(self, count: int, rng: np.random.Generator) -> Floats:
        """Draw noises, some of which are two or are people who talk, float32 [count, 98, 40]."""
        noises, settings = self._noises(count, rng), self.augmentation
        if settings.second_noise:
            two = rng.random(count) < settings.second_noise
            level = np.exp(_NEPERS * _draw((-8.0, 8.0), int(two.sum()), rng))
            noises[two] = np.log(_even(noises[two]) + level * _even(self._noises(int(two.sum()), rng)))
        if settings.talk:
            for row in np.flatnonzero(rng.random(count) < settings.talk):
                people = LOG_POWERS[self._all.pixels[rng.choice(self._spoken, rng.integers(1, _TALKERS + 1))]]
                noises[row] = np.log(_even(_rolled(people, rng)).mean(axis=0))
        return noises

    @cached_property
    def _synthesised(self) -> NDArray[np.uint8]:
        """Synthesised noises, uint8 [noises, 98, 40]; to make new ones in every step would take as long as training."""
        rng = np.random.default_rng([self.seed, _POOL])
        found = [coloured_noise(_POOL, rng)]
        kinds = list(sample_sounds.SOUNDS)
        if self.augmentation.sources:
            draws = (kinds[n % len(kinds)] for n in range(self.augmentation.sources))
            clips = np.concatenate([sample_sounds.takes(kind, 1, SETTINGS.clip_samples, rng) for kind in draws])
            found.append(open_front_end(SETTINGS)(clips))
        return to_pixels(np.concatenate(found))
