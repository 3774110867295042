"""Negative prototypes: what owners said is not a label, as it travels in rounds of ``prototypes`` (docs/methods.md).

A device sends means of the clips that its owner denied. What the fleet sends of others' it believes only where it does
not contradict what it knows itself: whoever denies the word itself must not silence it.
"""

from collections.abc import Sequence

import numpy as np

from fleet_protocol.limits import NEGATIVES
from fleet_protocol.numbers.arrays import Bools, Doubles, Floats
from fleet_protocol.numbers.embedding_statistics import EmbeddingStatistics
from fleet_protocol.numbers.similar_groups import similar_groups

_ITSELF = 0.7
"""Whitened cosine to a label from which a sound is believed to be the label's, whoever denies it.

Half of the single clips of a word lie above, and nineteen in twenty means of three; of means of what is most easily
taken for the word one in twenty does (`no` and `go`, `up` and `off`).
"""
# The same to another label: the head tells the two apart anyway, by that label's own sounds.
_ANOTHER = 0.4


def denied_groups(clips: Floats, statistics: EmbeddingStatistics) -> list[Floats]:
    """Return a label's denied clips, float32 [clips, numbers], in the groups, [any, numbers], whose means are sent."""
    order = np.lexsort(clips.T)  # the same groups in whatever order the clips come
    return [clips[order][rows] for rows in similar_groups(statistics.whitened(clips[order]))[:NEGATIVES]]


def believed(negatives: Doubles, of_label: Sequence[Doubles], of_others: Sequence[Doubles]) -> Bools:
    """Tell which sounds that are said to be none of a label's can be learned as such, bool [negatives].

    All are whitened directions of length 1, float64 [any, numbers]: of the sounds, of what the device knows of the
    label, and of what it knows of its other labels.
    """
    found = np.ones(len(negatives), np.bool_)
    for known, least in ((of_label, _ITSELF), (of_others, _ANOTHER)):
        for directions in known:
            found &= (negatives @ directions.T).max(axis=1, initial=-1.0) < least
    return found
