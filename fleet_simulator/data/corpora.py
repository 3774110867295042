"""Clips to deal out to virtual devices, as normalised features: recordings, log-mel pictures, made-up ones."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edge_client.audio.recordings import loudest_stretch, read_recording
from edge_client.errors import RecordingError
from edge_client.features.augmentation import BackgroundNoise, augment
from edge_client.features.front_end import open_front_end
from fleet_protocol.bundle.bundle_file import Manifest
from fleet_protocol.bundle.feature_settings import FeatureSettings
from fleet_protocol.numbers.arrays import Floats, Ints
from fleet_simulator.data.log_mel import picture_features, pictures
from fleet_simulator.data.recording_layouts import LAYOUTS, NOBODY, Entry
from fleet_simulator.errors import CorpusError
from fleet_simulator.experiment.sections import DataSection

_POOL = 1024
_SPEAKERS = 200


@dataclass(frozen=True)
class Corpus:
    """Clips of several labels."""

    names: tuple[str, ...]  # the labels, in the order of their slots
    labels: Ints  # int64 [clips], every clip's slot
    # [clips], who speaks, or which longer recording a clip was cut from; ``NOBODY`` for noise
    speakers: NDArray[np.str_]
    features: Callable[[Ints], Floats]  # int64 [n] rows -> float32 [n, frames, coefficients], normalised
    # [n] rows -> float32 [n, variants, frames, coefficients], as devices have them, the first as it was recorded there;
    # None: they have nothing but ``features``
    trained: Callable[[Ints], Floats] | None = None
    windows: int = 1  # so many clips in a row were cut from the same recording

    def on_devices(self, rows: Ints) -> Floats:
        """Return rows as devices have them, float32 [n, variants, frames, coefficients]."""
        return self.features(rows)[:, None] if self.trained is None else self.trained(rows)


def read_corpus(data: DataSection, manifest: Manifest, seed: int) -> Corpus:
    """Read what ``[data]`` names.

    Raises CorpusError: it is missing, lacks a label or speakers, or has more labels than the model has slots.
    """
    read = synthetic if data.source == "synthetic" else _of_entries
    corpus = read(data, manifest, seed)
    if len(corpus.names) > manifest.capacity:
        raise CorpusError(
            f"the data has {len(corpus.names)} labels and the model's head {manifest.capacity} slots; build the bundle "
            "with a larger --capacity, or name fewer labels"
        )
    return corpus


def synthetic(data: DataSection, manifest: Manifest, seed: int) -> Corpus:
    """Make clips up: a picture for each class, a smaller one for each speaker, and noise out of a pool of pictures."""
    rng = np.random.default_rng([seed, 1])
    shape, people = manifest.input_shape, data.speakers or _SPEAKERS
    of_class = rng.standard_normal((data.classes, *shape), np.float32)
    of_speaker = 0.5 * rng.standard_normal((people, *shape), np.float32)
    noise = np.float32(data.noise) * rng.standard_normal((_POOL, *shape), np.float32)
    labels = rng.integers(data.classes, size=data.clips)
    speakers = rng.integers(people, size=data.clips)

    def features(rows: Ints) -> Floats:
        # Two pictures of the pool are added, so that hardly any two clips are the same.
        around = noise[rows % _POOL] + noise[rows // _POOL % _POOL]
        return np.asarray(of_class[labels[rows]] + of_speaker[speakers[rows]] + around, np.float32)

    names = tuple(f"class-{index:02d}" for index in range(data.classes))
    return Corpus(names, labels, np.array([f"speaker-{speaker}" for speaker in speakers]), features)


def _of_entries(data: DataSection, manifest: Manifest, seed: int) -> Corpus:
    assert data.path is not None
    found: Sequence[Entry] = pictures(data.path) if data.source == "log_mel" else LAYOUTS[data.source](data.path)
    names, labelled = _labelled(data, found)
    used = _drawn(data, [entry for entry, _ in labelled], seed)
    entries = [labelled[row][0] for row in used]
    slots = {name: slot for slot, name in enumerate(names)}
    labels = np.array([slots[labelled[row][1]] for row in used], np.int64)
    speakers = np.array([entry.speaker for entry in entries])
    read = picture_features if data.source == "log_mel" else recording_features
    x, trained = read(data, entries, manifest, seed)
    if trained is not None and data.noisy == "all":
        x = trained[:, 0]
    labels, speakers = labels.repeat(data.windows), speakers.repeat(data.windows)
    heard = None if trained is None else trained.__getitem__
    return Corpus(names, labels, speakers, x.__getitem__, heard, data.windows)


def _labelled(data: DataSection, found: Sequence[Entry]) -> tuple[tuple[str, ...], list[tuple[Entry, str]]]:
    """Return the labels, and the entries that have one: its word goes before its label."""
    labels = sorted({entry.label for entry in found})
    names = data.labels or tuple(name for name in labels if not name.startswith("_"))
    wanted, labelled = set(names), []
    for entry in found:
        label = entry.word if entry.word in wanted else entry.label
        if label in wanted:
            labelled.append((entry, label))
    if lacking := [name for name in names if name not in {label for _, label in labelled}]:
        there = sorted({*labels, *(entry.word for entry in found)} - {""})
        raise CorpusError(f"{data.path} has no clip of {lacking[0]!r}; it has: {', '.join(there)}")
    return names, labelled


def _drawn(data: DataSection, entries: Sequence[Entry], seed: int) -> Ints:
    """Return the rows of the speakers that are used, and of as large a share of nobody's clips."""
    speakers = np.array([entry.speaker for entry in entries])
    names = np.unique(speakers[speakers != NOBODY])
    if data.speakers is None:
        return np.arange(len(entries))
    if len(names) < data.speakers:
        raise CorpusError(
            f"{data.path} has clips of {len(names)} speakers, fewer than [data] speakers = {data.speakers}; "
            "leave the key out to use all"
        )
    rng = np.random.default_rng([seed, 7])
    strays = rng.permutation(np.flatnonzero(speakers == NOBODY))
    used = np.isin(speakers, rng.permutation(names)[: data.speakers])
    used[strays[: round(len(strays) * data.speakers / len(names))]] = True
    return np.flatnonzero(used)


def recording_features(
    data: DataSection, entries: Sequence[Entry], manifest: Manifest, seed: int
) -> tuple[Floats, Floats | None]:
    """Return normalised features of recordings, float32 [clips, frames, coefficients], and what devices have instead.

    That is float32 [clips, 1 + variants, frames, coefficients]; None: the same. ``data.windows`` clips of a recording
    follow one another.
    """
    settings = manifest.feature_settings
    front_end, mean, std = open_front_end(settings), np.asarray(manifest.mean), np.asarray(manifest.std)
    x = np.empty((len(entries), data.windows, *settings.shape), np.float32)
    trained = np.empty((*x.shape[:2], 1 + data.variants, *settings.shape), np.float32) if data.changed else None
    try:
        background = BackgroundNoise.load(data.background, settings.sample_rate_hz) if data.background else None
        read = functools.lru_cache(maxsize=1)(read_recording)  # seconds of one long recording follow one another
        for row, entry in enumerate(entries):
            samples = read(Path(entry.path), settings.sample_rate_hz)
            if entry.second is not None:
                samples = samples[entry.second * settings.sample_rate_hz :][: settings.clip_samples]
            x[row] = (front_end(clips_of(samples, data.windows, settings)) - mean) / std
            if trained is not None:
                heard = _heard(samples, data, settings, background, np.random.default_rng([seed, 9, row]))
                trained[row] = (front_end(heard.reshape(-1, heard.shape[-1])).reshape(trained[row].shape) - mean) / std
    except RecordingError as error:
        raise CorpusError(f"{error}; a simulation uses every clip that is there") from error
    return x.reshape(-1, *settings.shape), None if trained is None else trained.reshape(-1, *trained.shape[2:])


def _heard(
    samples: Floats,
    data: DataSection,
    settings: FeatureSettings,
    background: BackgroundNoise | None,
    rng: np.random.Generator,
) -> Floats:
    """Return what a device has of a recording, float32 [windows, 1 + variants, clip_samples]."""
    if np.isfinite(data.snr_db):
        samples = with_white_noise(samples, data.snr_db, rng)
    clips = clips_of(samples, data.windows, settings)
    copies = (augment(clips, settings.sample_rate_hz, rng, background) for _ in range(data.variants))
    return np.stack([clips, *copies], axis=1)


def clips_of(samples: Floats, windows: int, settings: FeatureSettings) -> Floats:
    """Cut a recording into clips, float32 [windows, clip_samples].

    One is the loudest stretch, as a device takes it; more lie equally far from one another, the first at the start and
    the last at the end. What is missing of a shorter recording is silence.
    """
    length = settings.clip_samples
    if windows == 1:
        samples = loudest_stretch(samples, settings)
    samples = np.pad(samples, (0, max(0, length - len(samples))))
    starts = np.linspace(0, len(samples) - length, windows).round().astype(int)
    return np.stack([samples[start : start + length] for start in starts])


def with_white_noise(samples: Floats, snr_db: float, rng: np.random.Generator) -> Floats:
    """Return a recording with white Gaussian noise whose power is ``snr_db`` below the recording's mean power."""
    level = np.sqrt(np.mean(np.square(samples, dtype=np.float64)) * 10 ** (-snr_db / 10))
    return samples + np.float32(level) * rng.standard_normal(len(samples), np.float32)
