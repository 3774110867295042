"""The words of the log-mel archive as a front end's features, and the models that take them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.bundles import build_bundles
from edge_client.features.embedding import Embedding
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.arrays import Bools, Floats, Ints
from fleet_protocol.bundle import read_bundle
from fleet_protocol.feature_settings import EmbeddingSettings, FeatureSettings
from fleet_protocol.messages import ClassInfo
from fleet_protocol.public_set import PublicSet
from fleet_simulator.data.log_mel_archive import features_of_power, pictures, read_pictures
from model_export.pretraining.pictures import LOG_POWERS, mel_power

WORDS = ("yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go")
CEPSTRA = "gudur"
_ROWS = 512


@dataclass(frozen=True)
class FrontEnd:
    """A front end under test.

    Attributes:
        name: as `auricle-export build --features` takes it.
        architectures: of the devices.
        clips: of each word, in the public set and on a device.
        rate: learning rate of the devices' training.
    """

    name: str
    architectures: tuple[str, ...]
    clips: tuple[int, int]
    rate: float = 0.02


def front_end(name: str) -> FrontEnd:
    """Return what is measured on a front end: cepstra as in the paper, embeddings with an owner's twenty takes."""
    if name == CEPSTRA:
        return FrontEnd(name, ("cnn2", "cnn3", "dscnn3", "cnn4"), (300, 300))
    return FrontEnd(name, ("linear", "hidden", "linear", "hidden"), (100, 20))


@dataclass(frozen=True)
class Corpus:
    """Every clip of the words.

    Attributes:
        front_end: whose features.
        bundles: folder of the models.
        settings: of the features.
        x: features as the models take them, float32 [clips, frames, numbers].
        labels: the word of every clip.
        speakers: who speaks.
    """

    front_end: FrontEnd
    bundles: Path
    settings: FeatureSettings
    x: Floats
    labels: NDArray[np.str_]
    speakers: NDArray[np.str_]

    @property
    def is_embedding(self) -> bool:
        """Whether the features are embeddings of a pretrained network."""
        return isinstance(self.settings, EmbeddingSettings)

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

    def public_set(self, among: Bools, words: tuple[str, ...], rng: np.random.Generator) -> tuple[PublicSet, Floats]:
        """Return a public set of some words, and its features as the models take them."""
        count = self.front_end.clips[0]
        x = self.x[np.concatenate([self.draw(among, word, count, rng) for word in words])]
        model = self.open_model(self.front_end.architectures[0])
        labels = np.repeat(np.arange(len(words), dtype=np.int64), count)
        classes = tuple(ClassInfo(word, word) for word in words)
        return PublicSet(self.settings, classes, model.denormalise(x), labels, np.zeros(len(x), np.bool_)), x


def build(chosen: FrontEnd, folder: Path) -> None:
    """Build the models that a front end's devices have."""
    build_bundles(folder, sorted(set(chosen.architectures)), "--features", chosen.name)


def read(archive: Path, chosen: FrontEnd, bundles: Path) -> Corpus:
    """Read the archive's words as a front end's features."""
    entries = [entry for entry in pictures(archive) if entry.label in WORDS]
    pixels = read_pictures(archive, entries)
    settings = read_bundle(bundles / f"{chosen.architectures[0]}.auricle").manifest.feature_settings
    if isinstance(settings, EmbeddingSettings):
        network = Embedding(settings)
        parts = [network.of_log_mel(LOG_POWERS[pixels[i : i + _ROWS]]) for i in range(0, len(pixels), _ROWS)]
        x = ModelRuntime.open(bundles / f"{chosen.architectures[0]}.auricle").normalise(np.concatenate(parts))
    else:  # standardised on the pictures, which are quieter than recordings
        x = features_of_power(mel_power(pixels), settings)
        x = (x - x.mean(axis=(0, 1))) / x.std(axis=(0, 1))
    labels, speakers = (np.array(list(column)) for column in zip(*((e.label, e.speaker) for e in entries), strict=True))
    return Corpus(chosen, bundles, settings, x, labels, speakers)
