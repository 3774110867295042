"""Clips made different from one another while training, so that a small model learns the sound and not the recording.

Time shift and background noise as in FedKWS-UI (Li et al. 2022, section 5): +-100 ms, volume 0.1, probability 0.8.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edge_client.audio.recordings import FORMATS, SUFFIXES, loud_stretch, read_recording
from edge_client.errors import RecordingError
from fleet_protocol.numbers.arrays import Doubles, Floats, Ints

# What a listening device hears lies anywhere in its window, near or far, in more noise or less.
_LISTENING_SHIFT_S = 0.25
_LISTENING_GAIN_DB = (-10.0, 6.0)
# Level, dB full scale, to which a quieter take is raised first: later it may be said louder, or nearer.
_QUIET_DB = -36.0
_LISTENING_SNR_DB = (0.0, 30.0)
# How other people and microphones differ from a take: speed as a factor, and tilt of the spectrum in dB an octave.
_TAKES_SPEED = (0.7, 1.4)
_TAKES_TILT_DB = 6.0
# Rooms: time in which the reverberation falls by 60 dB, s, and level of the direct sound above all of it, dB.
ROOM_DECAY_S, ROOM_DIRECT_DB = (0.15, 0.5), (0.0, 12.0)
SHIFT_S = 0.1
NOISE_VOLUME = 0.1
NOISE_PROBABILITY = 0.8

# A sound this long, between its first and last frames within 17 dB of the loudest, can be heard in part.
LONG_S = 0.6
_FADE_S = 0.01

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class BackgroundNoise:
    """Long recordings of backgrounds, each float32 [samples] at the clips' rate."""

    recordings: tuple[Floats, ...]

    @classmethod
    def load(cls, folder: Path, sample_rate_hz: int) -> BackgroundNoise:
        """Read a folder's recordings, a minute each; damaged ones are logged. Raises RecordingError if none is good."""
        recordings = []
        for path in sorted(folder.glob("*")):
            if path.suffix.lower() in SUFFIXES:
                try:
                    recordings.append(read_recording(path, sample_rate_hz))
                except RecordingError as error:
                    _log.warning("left out a background recording: %s", error)
        if not recordings:
            raise RecordingError(f"no background recordings in {folder}; put {FORMATS} files there")
        return cls(tuple(recordings))


@dataclass(frozen=True)
class Augmentation:
    """How variants of a clip differ from it: by a shift in time, at most so many seconds, and by background.

    ``noise_volume``: factor on the background; ``noise_probability``: that a variant gets it, 0..1.
    """

    shift_s: float = SHIFT_S
    noise_volume: float = NOISE_VOLUME
    noise_probability: float = NOISE_PROBABILITY


def augment(
    clips: Floats,
    sample_rate_hz: int,
    rng: np.random.Generator,
    noise: BackgroundNoise | None = None,
    how: Augmentation | None = None,
) -> Floats:
    """Return changed copies of clips, float32 [clips, samples]: shifted in time and, where noise is given, noisy."""
    how = how or Augmentation()
    largest = min(round(how.shift_s * sample_rate_hz), clips.shape[1] - 1)
    shifted = time_shift(clips, largest, rng)
    return shifted if noise is None else mix_noise(shifted, noise, rng, how.noise_volume, how.noise_probability)


def augment_for_listening(
    clips: Floats, sample_rate_hz: int, rng: np.random.Generator, noise: BackgroundNoise | None = None
) -> Floats:
    """Return changed copies of clips, float32 [clips, samples], as windows of a stream hold them.

    Each is shifted, louder or softer, and, where noise is given, in a random stretch of it at a random ratio of levels.
    """
    heard = time_shift(clips, round(_LISTENING_SHIFT_S * sample_rate_hz), rng)
    recordings = () if noise is None else noise.recordings
    for clip in heard if recordings else ():
        background = recordings[rng.integers(len(recordings))]
        start = rng.integers(max(1, len(background) - len(clip) + 1))
        stretch = np.resize(background[start : start + len(clip)], len(clip))
        clip += stretch * (_rms(clip) / _rms(stretch) * 10 ** (-rng.uniform(*_LISTENING_SNR_DB) / 20))
    raised_db = np.array([[max(0.0, _QUIET_DB - 20 * np.log10(_rms(clip)))] for clip in clips])
    gains = 10 ** ((raised_db + rng.uniform(*_LISTENING_GAIN_DB, size=(len(clips), 1))) / 20)
    np.multiply(heard, gains, out=heard, casting="same_kind")  # in place: a label's clips are tens of megabytes
    return np.clip(heard, -1.0, 1.0, out=heard)


def augment_takes(
    clips: Floats, sample_rate_hz: int, rng: np.random.Generator, noise: BackgroundNoise | None = None
) -> Floats:
    """Return changed copies of clips, float32 [clips, samples], as other people and microphones might give them.

    Each is played faster or slower, its spectrum is tilted, and it is put into a stream's window. A change of tempo
    without pitch gained nothing more.
    """
    return augment_for_listening(tilt(change_speed(clips, rng), sample_rate_hz, rng), sample_rate_hz, rng, noise)


def reverberate(clips: Floats, sample_rate_hz: int, rng: np.random.Generator) -> Floats:
    """Return clips, float32 [clips, samples], each as it is heard across a room of its own: the direct sound, and noise
    that falls off exponentially (Polack 1988)."""
    length = clips.shape[1]
    heard = np.empty_like(clips)
    for clip, into in zip(clips, heard, strict=True):
        decay_s = rng.uniform(*ROOM_DECAY_S)
        noise = rng.standard_normal(round(decay_s * sample_rate_hz))
        response = room_response(noise, decay_s, rng.uniform(*ROOM_DIRECT_DB), sample_rate_hz)
        size = 1 << (length + len(response) - 1).bit_length()
        into[:] = np.fft.irfft(np.fft.rfft(clip, size) * np.fft.rfft(response, size), size)[:length]
    return heard


def room_response(noise: Doubles, decay_s: float, direct_db: float, sample_rate_hz: int) -> Doubles:
    """Return a room's impulse response, float64 [samples]: the direct sound, and noise that falls off behind it.

    ``noise``: normal numbers, float64 [samples]; ``decay_s``: time in which it falls by 60 dB, s; ``direct_db``: level
    of the direct sound above all of it, dB.
    """
    time_s = np.arange(len(noise)) / sample_rate_hz
    tail = noise * 10 ** (-3 * time_s / decay_s)
    tail *= 10 ** (-direct_db / 20) / np.sqrt(np.square(tail).sum())
    tail[0] += 1.0
    return np.asarray(tail)


def change_speed(clips: Floats, rng: np.random.Generator) -> Floats:
    """Return clips, each played at its own speed about its middle: pitch, formants and tempo change together."""
    length = clips.shape[1]
    times, middle = np.arange(length), length / 2
    changed = np.empty_like(clips)
    for clip, into in zip(clips, changed, strict=True):
        speed = np.exp(rng.uniform(*np.log(_TAKES_SPEED)))
        into[:] = np.interp(middle + (times - middle) * speed, times, clip, left=0.0, right=0.0)
    return changed


def tilt(clips: Floats, sample_rate_hz: int, rng: np.random.Generator) -> Floats:
    """Return clips, each with its spectrum tilted about 1 kHz by its own slope; the levels stay as they are."""
    octaves = np.log2(np.maximum(np.fft.rfftfreq(clips.shape[1], 1 / sample_rate_hz), 100.0) / 1000.0)
    tilted = np.empty_like(clips)
    for clip, into in zip(clips, tilted, strict=True):
        gains = 10 ** (rng.uniform(-_TAKES_TILT_DB, _TAKES_TILT_DB) * octaves / 20)
        changed = np.fft.irfft(np.fft.rfft(clip) * gains, len(clip)).astype(np.float32)
        into[:] = changed * (_rms(clip) / _rms(changed))
    return tilted


def splice(clips: Floats, labels: Ints, rng: np.random.Generator) -> Floats:
    """Return as many clips that are no label's, float32 [clips, samples]: each of quarters of clips of several labels.

    They stand for sounds that the device does not know. (Quarters of one label's clips would not do: an engine's, in
    whatever order, still are an engine.)
    """
    spliced = np.zeros_like(clips)
    size = clips.shape[1] // 4
    for row in spliced:
        first = int(rng.integers(len(clips)))
        second = int(rng.choice(np.flatnonzero(labels != labels[first])))
        origins = [first, second, *rng.integers(len(clips), size=2)]
        for place, (origin, quarter) in enumerate(zip(rng.permutation(origins), rng.permutation(4), strict=True)):
            row[place * size : (place + 1) * size] = clips[origin, quarter * size : (quarter + 1) * size]
    return spliced


def parts_of(clip: Floats, sample_rate_hz: int) -> Floats:
    """Return what is less than the whole of a long sound, float32 [parts, samples], from a clip, float32 [samples].

    Its halves alone, at their place and at the other's, each of them twice, and the second before the first. None,
    [0, samples], of a sound that is shorter than ``LONG_S``.
    """
    size = round(_FADE_S * sample_rate_hz)
    begin, end = loud_stretch(clip, sample_rate_hz)
    if end - begin < LONG_S * sample_rate_hz:
        return np.zeros((0, len(clip)), np.float32)
    half = (end - begin) // 2
    fade = np.minimum(1.0, np.arange(half) / size)
    first, second = (clip[start : start + half] * (fade * fade[::-1]) for start in (begin, begin + half))
    nothing = np.zeros_like(first)
    pairs = [(first, nothing), (nothing, first), (second, nothing), (nothing, second)]
    pairs += [(first, first), (second, second), (second, first)]
    parts = np.zeros((len(pairs), len(clip)), np.float32)
    for part, pair in zip(parts, pairs, strict=True):
        part[begin : begin + 2 * half] = np.concatenate(pair)
    return parts


def _rms(samples: Floats) -> float:
    """Return the root mean square, a little above 0 for silence."""
    return float(np.sqrt(np.mean(np.square(samples)))) + 1e-6


def time_shift(clips: Floats, largest: int, rng: np.random.Generator) -> Floats:
    """Return clips, float32 [clips, samples], each moved by its own number of samples, at most ``largest``."""
    shifted = np.zeros_like(clips)
    length = clips.shape[1]
    for row, by in enumerate(rng.integers(-largest, largest + 1, size=len(clips))):
        shifted[row, max(0, by) : length + min(0, by)] = clips[row, max(0, -by) : length - max(0, by)]
    return shifted


def mix_noise(
    clips: Floats,
    noise: BackgroundNoise,
    rng: np.random.Generator,
    volume: float = NOISE_VOLUME,
    probability: float = NOISE_PROBABILITY,
) -> Floats:
    """Return clips, float32 [clips, samples] in -1..1, to which a random stretch of a random background was added.

    Each clip gets it with some probability, 0..1; a background that is shorter than a clip is repeated.
    """
    mixed = clips.copy()
    length = clips.shape[1]
    for row in np.flatnonzero(rng.random(len(clips)) < probability):
        background = noise.recordings[rng.integers(len(noise.recordings))]
        start = rng.integers(max(1, len(background) - length + 1))
        mixed[row] += volume * np.resize(background[start : start + length], length)
    return np.clip(mixed, -1.0, 1.0, out=mixed)
