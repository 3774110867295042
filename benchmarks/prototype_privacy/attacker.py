"""What the attacker knows of voices, and how it compares a mean with clips: by likelihood ratio, or by distance.

The model is a normal distribution of three parts, as in speaker verification (probabilistic linear discriminant
analysis: Prince & Elder 2007). A clip is the word's mean, plus what the speaker's voice adds to all words, plus what
it adds to this word, plus what differs from clip to clip.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import dp_accounting
import numpy as np
from numpy.typing import NDArray

from fleet_protocol.arrays import Bools, Doubles

DELTA = 1e-5


def epsilon(noise: float, releases: int = 1, delta: float = DELTA) -> float:
    """Return the epsilon of means with noise, in units of the sensitivity; infinite without.

    It is exact for one mean (Balle & Wang 2018, theorem 8), and for several: k means with noise multiplier s tell as
    much as one with s / sqrt(k) (Dong, Roth & Su 2022, corollary 3.3).
    """
    return float(dp_accounting.get_epsilon_gaussian(noise / math.sqrt(releases), delta))


def greatest_area(noise: float) -> float:
    """Return the area under the curve that no attack exceeds, whatever it knows of the other clips.

    The two hypotheses are normal distributions that lie 1 / noise standard deviations apart (Dong, Roth & Su 2022,
    definition 2.6).
    """
    return (1 + math.erf(1 / (2 * noise))) / 2 if noise else 1.0


_LEAST = 1e-6  # variance added to every direction, for what float32 rounds


@dataclass(frozen=True)
class Attacker:
    """Covariances that the attacker measured on its own clips, float64 [numbers, numbers]."""

    means: dict[str, Doubles]  # mean of every word
    clip: Doubles  # covariance of the clips of one word by one speaker
    word: Doubles  # covariance of what a speaker adds to a word; ``voice`` is a part of it
    voice: Doubles  # covariance of what a speaker adds to all words

    @classmethod
    def learn(cls, z: Doubles, words: NDArray[np.str_], speakers: NDArray[np.str_]) -> Attacker:
        """Measure clips, whitened, float64 [clips, numbers]."""
        means = {str(word): z[words == word].mean(axis=0) for word in np.unique(words)}
        residuals = z - np.stack([means[str(word)] for word in words])
        pairs, group = np.unique(np.stack([speakers, words]), axis=1, return_inverse=True)
        counts, sums = _summed(residuals, group.ravel())
        people, person = np.unique(pairs[0], return_inverse=True)
        several = counts >= 2
        within = (residuals - (sums / counts[:, None])[group.ravel()])[several[group.ravel()]]
        clip = within.T @ within / (counts[several] - 1).sum()
        _, of_person = _summed(sums, person)
        clips = np.bincount(person, counts, minlength=len(people))
        products = (clips**2).sum() - (counts**2).sum()
        voice = (of_person.T @ of_person - sums.T @ sums) / products
        return cls(means, clip, _positive(residuals.T @ residuals / len(z) - clip), _positive(voice))

    def of_mean(self, speakers: int = 1, clips: int = 1, words: int = 1) -> Doubles:
        """Return the covariance of a mean over so many speakers, with so many clips each of each of so many words."""
        of_word = self.clip / clips + self.word
        return (of_word / words + self.voice * (1 - 1 / words)) / speakers


def log_likelihood_ratios(
    sent: Doubles, clips: Doubles, covariances: tuple[Doubles, Doubles], inside: Doubles, outside: Doubles
) -> Doubles:
    """Return how much likelier it is that clips belong to means than that they do not, [means] (Neyman & Pearson 1933).

    Both exceed the means of their words by ``sent`` and ``clips``, [means, numbers], of these ``covariances``; between
    the two there is ``inside`` if the clips belong to the mean, else ``outside``.
    """
    both = np.concatenate([sent, clips], axis=1)
    scores = []
    for cross in (inside, outside):
        joint = np.block([[covariances[0], cross], [cross.T, covariances[1]]]) + _LEAST * np.eye(both.shape[1])
        scores.append(-0.5 * (both * np.linalg.solve(joint, both.T).T).sum(axis=1) - 0.5 * np.linalg.slogdet(joint)[1])
    return np.asarray(scores[0] - scores[1])


def closeness(sent: Doubles, clips: Doubles) -> Doubles:
    """Return minus the whitened distance of means and clips, [means]."""
    return np.asarray(-np.linalg.norm(sent - clips, axis=1))


def found_at(scores: Doubles, inside: Bools, false_share: float) -> float:
    """Return the share of those inside that is found where so small a share of the others is taken for inside."""
    return float((scores[inside] > np.quantile(scores[~inside], 1 - false_share)).mean())


def _summed(rows: Doubles, group: NDArray[np.int64]) -> tuple[Doubles, Doubles]:
    """Return the number of rows of every group, and their sums."""
    counts = np.bincount(group).astype(np.float64)
    sums = np.zeros((len(counts), rows.shape[1]))
    np.add.at(sums, group, rows)
    return counts, sums


def _positive(covariance: Doubles) -> Doubles:
    """Return the nearest matrix without negative eigenvalues."""
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    return np.asarray(vectors * np.maximum(values, 0) @ vectors.T)
