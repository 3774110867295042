"""Prototypes in a common embedding: which class of the fleet a report is, and rows that stand for a new class.

The front end's network is the same on every device, so that mean embeddings of clips can be compared as they are.
Distances are whitened by the covariance within the classes of the public recordings.
"""

from collections.abc import Sequence

import numpy as np

from fleet_protocol.limits import STATES_BEFORE
from fleet_protocol.messages.public_set import PublicSet
from fleet_protocol.numbers.arrays import Doubles, Floats
from fleet_protocol.numbers.embedding_statistics import Scatter

# Whitened cosine to the mean of a fleet's class from which a report counts as that class under another name
# (`benchmarks.class_discovery`).
KNOWN_FROM = 0.8
# The same of each window before, below which long words that share their end are two.
ORDER_FROM = 0.75
# Rows of a new class for each recording of a public class: with fewer it is recognised less, with more others are taken
# for it.
_SHARE = 2
# Lengths of a prototype, whitened, as shares of the shortest and the longest of public classes' means, beyond which it
# is no sound's: the mean of many sounds lies near the middle of all. Prototypes of one word lie at 1.0 to 2.6, in the
# front ends `words` and `base`. And the share of two classes' recordings that are nearer to it than to their own class.
_SHORTEST, _LONGEST, _CAUGHT = 0.6, 10.0, 0.1
# Whitened length of a mean over devices, as a share of the longest of public recordings and classes, beyond which
# somebody's numbers in it are none of an embedding (docs/security.md, "Private rounds").
_FARTHEST = 3.0


class PublicEmbedding:
    """The public set of a fleet whose features are embeddings."""

    def __init__(self, public_set: PublicSet) -> None:
        """Measure the classes: covariance within them on the recordings, their means on all rows."""
        points = public_set.features.reshape(len(public_set.features), -1).astype(np.float64)
        real, labels = ~public_set.synthetic, public_set.labels
        present = np.unique(labels)
        means = np.stack([points[labels == label].mean(axis=0) for label in present])
        residuals = (points - means[np.searchsorted(present, labels)])[real]
        recorded = len(np.unique(labels[real]))
        self.class_ids = tuple(public_set.class_ids[label] for label in present)
        # That stand for a new class.
        self.rows = max(1, _SHARE * len(residuals) // max(1, recorded))
        self._scatter = Scatter(
            means.astype(np.float32), (residuals.T @ residuals / max(1, len(residuals) - recorded)).astype(np.float32)
        )
        self._means = self._scatter.whitened(self._scatter.means)
        column = np.searchsorted(present, labels)[real]
        self._recordings, self._labels = self._scatter.whitened(points[real].astype(np.float32)), column
        self._own = np.einsum("ij,ij->i", self._recordings, self._means[column])
        lengths = self._lengths(self._scatter.means[np.unique(column)])
        everything = np.concatenate([self._scatter.means, points[real].astype(np.float32)])
        self._farthest = _FARTHEST * float(self._lengths(everything).max()) if len(means) > 1 else np.inf
        self._shortest, self._longest = float(lengths.min(initial=np.inf)), float(lengths.max(initial=0.0))

    def _lengths(self, rows: Floats | Doubles) -> Doubles:
        return np.asarray(np.linalg.norm((rows - self._scatter.centre) @ self.whitening, axis=1))

    def holds(self, means: Doubles) -> bool:
        """Tell whether means over devices, float64 [n, numbers], may all be of embeddings."""
        return bool((self._lengths(means) <= self._farthest).all())

    def is_broad(self, prototype: Floats) -> bool:
        """Tell whether a prototype, float32 [1, numbers], is of many sounds, or of none."""
        (length,) = self._lengths(prototype)
        if not _SHORTEST * self._shortest <= length <= max(_LONGEST * self._longest, self._shortest):
            return True
        nearer = self._recordings @ self.directions(prototype[None])[0] > self._own
        shares = [nearer[self._labels == column].mean() for column in np.unique(self._labels)]
        return bool(sum(share > _CAUGHT for share in shares) > 1)

    @property
    def whitening(self) -> Doubles:
        """Matrix after which clips of a class scatter alike in all directions, float64 [numbers, numbers]."""
        return self._scatter.whitening

    def directions(self, prototypes: Floats) -> Doubles:
        """Return directions of length 1, float64 [n, numbers], of prototypes, float32 [n, 1, numbers], to compare."""
        return self._scatter.whitened(prototypes.reshape(len(prototypes), -1))

    def cosines(self, prototype: Floats) -> dict[str, float]:
        """Return the whitened cosine of each class to a prototype, float32 [1, numbers], the largest first."""
        cosines = self._means @ self.directions(prototype[None])[0]
        return {self.class_ids[place]: float(cosines[place]) for place in np.argsort(-cosines, kind="stable")}

    def in_order(self, before: Sequence[Floats | None]) -> Doubles:
        """Return the least whitened cosine of the windows before that every two sounds both have, float64 [n, n].

        ``before``: of each sound, float32 [states, 1, numbers], the newest first; None: of none. Where one of the two
        has none, 1.
        """
        least = np.ones((len(before), len(before)))
        for state in range(STATES_BEFORE):
            found = {place: rows[state] for place, rows in enumerate(before) if rows is not None and len(rows) > state}
            if found:
                directions, both = self.directions(np.stack(list(found.values()))), np.ix_(list(found), list(found))
                least[both] = np.minimum(least[both], directions @ directions.T)
        return least

    def draw(self, prototypes: Floats, rng: np.random.Generator) -> Floats:
        """Draw rows, float32 [rows, 1, numbers], for a new class from n prototypes, float32 [n, 1, numbers].

        They are of N(mean of the prototypes, (1 + 1/n) covariance within a class): the mean of few devices may lie off
        the class, so what is drawn for it scatters more.
        """
        mean = prototypes.mean(axis=0, dtype=np.float64)[0]
        scatter = self._scatter.draw(np.zeros_like(mean), self.rows, rng)
        return np.asarray(mean + np.sqrt(1 + 1 / len(prototypes)) * scatter, np.float32)[:, None]
