"""Clips to deal out to virtual devices, as normalised features: recordings, log-mel pictures, made-up ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fleet_protocol.arrays import Floats, Ints
from fleet_protocol.bundle import Manifest
from fleet_simulator.data.log_mel import picture_features, pictures
from fleet_simulator.data.recording_features import recording_features
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
    return Corpus(
        names,
        labels.repeat(data.windows),
        speakers.repeat(data.windows),
        lambda rows: x[rows],
        None if trained is None else lambda rows: trained[rows],
        data.windows,
    )


def _labelled(data: DataSection, found: Sequence[Entry]) -> tuple[tuple[str, ...], list[tuple[Entry, str]]]:
    """Return the labels, and the entries that have one: its word goes before its label."""
    labels = sorted({entry.label for entry in found})
    names = data.labels or tuple(name for name in labels if name and not name.startswith("_"))
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
