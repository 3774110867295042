"""Spoken digit strings and command phrases of known speakers, made of Speech Commands' words (log-mel pictures).

A phrase is three or four words of one speaker, as many as fit: digits, commands, or both. Each word's silence is cut
off by its energy. Between the words, before and after them are pauses, of the quietest frames of the same recordings.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from fleet_protocol.bundle.feature_settings import LogMelSettings
from fleet_protocol.numbers.arrays import Floats, Ints
from fleet_simulator.data.log_mel import pictures
from fleet_simulator.data.recording_layouts import NOBODY, Entry
from model_export.pretraining.pictures import decode, mel_power
from studies.fleets import StudyError
from studies.speech.ctc import BLANK

DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
COMMANDS = ("down", "go", "left", "no", "off", "on", "right", "stop", "up", "yes")
Spans = tuple[tuple[int, int], ...]
HOP_S = 0.01
# The windows of the log-mel pictures of Speech Commands, of a few words in a row.
UTTERANCE = LogMelSettings(
    "utterance", 16_000, 2.575, 0.025, HOP_S, 256, mel_bands=40, fft_size=512, low_hz=0.0, high_hz=4_000.0
)
FRAMES = UTTERANCE.frames
"""Frames of an utterance, 2.56 s; what is left after its last word is a pause."""
LEAST_CLIPS = 10  # of a speaker
MANY_CLIPS = 15  # of a speaker of a device or of the server; who has fewer is of the start
_NOTHING = -9.5  # logarithm of a frame's power below which it holds zeros (forty bands of 1e-6 are -10.1)
_LOUD = 0.3  # share of the way from a recording's quiet to its loud frames at which a word begins and ends
_MARGIN = 4  # frames kept before and after a word: weak sounds as in "six" and "stop"
_GAP = 12  # frames within a word that may be silent, as before the t of "right"
_LONGEST = 70  # frames of a word
_QUIET = 20  # frames of a recording from which pauses are made
_PAUSE = (4, 16)  # frames between words
# How recordings of a start differ from pass to pass, so that other speakers are heard too.
_SPEED = (0.85, 1.15)  # of a word
_PITCH = (0.92, 1.08)  # by which bands move, as longer and shorter vocal tracts move them
_MASKED = (7, 9, 9)  # most bands, and most frames twice, that are hidden (Park et al. 2019)


@dataclass(frozen=True)
class Word:
    """A recording of one word."""

    text: str  # the word
    power: Floats  # mel powers without the silence, float32 [frames, bands]
    quiet: Floats  # the recording's quietest frames, float32 [20, bands]

    @property
    def seconds(self) -> float:
        """How long it is."""
        return len(self.power) * HOP_S


@dataclass(frozen=True)
class Utterances:
    """Phrases."""

    x: Floats  # logarithms of mel powers, float32 [utterances, frames, bands]
    texts: tuple[str, ...]  # what is said in each
    spans: tuple[Spans, ...]  # the first frame of each of its words, and the one after the last

    @property
    def seconds(self) -> float:
        """How long they are together, without the pauses after them."""
        return sum(spans[-1][1] for spans in self.spans) * HOP_S

    def __len__(self) -> int:
        """Return the number of phrases."""
        return len(self.texts)


@dataclass(frozen=True)
class Counts:
    """Sizes of a deal, in speakers and in phrases of each."""

    devices: tuple[int, ...] = (20,) * 5 + (40,) * 3 + (60,) * 2  # speakers of every device
    train: int = 2  # phrases of a device's speaker in a pass; they are made anew for every pass, of the same recordings
    held_out: int = 2  # phrases of the same speaker by which a device chooses its model, of other recordings
    test: int = 4  # phrases of the same speaker that judge it, of yet others
    development: tuple[int, int] = (40, 3)  # speakers by which the server chooses, and phrases of each
    server_test: tuple[int, int] = (20, 8)  # speakers that judge the global model, and phrases of each


@dataclass(frozen=True)
class Deal:
    """Who has which phrases; no speaker is in two parts."""

    train: list[list[list[Word]]]  # of every device the recordings of each of its speakers
    # phrases of the same speakers, of other recordings: by them a device chooses what it listens with
    held_out: list[Utterances]
    test: list[Utterances]  # phrases of the same speakers, of recordings that neither of these has
    development: Utterances  # of the server's speakers for choices
    server_test: Utterances  # of the server's speakers for tests


def clips_of_speakers(archive: Path) -> dict[str, list[Entry]]:
    """Return the recordings of digits and commands of every speaker who has ten or more, in a fixed order."""
    found: dict[str, list[Entry]] = {}
    for entry in pictures(archive):
        if entry.speaker != NOBODY and said(entry) in (*DIGITS, *COMMANDS):
            found.setdefault(entry.speaker, []).append(entry)
    return {speaker: found[speaker] for speaker in sorted(found) if len(found[speaker]) >= LEAST_CLIPS}


def said(entry: Entry) -> str:
    """Return the word of a picture: that of its name, or its label."""
    return entry.word or entry.label


def words(archive: Path, entries: Sequence[Entry]) -> list[Word]:
    """Read recordings and cut the silence off. Raises CorpusError: a picture is damaged."""
    power = mel_power(decode(archive, [entry.path for entry in entries]))
    return [cut(said(entry), clip) for entry, clip in zip(entries, power, strict=True)]


def cut(text: str, power: Floats) -> Word:
    """Cut the silence off a recording's ends: float32 [frames, bands] of mel powers."""
    energy = np.log(power.sum(axis=1))
    real = energy > _NOTHING  # short recordings are filled up with zeros, which no microphone hears
    smooth = np.convolve(energy, np.full(3, 1 / 3), "same")
    quiet, loud = np.percentile(energy[real] if real.any() else energy, [10, 97])
    level = min(quiet + _LOUD * (loud - quiet), smooth.max())
    begin, end = _loudest_part(np.flatnonzero(smooth >= level), np.exp(energy))
    heard = np.flatnonzero(real) if real.any() else np.arange(len(power))
    begin, end = max(int(heard[0]), begin - _MARGIN), min(int(heard[-1]) + 1, end + _MARGIN)
    outside = real & ((np.arange(len(power)) < begin) | (np.arange(len(power)) >= end))
    pauses = np.flatnonzero(outside) if outside.any() else np.arange(len(power))
    order = pauses[np.argsort(energy[pauses], kind="stable")]
    return Word(text, power[begin : min(end, begin + _LONGEST)], power[order[:_QUIET]])


def _loudest_part(active: Ints, energy: Floats) -> tuple[int, int]:
    """Return where the part with the most energy begins and ends, of parts that long gaps keep apart."""
    parts = np.split(active, np.flatnonzero(np.diff(active) > _GAP) + 1)
    best = max(parts, key=lambda part: float(energy[part].sum()))
    return int(best[0]), int(best[-1]) + 1


def phrases(speaker: Sequence[Word], count: int, rng: np.random.Generator) -> Utterances:
    """Make phrases of one speaker's words, each of three or four of them if they fit, none twice in a phrase."""
    made = [_phrase(_chosen(speaker, rng), rng) for _ in range(count)]
    x, texts, spans = zip(*made, strict=True)
    return Utterances(np.stack(x), texts, spans)


def _chosen(speaker: Sequence[Word], rng: np.random.Generator) -> list[Word]:
    """Draw the words of a phrase: digits or commands where the speaker has enough of them, else both."""
    count = int(rng.integers(3, 5))
    kinds = [[word for word in speaker if word.text in kind] for kind in (DIGITS, COMMANDS)]
    possible = [kind for kind in kinds if len(kind) >= count] or [list(speaker)]
    pool = possible[int(rng.integers(len(possible)))] if rng.random() < 0.75 else list(speaker)
    return [pool[index] for index in rng.permutation(len(pool))[:count]]


def _phrase(chosen: Sequence[Word], rng: np.random.Generator) -> tuple[Floats, str, Spans]:
    """Join words: logarithms of powers, float32 [FRAMES, bands], the text, and where its words are."""
    while sum(len(word.power) + _PAUSE[1] for word in chosen) > FRAMES:
        chosen = chosen[:-1]
    quiet = np.concatenate([word.quiet for word in chosen])
    parts, spans, frames = [], [], 0
    for word in chosen:
        parts += [_pause(quiet, int(rng.integers(*_PAUSE)), rng), word.power]
        frames += len(parts[-2])
        spans.append((frames, frames + len(word.power)))
        frames += len(word.power)
    parts.append(_pause(quiet, FRAMES - frames, rng))
    return np.log(np.concatenate(parts)), " ".join(word.text for word in chosen), tuple(spans)


def _pause(quiet: Floats, frames: int, rng: np.random.Generator) -> Floats:
    return np.asarray(quiet[rng.integers(len(quiet), size=frames)])


def varied(speaker: Sequence[Word], rng: np.random.Generator) -> list[Word]:
    """Return recordings as if each word were said slower or faster."""
    return [replace(word, power=_at_speed(word.power, float(rng.uniform(*_SPEED)))) for word in speaker]


def _at_speed(power: Floats, speed: float) -> Floats:
    frames = min(_LONGEST, round(len(power) * speed))
    return np.asarray(power[np.arange(frames) * len(power) // frames])


def disguised(utterances: Utterances, rng: np.random.Generator) -> Utterances:
    """Return phrases as if others said them, with a few bands and frames hidden."""
    x = utterances.x.copy()
    for row in x:
        row[:] = _moved(row, float(rng.uniform(*_PITCH)))
        mean = row.mean()
        for bands, most in zip((row.T, row, row), _MASKED, strict=True):
            width = int(rng.integers(most))
            first = int(rng.integers(len(bands) - width))
            bands[first : first + width] = mean
    return replace(utterances, x=x)


def _moved(row: Floats, factor: float) -> Floats:
    """Return log powers, float32 [frames, bands], with every band taken from ``factor`` times its place."""
    last = row.shape[1] - 1
    place = np.minimum(np.arange(last + 1) * factor, last)
    below = place.astype(np.int64)
    share = (place - below).astype(np.float32)
    return np.asarray(row[:, below] * (1 - share) + row[:, np.minimum(below + 1, last)] * share)


def joined(parts: Sequence[Utterances]) -> Utterances:
    """Return several speakers' phrases as one."""
    return Utterances(
        np.concatenate([part.x for part in parts]),
        *(tuple(one for part in parts for one in getattr(part, name)) for name in ("texts", "spans")),
    )


def aligned(utterances: Utterances, steps: int, characters: str) -> Ints:
    """Return symbols with the letters of a word evenly over it, int64 [utterances, steps].

    Blanks stand between equal letters and in pauses, a space after every word but the last.
    """
    symbols = np.full((len(utterances), steps), BLANK)
    for row, text, spans in zip(symbols, utterances.texts, utterances.spans, strict=True):
        for number, (word, (begin, end)) in enumerate(zip(text.split(), spans, strict=True)):
            first, last = round(begin * steps / FRAMES), min(steps, round(end * steps / FRAMES))
            letters = _with_blanks(word, characters)
            row[first:last] = [letters[place * len(letters) // (last - first)] for place in range(last - first)]
            if number + 1 < len(spans):
                row[last] = 1 + characters.index(" ")
    return symbols


def _with_blanks(word: str, characters: str) -> list[int]:
    found: list[int] = []
    for letter, before in zip(word, " " + word, strict=False):
        found += [BLANK] * (letter == before) + [1 + characters.index(letter)]
    return found


class Speakers:
    """The speakers of an archive; recordings are read when a part needs them."""

    def __init__(self, archive: Path) -> None:
        """List them."""
        self._archive, self._clips = archive, _listed(archive)
        order: list[str] = np.random.default_rng(0).permutation(list(self._clips)).tolist()
        many = {speaker for speaker in order if len(self._clips[speaker]) >= MANY_CLIPS}
        self._few = [speaker for speaker in order if speaker not in many]
        self._many = [speaker for speaker in order if speaker in many]

    def pretrained(self, count: int) -> list[str]:
        """Return the speakers of a start, the same ones for every deal, of those with few recordings."""
        return self._few[:count]

    def words_of(self, speakers: Sequence[str]) -> list[list[Word]]:
        """Read the words of each of some speakers."""
        read = iter(words(self._archive, [entry for speaker in speakers for entry in self._clips[speaker]]))
        return [[next(read) for _ in self._clips[speaker]] for speaker in speakers]

    def deal(self, counts: Counts, seed: int) -> Deal:
        """Give speakers to devices and to the server, and make tests; a seed's deal is always the same."""
        sizes = (*counts.devices, counts.development[0], counts.server_test[0])
        if len(self._many) < sum(sizes):
            raise StudyError(
                f"{self._archive} has {len(self._many)} speakers with {MANY_CLIPS} recordings or more, a deal takes "
                f"{sum(sizes)}; use the whole archive, or fewer speakers"
            )
        order = np.random.default_rng([seed, 1]).permutation(self._many)[: sum(sizes)].tolist()
        left, rng = iter(self.words_of(order)), np.random.default_rng([seed, 2])
        train, held_out, test = [], [], []
        for speakers in counts.devices:
            parts = [_parts(next(left), counts, rng) for _ in range(speakers)]
            train.append([part[0] for part in parts])
            held_out.append(joined([part[1] for part in parts]))
            test.append(joined([part[2] for part in parts]))
        server = [
            joined([phrases(next(left), each, rng) for _ in range(speakers)])
            for speakers, each in (counts.development, counts.server_test)
        ]
        return Deal(train, held_out, test, server[0], server[1])


def _parts(
    speaker: Sequence[Word], counts: Counts, rng: np.random.Generator
) -> tuple[list[Word], Utterances, Utterances]:
    """Return a speaker's recordings to train on, and phrases of a seventh and of three tenths of them."""
    found = [speaker[index] for index in rng.permutation(len(speaker))]
    tested, held_out = (max(3, len(found) * share // 70) for share in (21, 10))
    test, held, train = np.split(np.arange(len(found)), [tested, tested + held_out])
    first, second, third = ([found[index] for index in part] for part in (train, held, test))
    return first, phrases(second, counts.held_out, rng), phrases(third, counts.test, rng)


@functools.lru_cache(maxsize=2)
def _listed(archive: Path) -> Mapping[str, list[Entry]]:
    return clips_of_speakers(archive)
