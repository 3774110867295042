"""Clips to deal out to virtual devices, as normalised features: recordings, log-mel pictures, made-up ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edge_client.capture.recordings import SUFFIXES, read_clip, speaker_of
from edge_client.errors import RecordingError
from edge_client.features import Mfcc
from fleet_protocol.bundle import Manifest
from fleet_simulator.errors import CorpusError
from fleet_simulator.experiment import DataSection
from fleet_simulator.log_mel_archive import read_log_mel

Floats = NDArray[np.float32]
_POOL = 1024


@dataclass(frozen=True)
class Corpus:
    """Clips of several labels.

    Attributes:
        names: the labels, in the order of their slots.
        labels: int64 [clips], every clip's slot.
        speakers: [clips], who speaks, or which recording a clip is of.
        features: int64 [n] rows -> float32 [n, frames, coefficients], normalised.
    """

    names: tuple[str, ...]
    labels: NDArray[np.int64]
    speakers: NDArray[np.str_]
    features: Callable[[NDArray[np.int64]], Floats]


def read_corpus(data: DataSection, manifest: Manifest, seed: int) -> Corpus:
    """Read what ``[data]`` names.

    Raises:
        CorpusError: it is missing, lacks a label, or has more labels than the model has slots.
    """
    if data.source == "synthetic":
        corpus = synthetic(data, manifest, seed)
    elif data.source == "log_mel":
        corpus = _of_pictures(data, manifest)
    else:
        corpus = _of_recordings(data, manifest)
    if len(corpus.names) > manifest.capacity:
        raise CorpusError(
            f"the data has {len(corpus.names)} labels and the model's head {manifest.capacity} slots; build the bundle "
            "with a larger --capacity, or name fewer labels"
        )
    return corpus


def synthetic(data: DataSection, manifest: Manifest, seed: int) -> Corpus:
    """Make clips up: a picture for each class, a smaller one for each speaker, and noise out of a pool of pictures."""
    rng = np.random.default_rng([seed, 1])
    shape = manifest.input_shape
    of_class = rng.standard_normal((data.classes, *shape), np.float32)
    of_speaker = 0.5 * rng.standard_normal((data.speakers, *shape), np.float32)
    noise = np.float32(data.noise) * rng.standard_normal((_POOL, *shape), np.float32)
    labels = rng.integers(data.classes, size=data.clips)
    speakers = rng.integers(data.speakers, size=data.clips)

    def features(rows: NDArray[np.int64]) -> Floats:
        # Two pictures of the pool are added, so that hardly any two clips are the same.
        around = noise[rows % _POOL] + noise[rows // _POOL % _POOL]
        return np.asarray(of_class[labels[rows]] + of_speaker[speakers[rows]] + around, np.float32)

    names = tuple(f"class-{index:02d}" for index in range(data.classes))
    return Corpus(names, labels, np.array([f"speaker-{speaker}" for speaker in speakers]), features)


def _of_pictures(data: DataSection, manifest: Manifest) -> Corpus:
    assert data.path is not None
    if not data.path.is_file():
        raise CorpusError(f"there is no log-mel archive {data.path}")
    found = read_log_mel(data.path, manifest.feature_settings, data.labels)
    return _in_memory(data, found.labels, found.speakers, found.x)


def _of_recordings(data: DataSection, manifest: Manifest) -> Corpus:
    folder = data.path
    assert folder is not None
    if not folder.is_dir():
        raise CorpusError(f"there is no folder {folder}; recordings are expected as <label>/<speaker>_nohash_<n>.wav")
    wanted = data.labels or tuple(sorted(f.name for f in folder.iterdir() if f.is_dir() and f.name[0] not in "._"))
    settings = manifest.feature_settings
    mfcc, mean, std = Mfcc(settings), np.asarray(manifest.mean), np.asarray(manifest.std)
    x, labels, speakers = [], [], []
    for label in wanted:
        for path in sorted((folder / label).glob("*")):
            if path.suffix.lower() not in SUFFIXES:
                continue
            try:
                x.append(((mfcc(read_clip(path, settings)) - mean) / std).astype(np.float32))
            except RecordingError as error:
                raise CorpusError(f"{error}; a simulation uses every clip that is there") from error
            labels.append(label)
            speakers.append(speaker_of(path))
    return _in_memory(data, np.array(labels), np.array(speakers), np.array(x, np.float32))


def _in_memory(data: DataSection, labels: NDArray[np.str_], speakers: NDArray[np.str_], x: Floats) -> Corpus:
    names = data.labels or tuple(str(name) for name in np.unique(labels))
    for name in names:
        if name not in labels:
            raise CorpusError(f"{_where(data.path)} has no clip of {name!r}; it has: {', '.join(np.unique(labels))}")
    if not names:
        raise CorpusError(f"{_where(data.path)} holds no clips as <label>/<speaker>_nohash_<n>")
    slots = {name: slot for slot, name in enumerate(names)}
    return Corpus(names, np.array([slots[str(label)] for label in labels], np.int64), speakers, lambda rows: x[rows])


def _where(path: Path | None) -> str:
    return str(path)
