"""Rooms, and what is heard in them: days of talk, words, household sounds and noise, as embeddings of windows.

A room has backgrounds, a reverberation, everyday sounds and words that are often said in it, all its own. Its days have
parts, each as long as :data:`PARTS` says, with talk, words and household sounds as its home has them, and a quiet
night. What is heard on the days lived through and on those measured are other recordings.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.command import data_folder
from benchmarks.listening.dialogue import synthesised
from benchmarks.listening.material import (
    KNOWN,
    RATE_HZ,
    SETTINGS,
    WORD_DB,
    Clip,
    Half,
    Word,
    background,
    gains,
    impulse_response,
    loud_rms,
    recordings_in,
    reverberated,
)
from benchmarks.living.homes import OTHER, TAUGHT, Home, source_of
from edge_client.audio.recordings import read_clip, read_recording
from edge_client.features.embedding import Embedding
from edge_client.features.front_end import hop_frames, open_front_end, part_of_settings
from fleet_protocol.bundle.feature_settings import EmbeddingSettings, FeatureSettings, JointSettings
from fleet_protocol.numbers.arrays import Floats

# Parts of a day: hour at which they begin, and length, s.
PARTS = {"night": (2, 120.0), "morning": (7, 600.0), "noon": (12, 600.0), "evening": (18, 900.0), "late": (21, 600.0)}
_WORDS_PER_ROOM = 12
_BACKGROUNDS_PER_ROOM = 6
_SNR_DB = (5.0, 30.0)
# From one word of the owner's to the next, s.
_OWN_GAP_S = (900.0, 3600.0)
_NIGHT_DB = -62.0
# Talk that is synthesised for the days lived through, and as much for those measured; parts are pieces of it.
_TALK_PARTS, _TALK_PART_S, _PIECE_S = 6, 600.0, 45.0
_NEARER_DB = 4.0
_AT_ONCE = 240  # windows
# From the end of a taught word to the begin of the next where misses are counted, s.
_APART_S = (3.0, 5.0)


Make = Callable[[], tuple[Floats, list[Word], str]]


@dataclass(frozen=True)
class Room:
    """What is heard in one room; ``half``: backgrounds and taught words by people whom no teaching heard.

    Taught words are said by other people on the days measured than on those lived through.
    """

    number: int
    seed: int
    half: Half
    response: Floats  # float32 [samples], of the room
    words: tuple[Clip, ...]  # that nobody taught
    sounds: tuple[Path, ...]
    taught: tuple[str, ...]
    home: Home

    def own_words(self, *, measured: bool) -> list[Clip]:
        """Return the taught words that are said on the days measured, or on those lived through."""
        own = (clip for clip in self.half.clips if clip.label is not None)
        return [clip for clip in own if _part_of(clip.path, measured=measured)]


@dataclass(frozen=True)
class Part:
    """A stretch of a room's sound.

    ``embeddings``: float16 [windows, numbers], ``levels_db``: float32 [windows], one window each ``hop_s``; the first
    ends at ``begin_s`` + a clip; ``words``: the taught ones in it.
    """

    name: str
    hour: int
    embeddings: Floats
    levels_db: Floats
    hop_s: float
    clip_s: float
    words: tuple[Word, ...]
    seconds: float


def open_rooms(half: Half, count: int, seed: int, home: Home) -> list[Room]:
    """Furnish so many rooms; no two have a background or an everyday sound in common."""
    rng = np.random.default_rng([seed, 77])
    backgrounds = rng.permutation(len(half.backgrounds))
    names = sorted({clip.word for clip in half.clips if clip.label is None})
    taught, rooms = tuple(sorted({clip.label for clip in half.clips if clip.label is not None})), []
    for number in range(count):
        own = np.random.default_rng([seed, number])
        vocabulary = set(own.choice(names, _WORDS_PER_ROOM, replace=False).tolist())
        chosen = backgrounds[number::count][:_BACKGROUNDS_PER_ROOM]
        parts = Half(half.clips, tuple(half.backgrounds[index] for index in chosen))
        response, sounds = impulse_response(own).astype(np.float32), _sounds(number, count, taught)
        words = tuple(clip for clip in half.clips if clip.label is None and clip.word in vocabulary)
        rooms.append(Room(number, seed, parts, response, words, sounds, taught, home))
    return rooms


def _sounds(number: int, count: int, taught: Sequence[str]) -> tuple[Path, ...]:
    every = (*OTHER, *(sound for sound in TAUGHT if sound not in taught))
    paths = (path for sound in every for path in recordings_in(data_folder() / "urbansound8k_subset" / sound))
    # The recording that a clip was cut from decides.
    return tuple(path for path in paths if zlib.crc32(source_of(path).encode()) % count == number)


def _part_of(path: Path, *, measured: bool) -> bool:
    """Tell whether a recording belongs to the days measured, or to those lived through; a person's are together."""
    return (zlib.crc32(_person(path).encode()) % 2 == 1) == measured


def _person(path: Path) -> str:
    """Return who speaks on a recording of Speech Commands; of an everyday sound, which recording it was cut from."""
    return path.stem.partition("_nohash_")[0].rpartition("_")[2] if "_nohash_" in path.stem else source_of(path)


def sound_of(room: Room, name: str, day: int, *, measured: bool) -> tuple[Floats, list[Word]]:
    """Return what is heard in a part of a day, float32 [samples], and the taught words in it.

    Taught words are said on the days lived through alone.
    """
    _, seconds = PARTS[name]
    rng = np.random.default_rng([room.seed, room.number, day, zlib.crc32(name.encode()), int(measured)])
    length = round(seconds * RATE_HZ)
    if name == "night":
        return background(room.half, length, rng) * np.float32(10 ** (_NIGHT_DB / 20)), []
    stream = (gains(length, _SNR_DB, rng) * background(room.half, length, rng)).astype(np.float32)
    near = np.zeros(length, np.float32)
    if room.home.talk and name != "noon":
        near = _talk(room, length, rng, measured=measured)
    mean_s = 2 * 3600 / room.home.others_per_hour
    for paths in (room.sounds, [clip.path for clip in room.words]):
        heard = [path for path in paths if _part_of(path, measured=measured)]
        _scatter(near, heard, (0.4 * mean_s, 1.6 * mean_s), rng)
    words: list[Word] = []
    if not measured:
        own = room.own_words(measured=False)
        at = _scatter(near, [clip.path for clip in own], _OWN_GAP_S, rng)
        words = [Word(at_s, own[index].label, own[index].word, seconds) for at_s, index, seconds in at]
    return np.clip(stream + reverberated(near, room.response), -1.0, 1.0), words


@functools.cache
def _all_talk(seed: int) -> tuple[Floats, ...]:
    return tuple(synthesised(_TALK_PART_S, KNOWN, 100 * seed + part) for part in range(_TALK_PARTS))


def _talk(room: Room, length: int, rng: np.random.Generator, *, measured: bool) -> Floats:
    """Return talk near and far, float32 [length]."""
    pool, size = _all_talk(2 * room.seed + int(measured)), round(_PIECE_S * RATE_HZ)
    pieces = []
    for _ in range(-(-length // size)):
        part, gain = pool[rng.integers(len(pool))], 10 ** (rng.uniform(-_NEARER_DB, _NEARER_DB) / 20)
        start = int(rng.integers(len(part) - size))
        pieces.append(gain * part[start : start + size])
    return np.asarray(np.concatenate(pieces)[:length], np.float32)


def _scatter(
    stream: Floats, paths: Sequence[Path], gap_s: tuple[float, float], rng: np.random.Generator
) -> list[tuple[float, int, float]]:
    """Add recordings to a stream, one after another; return when each began, s, which it was, and its length, s."""
    found, at_s = [], float(rng.uniform(0, gap_s[1]))
    while paths and at_s + 5.0 < len(stream) / RATE_HZ:
        index = int(rng.integers(len(paths)))
        samples = _near_clip(paths[index], rng)
        start = round(at_s * RATE_HZ)
        stream[start : start + len(samples)] += samples
        found.append((at_s, index, len(samples) / RATE_HZ))
        at_s += len(samples) / RATE_HZ + float(rng.uniform(*gap_s))
    return found


def _near_clip(path: Path, rng: np.random.Generator) -> Floats:
    """Return a recording at about the level of a word, float32 [samples]."""
    whole = read_clip(path, SETTINGS) if path.suffix == ".flac" else read_recording(path, RATE_HZ)
    samples = np.asarray(whole, np.float32)
    gain = 10 ** ((WORD_DB + rng.uniform(-_NEARER_DB, _NEARER_DB)) / 20) / loud_rms(samples)
    fade = np.minimum(1.0, np.arange(len(samples)) / (0.01 * RATE_HZ)).astype(np.float32)
    return np.asarray(gain * samples * fade * fade[::-1], np.float32)


def _windows(samples: Floats, settings: EmbeddingSettings, hop: int) -> Floats:
    """Return the embeddings of all windows of a stretch, so many frames apart, float32 [windows, numbers].

    They are those of one window after the other: frames do not depend on one another, but for a window's first.
    """
    mel = settings.log_mel
    size, step = mel.clip_samples, hop * mel.hop_samples
    count = (len(samples) - size) // step + 1
    total = (count - 1) * hop + mel.frames
    whole = _front_end(part_of_settings(mel, total))(samples)
    firsts = np.stack([samples[at * step : at * step + mel.window_samples] for at in range(count)])
    windows = np.stack([whole[at * hop : at * hop + mel.frames] for at in range(count)])
    windows[:, 0] = _front_end(part_of_settings(mel, 1))(firsts)[:, 0]
    return np.asarray(_embedding(settings).of_log_mel(windows)[:, 0])


_front_end = functools.lru_cache(8)(open_front_end)
_embedding = functools.lru_cache(2)(Embedding)


def _stretch(samples: Floats, settings: EmbeddingSettings, hop: int) -> Floats:
    """Return what :func:`_windows` does, of a long stretch piece by piece."""
    step, size = hop * settings.hop_samples, settings.clip_samples
    ends = np.arange(size, len(samples) + 1, step)
    pieces = [ends[at : at + _AT_ONCE] for at in range(0, len(ends), _AT_ONCE)]
    return np.concatenate([_windows(samples[piece[0] - size : piece[-1]], settings, hop) for piece in pieces])


def _both(samples: Floats, settings: JointSettings, hop: int) -> Floats:
    """Return the numbers of a joint front end; that of sounds hears windows half a window apart."""
    words = _stretch(samples[settings.clip_samples - settings.words.clip_samples :], settings.words, hop)
    every = max(1, round(settings.clip_s / 2 / (hop * settings.hop_s)))
    sounds = np.repeat(_stretch(samples, settings.sounds, every * hop), every, axis=0)
    sounds = np.pad(sounds, ((0, max(0, len(words) - len(sounds))), (0, 0)), "edge")
    return np.concatenate([words, sounds[: len(words)]], axis=1)


def embedded(samples: Floats, words: Sequence[Word], name: str, settings: FeatureSettings, hop_s: float) -> Part:
    """Return a stretch of sound as the embeddings of the windows that a detector looks at."""
    frames = hop_frames(settings, hop_s)
    hop, size = min(frames * settings.hop_samples, settings.clip_samples), settings.clip_samples
    ends = np.arange(size, len(samples) + 1, hop)
    if isinstance(settings, JointSettings):
        rows = _both(samples, settings, frames)
    else:
        assert isinstance(settings, EmbeddingSettings)
        rows = _stretch(samples, settings, frames)
    power = np.concatenate([[0.0], np.cumsum(np.square(samples, dtype=np.float64))])
    levels = 10 * np.log10(np.maximum(1e-12, (power[ends] - power[ends - size]) / size))
    hour, hop_s, seconds = PARTS[name][0] if name in PARTS else 0, hop / RATE_HZ, len(samples) / RATE_HZ
    windows: Floats = np.asarray(rows, np.float16)
    return Part(name, hour, windows, levels.astype(np.float32), hop_s, settings.clip_s, tuple(words), seconds)


def cached(kept: dict[str, Part], key: str, settings: FeatureSettings, hop_s: float, make: Make) -> Part:
    """Return a part that was computed before, or compute it now: ``make`` returns its sound, words and name."""
    if key not in kept:
        kept[key] = embedded(*make(), settings, hop_s)
    return kept[key]


def day_parts(
    room: Room, day: int, settings: FeatureSettings, hop_s: float, kept: dict[str, Part], *, measured: bool
) -> list[Part]:
    """Return a day in a room, part by part; ``kept`` has those of all rooms that were computed before."""
    found = []
    for name in PARTS:
        key = f"{room.number} {day} {name} {measured}"

        def make(name: str = name) -> tuple[Floats, list[Word], str]:
            samples, words = sound_of(room, name, day, measured=measured)
            return samples, words, name

        found.append(cached(kept, key, settings, hop_s, make))
    return found


def said_words(room: Room, snr_db: float, settings: FeatureSettings, hop_s: float, kept: dict[str, Part]) -> Part:
    """Return all taught words of the people who are measured, said in a room at a ratio of levels."""

    def make() -> tuple[Floats, list[Word], str]:
        rng = np.random.default_rng([room.seed, room.number, int(snr_db), 9])
        own = room.own_words(measured=True)
        pieces, words, at_s = [], list[Word](), 0.0
        for index in rng.permutation(len(own)):
            gap, samples = (
                np.zeros(round(rng.uniform(*_APART_S) * RATE_HZ), np.float32),
                _near_clip(own[index].path, rng),
            )
            pieces += [gap, samples]
            at_s += len(gap) / RATE_HZ
            words.append(Word(at_s, own[index].label, own[index].word, len(samples) / RATE_HZ))
            at_s += len(samples) / RATE_HZ
        near = np.concatenate([*pieces, np.zeros(5 * RATE_HZ, np.float32)])
        length = len(near)
        noise = background(room.half, length, rng) * np.float32(10 ** ((WORD_DB - snr_db) / 20))
        return np.clip(noise + reverberated(near, room.response), -1.0, 1.0), words, f"words at {snr_db:g} dB"

    return cached(kept, f"{room.number} words {snr_db}", settings, hop_s, make)
