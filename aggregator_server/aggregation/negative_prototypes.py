"""What owners said is none of a class's sounds: from the devices' negative prototypes to the fleet's, for one class.

One owner's word is enough, for confusions are rare. So a lie must do no harm: what lies no farther from the class than
its own devices do is dropped, and what is left is bounded, with each device's first before any device's second. Devices
look again, at what they know of the class (edge_client/learning/negative_prototypes.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aggregator_server.aggregation.prototype_mean import combine
from fleet_protocol.limits import NEGATIVES_OF_FLEET
from fleet_protocol.methods.setting import Value
from fleet_protocol.numbers.arrays import Doubles
from fleet_protocol.numbers.similar_groups import similar_groups

# Of one class, that are compared with one another in a round.
COMPARED = 512
# Distances of the middle device's prototype from the class, from which a sound can be another one. Of ten words, three
# in four means of three clips of a word lie nearer, and one in ten of what is most easily taken for it.
_FARTHER = 1.25


@dataclass(frozen=True)
class Said:
    """What devices said is none of a class's sounds, a row for each such sound."""

    # Who said it, bytes [rows]; a device's rows stand in its own order, the most important first.
    devices: NDArray[np.bytes_]
    prototypes: Doubles  # float64 [rows, numbers]
    clips: Doubles  # how many clips are behind each, float64 [rows]

    def rows(self, chosen: NDArray[np.intp]) -> Said:
        """Return some of the rows."""
        return Said(self.devices[chosen], self.prototypes[chosen], self.clips[chosen])

    @property
    def turns(self) -> NDArray[np.int64]:
        """How many rows of the same device come before each, int64 [rows]."""
        order = np.argsort(self.devices, kind="stable")
        places = np.arange(len(order))
        ordered = self.devices[order]
        first = np.r_[True, ordered[1:] != ordered[:-1]]
        turns = np.empty(len(order), np.int64)
        turns[order] = places - np.maximum.accumulate(np.where(first, places, 0))
        return turns


def fleet_negatives(
    said: Said,
    centre: Doubles,
    votes: Doubles,
    whitening: Doubles,
    values: Mapping[str, Value],
    rng: np.random.Generator,
) -> tuple[list[Doubles], list[int]]:
    """Return what the fleet is told is not a class, float64 [numbers] each, and how many devices said so of each.

    Args:
        said: at least one row.
        centre: the class's prototype in the fleet, float64 [numbers].
        votes: the class's prototypes of the devices, float64 [devices, numbers]; none where no device has clips.
        whitening: matrix after which clips of a class scatter alike, float64 [numbers, numbers].
        values: of the settings of the rule ``prototype_mean``.
        rng: draws which are compared where there are too many.
    """
    away = np.linalg.norm((said.prototypes - centre) @ whitening, axis=1)
    scatter = float(np.median(np.linalg.norm((votes - centre) @ whitening, axis=1))) if len(votes) else 0.0
    said = said.rows(np.flatnonzero(away > _FARTHER * scatter))
    if not len(said.clips):
        return [], []
    order = np.lexsort((rng.permutation(len(said.clips)), said.turns))[:COMPARED]
    turns, said = said.turns[order], said.rows(order)
    directions = (said.prototypes - centre) @ whitening
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    groups = [(group, len(np.unique(said.devices[group]))) for group in similar_groups(directions)]
    groups.sort(key=lambda group: (-group[1], turns[group[0]].min()))
    chosen = groups[:NEGATIVES_OF_FLEET]
    means = [combine(said.prototypes[rows], said.clips[rows], whitening, values) for rows, _ in chosen]
    return means, [devices for _, devices in chosen]
