"""Groups of sounds that are alike, so that one mean does not stand for quite different ones."""

import numpy as np
from numpy.typing import NDArray

from fleet_protocol.numbers.arrays import Doubles

# Cosine of two whitened directions from which two sounds go into one group. Single clips of one word have 0.3 to 0.4 by
# other speakers and more by one; those of different words less than 0.2 (`base`, Speech Commands).
SIMILAR_FROM = 0.3


def similar_groups(directions: Doubles) -> list[NDArray[np.intp]]:
    """Return rows in groups, each ascending, the largest group first.

    The row with the most rows like it leads the first group, which has all of these; then the same of the rest.
    ``directions``: of length 1, whose products are cosines, float64 [rows, numbers].
    """
    alike = directions @ directions.T >= SIMILAR_FROM
    np.fill_diagonal(alike, True)
    left, groups = np.ones(len(directions), np.bool_), []
    while left.any():
        counts = np.where(left, (alike & left).sum(axis=1), 0)
        group = np.flatnonzero(alike[counts.argmax()] & left)
        left[group] = False
        groups.append(group)
    return groups
