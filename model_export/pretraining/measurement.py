"""Measures a trained network: statistics of its words, and the report's figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fleet_protocol.numbers.arrays import Doubles, Floats
from fleet_protocol.numbers.embedding_statistics import EmbeddingStatistics, Scatter
from model_export.pretraining.conversion import run
from model_export.pretraining.corpus import NOISE, SPEECH, Corpus, Division, read_log_mel
from model_export.pretraining.evaluation import ClosedSet, FewShot, closed_set, few_shot, twelve_classes
from model_export.pretraining.pictures import LOG_POWERS, normalised, without_unknown

if TYPE_CHECKING:
    from model_export.pretraining.batches import Batches


@dataclass(frozen=True)
class Embedded:
    """Embeddings of clips, float32 [clips, embedding], and the word of every clip."""

    embeddings: Floats
    words: NDArray[np.str_]

    def of(self, word: str) -> Doubles:
        """Return a word's, float64 [clips, embedding]."""
        return np.asarray(self.embeddings[self.words == word], np.float64)


def measure(
    clips: Embedded, variants: Embedded, speech: Floats, samples: int, noises: int, seed: int
) -> EmbeddingStatistics:
    """Measure the embeddings of a corpus, of variants of it, at least two of every word, and of running speech.

    Speech is float32 [windows, embedding]. ``samples`` clips of every word are kept, where it has fewer repeated; and
    of noise at most ``noises``.
    """
    rng = np.random.default_rng([seed, 1])
    vocabulary = tuple(sorted(set(map(str, clips.words)) - {NOISE, SPEECH}))
    groups, variants_of = [clips.of(word) for word in vocabulary], [variants.of(word) for word in vocabulary]
    # Variants, and as many clips where there are as many, so that both kinds count alike.
    pairs = zip(groups, variants_of, strict=True)
    varied = [np.concatenate([rng.permutation(group)[: len(others)], others]) for group, others in pairs]
    noise = np.concatenate([clips.of(NOISE), variants.of(NOISE)])
    scatter = scatter_of(groups)
    return EmbeddingStatistics(
        means=scatter.means,
        within=scatter.within,
        words=vocabulary,
        counts=np.array([len(group) for group in groups], np.int64),
        samples=np.stack([np.resize(rng.permutation(group), (samples, group.shape[1])) for group in groups]).astype(
            np.float32
        ),
        noise=noise[np.sort(rng.permutation(len(noise))[:noises])].astype(np.float32),
        varied=scatter_of(varied),
        speech=scatter_of([speech.astype(np.float64)]),
    )


def scatter_of(groups: Sequence[Doubles]) -> Scatter:
    """Return the scatter of classes, each float64 [clips, embedding]; the covariance within them is pooled."""
    means = [group.mean(axis=0) for group in groups]
    residuals = np.concatenate([group - mean for group, mean in zip(groups, means, strict=True)])
    within = residuals.T @ residuals / max(1, len(residuals) - len(groups))
    return Scatter(np.stack(means).astype(np.float32), np.asarray(within, np.float32))


_SAMPLES, _NOISES = 6, 64  # embeddings of each word, and of noise, that a file keeps
_VARIANTS, _WINDOWS = 120, 1200  # of each word's clips, and of running speech, whose scatter is measured
_CLIPS = 2048  # that are held as float32 at a time


def statistics(graph: bytes, batches: Batches, seed: int) -> EmbeddingStatistics:
    """Return the statistics of a corpus' embeddings, and of variants drawn as in training, with nothing hidden."""
    corpus = batches.corpus
    variants, words = batches.variants(_VARIANTS)
    varied = Embedded(run(graph, variants), words)
    speech = run(graph, batches.running_speech(_WINDOWS))
    return measure(Embedded(_embedded(graph, corpus), corpus.words), varied, speech, _SAMPLES, _NOISES, seed)


def _embedded(graph: bytes, corpus: Corpus) -> Floats:
    parts = []
    for start in range(0, max(1, len(corpus)), _CLIPS):
        clips = LOG_POWERS[corpus.pixels[start : start + _CLIPS]]
        parts.append(run(graph, without_unknown(normalised(clips), clips)))
    return np.concatenate(parts)


@dataclass(frozen=True)
class Embeddings:
    """A trained network, and what it is measured on."""

    float32: bytes  # the network's graph
    int8: bytes  # the same in int8; empty where there is none
    head: dict[str, Floats]  # its classifier: words and noise
    division: Division  # the corpus
    statistics: EmbeddingStatistics  # of the training words' embeddings

    def closed_sets(self, test: Path | None) -> dict[str, ClosedSet]:
        """Measure words of the training by speakers left out, and twelve classes of a test folder's recordings."""
        classes = [*self.division.training.vocabulary, NOISE]
        spoken = self.division.validation
        results = {}
        if len(spoken):
            results["speakers left out"] = closed_set(
                self._logits(_embedded(self.float32, spoken))[:, :-1], classes[:-1], spoken.words
            )
        if test:
            features, words, _ = read_log_mel(test, self.division.training.settings)
            graphs = {"float32": self.float32} | ({"int8": self.int8} if self.int8 else {})
            for precision, graph in graphs.items():
                embeddings = run(graph, normalised(features))
                results[f"twelve classes, {precision}"] = twelve_classes(
                    self._logits(embeddings), classes, words, self.head["head/shares"]
                )
        return results

    def few_shot(self, folders: Sequence[Path], seed: int) -> list[FewShot]:
        """Measure words left out of the training, and the words of folders."""
        new = self.division.new_words
        results = []
        if len(new.vocabulary) > 1:
            results = few_shot(
                "words left out", _embedded(self.float32, new), new.words, new.speakers, self.statistics, seed
            )
        for folder in folders:
            features, words, speakers = read_log_mel(folder, self.division.training.settings)
            embeddings = run(self.float32, normalised(features))
            results += few_shot(folder.name, embeddings, words, speakers, self.statistics, seed)
        return results

    def _logits(self, embeddings: Floats) -> Floats:
        return embeddings @ self.head["head/kernel"] + self.head["head/bias"]
