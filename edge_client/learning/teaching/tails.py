"""How often sounds that are no label's score high, from which thresholds for a promised rate of false accepts follow.

The highest scores of such sounds fall off exponentially on the logit scale (the tail of a generalised Pareto
distribution with shape 0; Pickands 1975). The tail says how high a score must be to be reached once an hour.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from edge_client.clips.folders import SOUND
from edge_client.detection.scores import TABLE, ScoreTable
from edge_client.detection.thresholds import Tail, logits
from edge_client.learning.teaching.material import Material
from edge_client.model.prototypes import Prototype
from fleet_protocol.numbers.arrays import Floats
from fleet_protocol.numbers.known import ONCE_AN_HOUR

# Of a built-in sound without takes: as its rows were made for.
_WITHOUT_TAKES = Tail(ONCE_AN_HOUR, 1.5)
# Share of the scores, the highest, that make the tail.
_TAIL = 0.05
# Windows of other sounds in an hour, and how much faster the highest averaged scores of a stream fall off than those of
# single sounds. The windows of a stream hold parts of words, in noise, and score higher than whole words do.
_LOOKS_PER_HOUR, _FASTER = 1500.0, 2.0
_SMALLEST_SCALE = 0.25


def tails_of(
    material: Material, prototypes: Mapping[str, Prototype], scores: Floats, table: ScoreTable = TABLE
) -> dict[str, Tail]:
    """Return by label how often others reach its score, of scores of ``Material.others``, [windows, labels]."""
    statistics, labels = material.statistics, material.listening_labels
    unheard = statistics.unheard
    of_words = table.word_of(statistics.known).others if unheard is None else Tail(*unheard)
    found = {}
    for label, tail in zip(labels.names, fit_tails(scores), strict=True):
        if label in labels.labels:
            tail = tail.at_least(table.sound.others if material.kinds[label] == SOUND else of_words)
        if label in prototypes:
            tail = Tail(tail.level - table.rarer * table.weight_of_order(prototypes[label].before), tail.scale)
        found[label] = tail
    found |= dict.fromkeys(material.built_in, table.known_sound.others)
    found |= {labels.names[slot]: _WITHOUT_TAKES for slot in labels.off}
    return found | dict.fromkeys(material.built_in_words, table.known_word.others)


def fit_tails(scores: Floats) -> list[Tail]:
    """Return every label's tail, of scores, float32 [sounds, labels], 0..1, of sounds that are no label's: clips of
    other words, the room, noise. The scale is the same for all labels.
    """
    found = logits(scores)
    begins = np.quantile(found, 1 - _TAIL, axis=0)
    # The mean excess over a tail's beginning is the exponential's maximum likelihood. One label's is a rough figure.
    excesses = [float(np.mean(column[column >= begin] - begin)) for column, begin in zip(found.T, begins, strict=True)]
    scale = max(_SMALLEST_SCALE, float(np.mean(excesses))) if excesses else _SMALLEST_SCALE
    rise = scale * math.log(_LOOKS_PER_HOUR * _TAIL)
    return [Tail(float(begin) + rise, scale / _FASTER) for begin in begins]
