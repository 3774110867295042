"""The recordings: who trains, who is listened to while defaults are chosen, and who when figures are reported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.command import BenchmarkError
from edge_client.audio.recordings import is_recording, read_recording, speaker_of, whole_stretch
from edge_client.features.augmentation import room_response
from fleet_protocol.bundle.feature_settings import preset
from fleet_protocol.numbers.arrays import Doubles, Floats

# What the first device knows in Gudur & Perepu 2021, table 1.
KNOWN = ("yes", "no", "up", "down")
OTHER = ("left", "right", "on", "off", "stop", "go", "_unknown_")
# Shares of the speakers.
TRAINING, TUNING = 0.6, 0.2
# How recordings are read, and what rate the streams have; a front end with another gets them resampled.
SETTINGS = preset("log_mel")
RATE_HZ = SETTINGS.sample_rate_hz
# Sounds that go on and on; none of them is heard in training.
_URBAN = ("air_conditioner", "children_playing", "drilling", "engine_idling", "street_music")
_URBAN_CLIPS = 20


@dataclass(frozen=True)
class Clip:
    """One word: its label, None for a word that the device does not know, where it is, and perhaps who says it."""

    label: str | None
    path: Path
    by: str = ""

    @property
    def word(self) -> str:
        """What is said; the names of the recordings in ``_unknown_`` begin with it."""
        folder = self.path.parent.name
        return self.path.name.rpartition("_nohash_")[0].rpartition("_")[0] if folder == "_unknown_" else folder


@dataclass(frozen=True)
class Half:
    """What is listened to: words of speakers of its own, and backgrounds, each float32 [samples]."""

    clips: tuple[Clip, ...]
    backgrounds: tuple[Floats, ...]


@dataclass(frozen=True)
class Material:
    """Training clips with known labels, the backgrounds that training may mix in, and the two halves."""

    training: tuple[Clip, ...]  # of the known labels
    noise: tuple[Floats, ...]  # backgrounds, each float32 [samples]
    tuning: Half  # what is listened to while defaults are chosen
    report: Half  # what figures are reported on


def load_material(data: Path, seed: int) -> Material:
    """Split the words by speaker and the backgrounds by time or recording."""
    words, noises, urban = data / "gsc_v2_test", data / "gsc_background_noise", data / "urbansound8k_subset"
    for folder in (words, noises, urban):
        if not folder.is_dir():
            raise BenchmarkError(f"there is no {folder}; give the folder that holds it by --data or AURICLE_DATA")
    clips = [Clip(label, path) for label in KNOWN for path in recordings_in(words / label)]
    clips += [Clip(None, path) for label in OTHER for path in recordings_in(words / label)]
    speakers = np.random.default_rng(seed).permutation(sorted({_speaker(clip.path) for clip in clips}))
    first, second = round(TRAINING * len(speakers)), round((TRAINING + TUNING) * len(speakers))
    parts = [set(part) for part in np.split(speakers, [first, second])]
    training, tuning, report = (tuple(clip for clip in clips if _speaker(clip.path) in part) for part in parts)
    noise, *backgrounds = _split_noises(noises)
    street = _urban(urban)
    return Material(
        tuple(clip for clip in training if clip.label is not None),
        noise,
        Half(tuning, backgrounds[0] + street[0]),
        Half(report, backgrounds[1] + street[1]),
    )


def recordings_in(folder: Path) -> list[Path]:
    """Return the recordings that lie in a folder; none where it is no folder."""
    return sorted(filter(is_recording, folder.glob("*")))


def by_speaker(files: Sequence[Path]) -> dict[str, list[Path]]:
    """Return recordings by who speaks, or by their source."""
    found: dict[str, list[Path]] = {}
    for path in files:
        found.setdefault(speaker_of(path), []).append(path)
    return found


def _speaker(path: Path) -> str:
    """Return the speaker; the names of other words begin with the word."""
    return speaker_of(path).rpartition("_")[2]


def _split_noises(folder: Path) -> tuple[tuple[Floats, ...], ...]:
    """Return the first half of every noise recording, its third quarter, and its last."""
    recordings = [read_recording(path, RATE_HZ) for path in recordings_in(folder)]
    parts = [np.split(samples, [len(samples) // 2, len(samples) * 3 // 4]) for samples in recordings]
    return tuple(zip(*parts, strict=True))


def _urban(folder: Path) -> tuple[tuple[Floats, ...], tuple[Floats, ...]]:
    """Return sounds that go on, one slice of each original recording (fsID), the even ones and the odd ones."""
    parts: tuple[list[Floats], list[Floats]] = ([], [])
    taken: set[int] = set()
    for sound in _URBAN:
        count = [0, 0]
        for path in sorted((folder / sound).glob("*.ogg")):
            recording = int(path.stem.split("_")[-1].split("-")[0])
            part = recording % 2
            if recording not in taken and count[part] < _URBAN_CLIPS:
                taken.add(recording)
                count[part] += 1
                parts[part].append(read_recording(path, RATE_HZ))
    return tuple(parts[0]), tuple(parts[1])


# Root mean square of a word where it is loud, dB full scale; a speaker is nearer or farther by so many dB.
WORD_DB, NEARER_DB = -28.0, 4.0
_GAP_S = (1.5, 4.0)
_SECTION_S = 20.0
_FADE_S = 0.01
_LOUD_S = 0.03
# Rooms: reverberation time, and level of the direct sound above the reverberation.
_REVERBERATION_S, _DIRECT_DB = (0.3, 0.8), (0.0, 10.0)


@dataclass(frozen=True)
class Word:
    """A word in a stream."""

    begin_s: float  # where its clip begins, s
    label: str | None  # what it is called; None for a word that nobody taught
    word: str = ""  # what is said
    seconds: float = 1.0  # length of its clip
    by: str = ""  # who says it, where that is asked


@dataclass(frozen=True)
class Stream:
    """float32 [samples] at ``RATE_HZ``, and the words in it in order of time."""

    samples: Floats
    words: tuple[Word, ...]


def make_stream(
    half: Half, snr_db: float, minutes: float, rng: np.random.Generator, response: Doubles | None = None
) -> Stream:
    """Mix all words of a half, or as many as fit into the time, into its backgrounds.

    ``response``: of the room through which the words are heard, float64 [samples]; None: as they were recorded.
    """
    clips: list[Clip] = [half.clips[i] for i in rng.permutation(len(half.clips))]
    words, said, at_s = [], [], _GAP_S[1]
    for clip in clips:
        if at_s > 60 * minutes - SETTINGS.clip_s:
            break
        said.append(_whole(clip.path))
        words.append(Word(at_s, clip.label, clip.word, len(said[-1]) / RATE_HZ, clip.by))
        at_s += words[-1].seconds + rng.uniform(*_GAP_S)
    noise = background(half, round((at_s + 1) * RATE_HZ), rng) * np.float32(10 ** ((WORD_DB - snr_db) / 20))
    near = np.zeros_like(noise)
    for word, speech in zip(words, said, strict=True):
        fade = np.minimum(1.0, np.arange(len(speech)) / (_FADE_S * RATE_HZ))
        speech = speech * fade * fade[::-1]
        start = round(word.begin_s * RATE_HZ)
        gain = 10 ** ((WORD_DB + rng.uniform(-NEARER_DB, NEARER_DB)) / 20) / loudness(speech)
        near[start : start + len(speech)] += (gain * speech).astype(np.float32)
    heard = near if response is None else reverberated(near, response)
    return Stream(np.clip(noise + heard, -1.0, 1.0), tuple(words))


def _whole(path: Path) -> Floats:
    """Return a recording's loudest second, or all that is said about it where that is longer, float32 [samples]."""
    samples = read_recording(path, RATE_HZ)
    begin, end = whole_stretch(samples, SETTINGS)
    return np.pad(samples[begin:end], (0, max(0, SETTINGS.clip_samples - (end - begin))))


def impulse_response(rng: np.random.Generator) -> Doubles:
    """Return that of a room that is drawn, float64 [samples]."""
    noise = rng.standard_normal(round(_REVERBERATION_S[1] * RATE_HZ))
    return room_response(noise, rng.uniform(*_REVERBERATION_S), rng.uniform(*_DIRECT_DB), RATE_HZ)


def reverberated(samples: Floats, response: Floats | Doubles, size: int = 2**17) -> Floats:
    """Return samples as they are heard in a room, float32 [samples]; overlap and add."""
    block = size - len(response) + 1
    spectrum = np.fft.rfft(response, size)
    heard = np.zeros(len(samples) + len(response) - 1, np.float32)
    for start in range(0, len(samples), block):
        piece = samples[start : start + block]
        if piece.any():
            made = np.fft.irfft(np.fft.rfft(piece, size) * spectrum, size)[: len(piece) + len(response) - 1]
            heard[start : start + len(made)] += made.astype(np.float32)
    return heard[: len(samples)]


def background(half: Half, length: int, rng: np.random.Generator) -> Floats:
    """Return sections of backgrounds, each with a root mean square of 1, float32 [length]."""
    section = round(_SECTION_S * RATE_HZ)
    parts = []
    for _ in range(-(-length // section)):
        recording = half.backgrounds[rng.integers(len(half.backgrounds))]
        part = np.resize(np.roll(recording, -int(rng.integers(len(recording)))), section)
        parts.append(part / rms(part))
    sections: Floats = np.concatenate(parts)[:length].astype(np.float32)
    return sections


def gains(length: int, snr_db: tuple[float, float], rng: np.random.Generator) -> Doubles:
    """Return by what a background is multiplied to be so far below words, drawn for each section, float64 [length]."""
    section = round(_SECTION_S * RATE_HZ)
    return np.repeat(10 ** ((WORD_DB - rng.uniform(*snr_db, size=-(-length // section))) / 20), section)[:length]


def rms(samples: Floats) -> float:
    """Return the root mean square, at least 1e-6."""
    return max(1e-6, float(np.sqrt(np.mean(np.square(samples)))))


def loud_rms(samples: Floats) -> float:
    """Return the root mean square of what is above a tenth of the loudest; 1 of silence."""
    loud = samples[np.abs(samples) > 0.1 * np.abs(samples).max(initial=0.0)]
    return rms(loud) if len(loud) else 1.0


def loudness(speech: Floats | Doubles, rate_hz: int = RATE_HZ) -> float:
    """Return the root mean square of the loudest tenth of 30 ms frames and what comes near it (within 20 dB)."""
    size = round(_LOUD_S * rate_hz)
    power = np.square(speech[: len(speech) // size * size].reshape(-1, size)).mean(axis=1)
    return float(np.sqrt(power[power >= 0.01 * power.max()].mean())) or 1.0
