"""Embeddings of the log-mel archive's words: the victims' clips, and those that the attacker has to learn from.

Victims are the speakers of the official test set, whom the pretraining left out. The attacker has the clips of all
other speakers, which are public.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.command import BenchmarkError
from edge_client.features.embedding import Embedding
from edge_client.learning.prototype_noise import clipped
from fleet_protocol.arrays import Array, Bools, Doubles, Floats, Ints
from fleet_protocol.bundle import read_bundle
from fleet_protocol.embedding_statistics import EmbeddingStatistics
from fleet_protocol.feature_settings import EmbeddingSettings
from model_export.pretraining.corpus import NOISE, read_corpus, speakers_of
from model_export.pretraining.pictures import LOG_POWERS

WORDS = ("yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go")
_ROWS = 512


@dataclass(frozen=True)
class Corpus:
    """Clips of people who speak."""

    embeddings: Floats  # float32 [clips, numbers]
    words: NDArray[np.str_]  # the word of every clip
    speakers: NDArray[np.str_]  # who speaks
    victims: Bools  # whether the clip is by a speaker whom the pretraining left out
    statistics: EmbeddingStatistics  # of the words of the pretraining

    def whitened(self, embeddings: Array, clip_norm: float | None = None) -> Doubles:
        """Return whitened embeddings less the centre, float64 [n, numbers]; not clipped without ``clip_norm``."""
        return clipped(embeddings, self.statistics, np.inf if clip_norm is None else clip_norm)

    def victims_clips(self) -> dict[str, dict[str, Ints]]:
        """Return the rows of every victim's clips of every one of :data:`WORDS`, by word and speaker."""
        found: dict[str, dict[str, list[int]]] = {word: defaultdict(list) for word in WORDS}
        for row in np.flatnonzero(self.victims & np.isin(self.words, WORDS)):
            found[str(self.words[row])][str(self.speakers[row])].append(int(row))
        return {word: {who: np.array(rows) for who, rows in people.items()} for word, people in found.items()}


def read(data: Path, bundle: Path) -> Corpus:
    """Read the archive and embed it."""
    archive, test = data / "gsc_v2_logmel_jpg.zip", data / "gsc_v2_test"
    for path in (archive, test):
        if not path.exists():
            raise BenchmarkError(f"there is no {path}; set AURICLE_DATA to the folder that holds it")
    manifest = read_bundle(bundle).manifest
    settings, statistics = manifest.feature_settings, manifest.embedding_statistics
    if not isinstance(settings, EmbeddingSettings) or statistics is None:
        raise BenchmarkError(f"{bundle} has no pretrained front end; give base or a FILE.frontend")
    found = read_corpus([archive])
    found = found.where(found.words != NOISE)
    network = Embedding(settings)
    parts = [network.of_log_mel(LOG_POWERS[found.pixels[i : i + _ROWS]])[:, 0] for i in range(0, len(found), _ROWS)]
    embeddings, once = np.unique(np.concatenate(parts), axis=0, return_index=True)  # the archive has some clips twice
    speakers = found.speakers[once]
    victims = np.isin(speakers, sorted(speakers_of(test)))
    return Corpus(embeddings, found.words[once], speakers, victims, statistics)
