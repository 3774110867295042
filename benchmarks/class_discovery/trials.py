"""Clips of words, and devices that describe a word as in a round (Gudur & Perepu 2021, appendix E)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from aggregator_server.aggregation.contract import Contribution, RoundInputs
from aggregator_server.discovery.new_classes import Settled
from aggregator_server.discovery.new_sounds import recognise
from aggregator_server.schemas import RoundRequest
from aggregator_server.strategies.plans import make_plan
from benchmarks.bundles import build_bundles
from edge_client.features.embedding import Embedding
from edge_client.learning.data_impressions import synthesise
from edge_client.learning.new_sounds import class_means
from edge_client.learning.sgd import Optimiser, from_slots, train_epoch
from edge_client.learning.training_data import Clips
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.bundle.feature_settings import EmbeddingSettings
from fleet_protocol.messages.public_set import PublicSet
from fleet_protocol.messages.rest import ClassInfo, ClassReport, Update
from fleet_protocol.numbers.arrays import Bools, Floats, Ints
from fleet_protocol.numbers.tensors import Arrays
from fleet_simulator.data.log_mel import pictures
from model_export.pretraining.evaluation import KEYWORDS
from model_export.pretraining.pictures import LOG_POWERS, decode

ARCHITECTURES = ("linear", "hidden")
"""Of the devices."""
_PUBLIC_CLIPS = 100
"""Clips of each word in the public set."""
RATE = 0.02
"""Learning rate of the devices' training."""
_ROWS = 512


@dataclass(frozen=True)
class Corpus:
    """Every clip of the words."""

    bundles: Path  # folder of the models
    settings: EmbeddingSettings  # of the features
    x: Floats  # features as the models take them, float32 [clips, 1, numbers]
    labels: NDArray[np.str_]  # the word of every clip
    speakers: NDArray[np.str_]  # who speaks

    def open_model(self, architecture: str) -> ModelRuntime:
        """Open a model with its initial weights."""
        return ModelRuntime.open(self.bundles / f"{architecture}.auricle")

    def speakers_with(self, among: NDArray[np.str_], needed: dict[str, int]) -> list[str]:
        """Return the speakers who have at least so many clips of each word."""
        counts = {
            word: dict(zip(*np.unique(self.speakers[self.labels == word], return_counts=True), strict=True))
            for word in needed
        }
        return [str(s) for s in among if all(counts[word].get(s, 0) >= least for word, least in needed.items())]

    def draw(self, among: Bools, word: str, count: int, rng: np.random.Generator) -> Ints:
        """Draw clips of a word, all of them where there are fewer."""
        rows = np.flatnonzero(among & (self.labels == word))
        return rng.choice(rows, min(count, len(rows)), replace=False)

    def clips(self, rows: Sequence[Ints]) -> Clips:
        """Return the rows of several words as clips; the slot of a word is its place."""
        return Clips(self.x[np.concatenate(rows)][None], np.repeat(np.arange(len(rows)), [len(part) for part in rows]))

    def public_set(self, among: Bools, words: tuple[str, ...], rng: np.random.Generator) -> PublicSet:
        """Return a public set of some words."""
        x = self.x[np.concatenate([self.draw(among, word, _PUBLIC_CLIPS, rng) for word in words])]
        model = self.open_model(ARCHITECTURES[0])
        labels = np.repeat(np.arange(len(words), dtype=np.int64), _PUBLIC_CLIPS)
        classes = tuple(ClassInfo(word, word) for word in words)
        return PublicSet(self.settings, classes, model.denormalise(x), labels, np.zeros(len(x), np.bool_))


def build(front_end: Path, folder: Path) -> None:
    """Build the models that a front end's devices have."""
    build_bundles(folder, ARCHITECTURES, "--features", str(front_end))


def read(archive: Path, bundles: Path) -> Corpus:
    """Read the archive's words as the features of bundles."""
    entries = [entry for entry in pictures(archive) if entry.label in KEYWORDS]
    pixels = decode(archive, [entry.path for entry in entries])
    model = ModelRuntime.open(bundles / f"{ARCHITECTURES[0]}.auricle")
    settings = model.manifest.feature_settings
    assert isinstance(settings, EmbeddingSettings)
    network = Embedding(settings)
    parts = [network.of_log_mel(LOG_POWERS[pixels[i : i + _ROWS]]) for i in range(0, len(pixels), _ROWS)]
    x = model.normalise(np.concatenate(parts))
    labels, speakers = (np.array(list(column)) for column in zip(*((e.label, e.speaker) for e in entries), strict=True))
    return Corpus(bundles, settings, x, labels, speakers)


KNOWN, NEW = KEYWORDS[:8], ("stop", "go")
EPOCHS = 12
_PLAN = make_plan(RoundRequest("zero_shot"))


def prototypes(model: ModelRuntime, clips: Clips) -> Arrays:
    """Return what describes every word on an embedding, which no training changes."""
    counts = np.bincount(clips.slots)
    means = class_means(model.denormalise(clips.x[0]), clips.slots, range(len(counts)))
    return {"prototypes": means, "counts": counts.astype(np.float32)}


def described(model: ModelRuntime, clips: Clips, rng: np.random.Generator) -> Arrays:
    """Train a device on its words, the last one joining half way; return prototypes and impressions of every word."""
    count, optimiser = int(clips.slots.max()) + 1, Optimiser(RATE)
    for known in (count - 1, count):
        rows = clips.slots < known
        mask = mask_of(model, known)
        targets = from_slots(clips.slots[rows], model.manifest.capacity)
        for _ in range(EPOCHS):
            train_epoch(model, clips.x[0][rows], targets, mask, optimiser, rng)
    impressions = synthesise(model, mask, list(range(count)), _PLAN.local.settings, rng)
    means = class_means(model.denormalise(clips.x[0]), clips.slots, range(count))
    return {"prototypes": means, "impressions": impressions}


def mask_of(model: ModelRuntime, count: int) -> Floats:
    """Return the mask of a model's first outputs."""
    return (np.arange(model.manifest.capacity) < count).astype(np.float32)


def contribution(device: int, words: Sequence[str], arrays: Arrays) -> Contribution:
    """Return the upload of a device that knows all words but the last, which it reports."""
    update = Update(
        round_id=1,
        device_id=f"device-{device}",
        features="",
        public_set="",
        classes=tuple(words[:-1]),
        clips=1,
        reports=(ClassReport(len(words) - 1, None, 1),),
        known=tuple(words[:-1]),
    )
    return Contribution(update, lambda: arrays)


def settle(public_set: PublicSet, contributions: Sequence[Contribution], count: int) -> Settled:
    """Return what the aggregator makes of the uploads."""
    consensus = np.zeros((len(public_set.labels), len(public_set.classes)), np.float32)
    given = tuple(contributions)
    inputs = RoundInputs(
        round_id=1, plan=_PLAN, public_set=public_set, consensus=consensus, contributions=given, new_classes=count
    )
    return recognise(inputs, given)
