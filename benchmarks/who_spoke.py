"""Who spoke: how often a mean of prototypes tells whose it is, that of one device beside those of groups of devices.

Twenty people are candidates, and the attacker has a recording of each saying the word. One of them taught a device by
four other takes. The attacker sees the mean over that device alone, or over a group of it and of strangers' devices,
and names the candidate whose recording is closest: by cosine, from the word's mean, whitened by how takes of one person
scatter, as other people's takes of other words show it. Guessing is right in 5 %.

Two more attacks on the same means: whether a clip is **among** them, by its whitened cosine to the mean, where the
attacker has a clip of the first device and one by somebody else; and what was **said**: the nearest of all words' means
over people who are in no mean.

Devices weigh by their clips, as in rounds of `prototypes`. A stranger's device has the takes that there are of the
word, at most four. With `--epsilon` the attacker sees what a private round with such noise shows: the sum of the
devices' directions with its noise.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.command import BenchmarkError, Command, said
from benchmarks.private_noise import plan_of
from benchmarks.takes import Takes
from fleet_protocol.numbers.arrays import Doubles, Floats
from fleet_protocol.numbers.embedding_statistics import EmbeddingStatistics
from fleet_protocol.secure_sums.bounded_sums import BoundedLayout, directions_of
from fleet_protocol.secure_sums.roster import threshold_of

_CANDIDATES, _TAKES, _VOTE_CAP = 20, 4, 3
_DRAWS = 20  # of each word


@dataclass(frozen=True)
class Noisy:
    """A private round with noise."""

    statistics: EmbeddingStatistics
    epsilon: float

    def mean(self, means: Floats, rng: np.random.Generator) -> Doubles:
        """Return the sum of devices' directions with its noise, as a mean, float64 [numbers]."""
        layout = BoundedLayout.of(plan_of(len(means), self.epsilon), 1, means.shape[1:])
        total, fewest = np.zeros(layout.length, np.uint32), threshold_of(len(means))
        for direction in directions_of(self.statistics, means):
            total += layout.own({0: (direction, 1)}) + layout.noise(fewest, rng.bytes(32))
        return np.asarray(layout.read(total).directions[0] / len(means))


class Corpus:
    """Embeddings of takes, and who says which word in each."""

    def __init__(
        self, embeddings: Doubles, words: NDArray[np.str_], speakers: NDArray[np.str_], noisy: Noisy | None = None
    ) -> None:
        """Take embeddings, float64 [takes, numbers], and how their sums have noise; then their directions are seen."""
        self.own, self.words, self.speakers, self._noisy = embeddings, words, speakers, noisy
        self.embeddings = (
            embeddings if noisy is None else directions_of(noisy.statistics, embeddings.astype(np.float32))
        )

    def seen(self, devices: Sequence[NDArray[np.intp]], rng: np.random.Generator) -> Doubles:
        """Return what is seen of devices, each of which has some takes, float64 [numbers]."""
        means = np.stack([self.own[rows].mean(axis=0) for rows in devices])
        if self._noisy is not None:
            return self._noisy.mean(means.astype(np.float32), rng)
        return np.asarray(np.average(means, axis=0, weights=[min(len(rows), _VOTE_CAP) for rows in devices]))

    def takes(self, word: str) -> dict[str, NDArray[np.intp]]:
        """Return the rows of every speaker of a word."""
        rows = np.flatnonzero(self.words == word)
        return {str(one): rows[self.speakers[rows] == one] for one in np.unique(self.speakers[rows])}

    def whitening(self, without: str) -> Doubles:
        """Return the matrix after which takes of one word by one person scatter alike, of all words but one."""
        others = self.words != without
        pairs = np.char.add(np.char.add(self.words[others], "/"), self.speakers[others])
        _, which, counts = np.unique(pairs, return_inverse=True, return_counts=True)
        rows = self.embeddings[others]
        sums = np.zeros((len(counts), rows.shape[1]))
        np.add.at(sums, which, rows)
        apart = (rows - (sums / counts[:, None])[which])[counts[which] > 1]
        covariance = apart.T @ apart / max(len(apart), 1)
        values, vectors = np.linalg.eigh(covariance)
        return np.asarray(vectors / np.sqrt(np.maximum(values, 1e-3 * values.max())))


@dataclass(frozen=True)
class Draw:
    """What the attacker finds in one mean."""

    is_told: bool  # whether it names the right person
    inside: float  # cosine to the mean of a clip that is in it
    outside: float  # the same of a clip by somebody else
    is_said: bool  # whether the nearest word is the right one


def told(corpus: Corpus, word: str, group: int, rng: np.random.Generator) -> list[Draw]:
    """Return what the attacker finds in draws of one word; none where too few people say it."""
    takes = corpus.takes(word)
    often = [one for one, rows in takes.items() if len(rows) > _TAKES]
    if len(often) < _CANDIDATES or len(takes) < _CANDIDATES + group - 1:
        return []
    whitening, centre = corpus.whitening(word), corpus.embeddings[corpus.words == word].mean(axis=0)
    words = np.unique(corpus.words)
    found = []
    for _ in range(_DRAWS):
        candidates = rng.permutation(often)[:_CANDIDATES].tolist()
        strangers = rng.permutation(sorted(set(takes) - set(candidates)))[: group - 1].tolist()
        shuffled = {one: rng.permutation(takes[one]) for one in (*candidates, *strangers)}
        devices = [shuffled[one][1 : 1 + _TAKES] for one in candidates[:1]]
        devices += [shuffled[one][:_TAKES] for one in strangers]
        seen = corpus.seen(devices, rng)
        known = np.array([corpus.embeddings[shuffled[one][0]] for one in candidates])
        inside, outside = (
            _cosines(corpus.embeddings[shuffled[one][1:2]], seen, centre, whitening)[0] for one in candidates[:2]
        )
        others = ~np.isin(corpus.speakers, [*candidates[:1], *strangers])
        means = [corpus.embeddings[others & (corpus.words == one)].mean(axis=0) for one in words]
        nearest = np.linalg.norm((np.array(means) - seen) @ whitening, axis=1).argmin()
        is_told = int(_cosines(known, seen, centre, whitening).argmax()) == 0
        found.append(Draw(is_told, float(inside), float(outside), bool(words[nearest] == word)))
    return found


def _cosines(rows: Doubles, seen: Doubles, centre: Doubles, whitening: Doubles) -> Doubles:
    """Return whitened cosines of rows, float64 [n, numbers], to a mean, float64 [numbers], from a centre."""
    directions, other = (rows - centre) @ whitening, (seen - centre) @ whitening
    return np.asarray(directions @ other / (np.linalg.norm(directions, axis=1) * np.linalg.norm(other)))


def _among(draws: Sequence[Draw]) -> dict[str, float]:
    """Return how well cosines tell clips that are in a mean from others: area under the curve, hits at 1 % false."""
    inside, outside = (np.array([getattr(one, which) for one in draws]) for which in ("inside", "outside"))
    area, hits = (inside[:, None] > outside).mean(), (inside > np.quantile(outside, 0.99)).mean()
    return {"among auc %": round(100 * float(area), 1), "among at 1 % false": round(100 * float(hits), 1)}


def work(chosen: argparse.Namespace) -> list[dict[str, Any]]:
    """Print a line for each front end and size of a group; return the figures."""
    figures = []
    for name in chosen.front_end:
        read = Takes.read(chosen.data, name)
        noisy = None if chosen.epsilon is None else Noisy(read.statistics, chosen.epsilon)
        corpus = Corpus(read.embeddings.astype(np.float64), read.words, read.speakers, noisy)
        for group in chosen.devices:
            rng = np.random.default_rng([chosen.seed, group])
            found = [one for word in np.unique(corpus.words) for one in told(corpus, str(word), group, rng)]
            if not found:
                raise BenchmarkError(
                    f"in {chosen.data} no word is said by {_CANDIDATES} people more than {_TAKES} times, and by "
                    f"{group - 1} more; take a larger corpus, or smaller groups than {group}"
                )
            figures.append(said({
                "front_end": name,
                "devices": group,
                "epsilon": chosen.epsilon,
                "told %": round(100 * float(np.mean([one.is_told for one in found])), 1),
                **_among(found),
                "said %": round(100 * float(np.mean([one.is_said for one in found])), 1),
                "draws": len(found),
            }))  # fmt: skip
    return figures


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = Command("benchmarks.who_spoke", __doc__)
    about = "recordings <label>/<speaker>_*"
    parser.add_argument("--data", type=Path, required=True, metavar="FOLDER", help=about)
    parser.add_argument("--front-end", nargs="+", default=["words"], metavar="NAME", help="words, base, ...")
    sizes = "devices whose mean is seen (default: %(default)s)"
    parser.add_argument("--devices", nargs="+", type=int, default=[1, 4, 8, 16, 30, 100], metavar="N", help=sizes)
    parser.add_argument("--epsilon", type=float, metavar="E", help="of the round (default: no noise)")
    parser.add_argument("--seed", type=int, default=0, help="of the draws (default: %(default)s)")
    return parser.run(work, arguments)


if __name__ == "__main__":
    sys.exit(main())
