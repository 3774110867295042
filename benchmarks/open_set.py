"""Ten words among others from ten takes each, as Rusci & Tuytelaars 2023 and Gok et al. 2025 measure it.

Ten words of Speech Commands are known from ten takes each, drawn from people outside the official test set. That set's
clips of these words, and its people's clips of twenty other words, are compared with the prototypes, as in
`benchmarks.few_shot`. A threshold lets 1 % or 5 % of the others through. The figure is the share of the ten words'
clips that pass it and are nearest to the right word: a mean of ten draws, in per cent. (arXiv:2306.02161, 2506.17686.)
``rehearsed`` is with the words of the pretraining as further prototypes, as a device has them: the cosine with the
nearest of them is subtracted. The twenty others are among these words, so a score of the published methods does not
compare with it.

The network must not have heard the ten words: `auricle-export pretrain --leave-out-words` trains such a one.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.command import BenchmarkError, Command, recordings, said
from benchmarks.few_shot import open_ear
from edge_client.features.embedding import Embedding
from fleet_protocol.arrays import Bools, Doubles
from fleet_protocol.feature_settings import EmbeddingSettings
from model_export.pretraining.corpus import Corpus, read_corpus, speakers_of
from model_export.pretraining.evaluation import KEYWORDS
from model_export.pretraining.front_end_file import read
from model_export.pretraining.pictures import LOG_POWERS

OTHERS = (
    *("bed", "bird", "cat", "dog", "eight", "five", "four", "happy", "house", "marvin"),
    *("nine", "one", "seven", "sheila", "six", "three", "tree", "two", "wow", "zero"),
)
"""The words that are to be refused (Rusci & Tuytelaars 2023)."""
TAKES, DRAWS, FALSE_ACCEPTS = 10, 10, (1, 5)
_AT_ONCE = 512


def share_found(scores: Doubles, right: Bools, others: Doubles, passing: float) -> float:
    """Return the share of the known words' clips that pass a threshold as the right word.

    Args:
        scores: highest score of each clip of a known word, [clips].
        right: whether it is the right word's, [clips].
        others: highest score of each clip of another word, [others].
        passing: share of the others that may pass, 0 to 1.
    """
    threshold = np.sort(others)[::-1][int(passing * len(others))]
    return float(((scores > threshold) & right).mean())


def measure(path: Path, pictures: Path, test: Path, seed: int) -> dict[str, Any]:
    """Measure a front end. Raises BenchmarkError: its training had one of the ten words, or it has no such network."""
    heard = sorted(set(read(path).words) & set(KEYWORDS))
    if heard:
        raise BenchmarkError(
            f"{path} was trained on {', '.join(heard)}; train one by "
            f"`auricle-export pretrain --leave-out-words {','.join(KEYWORDS)}`"
        )
    ear = open_ear(str(path), "float32")
    if not isinstance(ear.settings, EmbeddingSettings):
        raise BenchmarkError(f"{path} does not compute its embedding from log-mel pictures")
    embedding = Embedding(ear.settings)

    def directions(corpus: Corpus) -> Doubles:
        starts = range(0, len(corpus), _AT_ONCE)
        parts = [embedding.of_log_mel(LOG_POWERS[corpus.pixels[start : start + _AT_ONCE]]) for start in starts]
        return ear.statistics.whitened(np.concatenate(parts)[:, 0])

    corpus, testers = read_corpus([pictures]), list(speakers_of(test))
    tested = read_corpus([test])
    others = corpus.where(np.isin(corpus.words, OTHERS) & np.isin(corpus.speakers, testers))
    tested = tested.where(np.isin(tested.words, KEYWORDS))
    takes = corpus.where(np.isin(corpus.words, KEYWORDS) & ~np.isin(corpus.speakers, testers))
    clips = directions(takes), directions(tested), directions(others)
    measured = partial(figures, *clips, takes.words, tested.words, seed)
    rehearsed = ear.statistics.whitened(ear.statistics.means)
    return {
        "front_end": path.stem,
        "clips": len(tested),
        "others": len(others),
        **measured(),
        **{f"rehearsed_{name}": value for name, value in measured(rehearsed).items()},
    }


def figures(
    takes: Doubles,
    tested: Doubles,
    others: Doubles,
    taught: NDArray[np.str_],
    spoken: NDArray[np.str_],
    seed: int,
    rehearsed: Doubles | None = None,
) -> dict[str, float]:
    """Return the mean shares over the draws, by how many others may pass, in per cent.

    Args:
        takes, tested, others: directions of clips, unit length, float64 [clips, numbers].
        taught, spoken: the words of the takes, and of the tested clips.
        seed: of the draws.
        rehearsed: further prototypes, that of no taught word, [words, numbers].
    """

    def nearest_other(clips: Doubles) -> Doubles | float:
        return 0.0 if rehearsed is None else np.asarray((clips @ rehearsed.T).max(axis=1))

    found: dict[int, list[float]] = {percent: [] for percent in FALSE_ACCEPTS}
    for draw in range(DRAWS):
        rng = np.random.default_rng([seed, draw])
        chosen = [rng.choice(np.flatnonzero(taught == word), TAKES, replace=False) for word in KEYWORDS]
        prototypes = np.stack([takes[rows].mean(axis=0) for rows in chosen])
        prototypes /= np.linalg.norm(prototypes, axis=1, keepdims=True)
        scores = tested @ prototypes.T
        right = np.array(KEYWORDS)[scores.argmax(axis=1)] == spoken
        accepted = scores.max(axis=1) - nearest_other(tested)
        refused = (others @ prototypes.T).max(axis=1) - nearest_other(others)
        for percent, shares in found.items():
            shares.append(share_found(accepted, right, refused, percent / 100))
    return {f"at_{percent}_percent": round(100 * float(np.mean(shares)), 1) for percent, shares in found.items()}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = Command("benchmarks.open_set", __doc__)
    parser.add_argument("front_end", type=Path, nargs="+", metavar="FILE.frontend")
    parser.add_argument("--seed", type=int, default=0, help="of the draws (default: %(default)s)")
    return parser.run(work, arguments)


def work(chosen: argparse.Namespace) -> list[dict[str, Any]]:
    """Print and return the figures of every front end."""
    pictures, test = recordings("gsc_v2_logmel_jpg.zip"), recordings("gsc_v2_test")
    return [said(measure(path, pictures, test, chosen.seed)) for path in chosen.front_end]


if __name__ == "__main__":
    sys.exit(main())
