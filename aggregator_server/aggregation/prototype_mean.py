"""From what devices sent of a class to what the fleet is told of it: a prototype, its order, what it is not.

The prototype is the geometric median: the point with the smallest sum of distances to given points (Weiszfeld 1937).

    m = argmin_m sum_k w_k || x_k - m ||,   by m <- sum_k c_k x_k / sum_k c_k,   c_k = w_k / max(nu, || x_k - m ||)

With less than half of the weight, liars move it only so far, wherever they say that they are (Pillutla et al. 2022,
"Robust aggregation for federated learning", whose smoothing nu is used).

The order is what comes before the end of a long word. Devices' windows are aligned from the newest. Each counts where
devices with more than half of the class's weight sent it alike, and is combined like their prototypes. Who sent none
counts too, so that who sent one is not believed alone: with half of the weight or less, a liar makes no order and
changes none. Then the class is heard without one.

Negative prototypes are what owners said is none of its sounds. One owner's word is enough, for confusions are rare. So
a lie must do no harm: what lies no farther from the class than its own devices do is dropped, and what is left is
bounded, with each device's first before any device's second. Devices look again, at what they know of the class
(edge_client/learning/negative_prototypes.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aggregator_server.aggregation.rule import Rule
from fleet_protocol.limits import NEGATIVES_OF_FLEET, STATES_BEFORE
from fleet_protocol.methods.setting import Setting, Value
from fleet_protocol.numbers.arrays import Bools, Doubles, Floats
from fleet_protocol.numbers.similar_groups import SIMILAR_FROM, similar_groups
from fleet_protocol.numbers.word_order import WordOrder

COMPARED = 512  # votes for a class, or denials of one, that are compared with one another in a round
_STEPS = 500
# Smoothing, and the movement from which the result stands, as shares of the points' median distance from their median.
_SMOOTHING, _STANDS = 1e-6, 1e-9


def geometric_shares(points: Doubles, weights: Doubles) -> Doubles:
    """Return the share of every point in the weighted geometric median, float64 [n], with sum 1.

    ``points``: float64 [n, numbers], at least one. ``weights``: float64 [n], all above 0.
    """
    shares: Doubles = weights / weights.sum()
    middle = np.median(points, axis=0)
    scale = max(float(np.median(np.linalg.norm(points - middle, axis=1))), 1e-9)
    for _ in range(_STEPS):
        pulls = weights / np.maximum(np.linalg.norm(points - middle, axis=1), _SMOOTHING * scale)
        shares = np.asarray(pulls / pulls.sum())
        former, middle = middle, shares @ points
        if np.linalg.norm(middle - former) <= _STANDS * scale:
            break
    return shares


MEAN, GEOMETRIC_MEDIAN = "mean", "geometric_median"


def weights_of(counts: Doubles, values: Mapping[str, Value]) -> Doubles:
    """Return what devices weigh by their clips, float64 [devices]."""
    return np.asarray(np.minimum(counts, float(values["vote_cap"])))


def combine(prototypes: Doubles, counts: Doubles, whitening: Doubles, values: Mapping[str, Value]) -> Doubles:
    """Return a class's prototype, float64 [numbers]; the same bit for bit for the same rows in the same order.

    Args:
        prototypes: one row for each device, float64 [devices, numbers].
        counts: clips behind each row, float64 [devices].
        whitening: matrix after which clips of a class scatter alike, float64 [numbers, numbers].
        values: Values of the rule's settings.
    """
    weights = weights_of(counts, values)
    shares = weights / weights.sum()
    if values["centre"] == GEOMETRIC_MEDIAN:
        shares = geometric_shares(prototypes @ whitening, weights)
    result: Doubles = shares @ prototypes
    return result


def alike(directions: Doubles) -> Bools:
    """Tell which of devices' sounds, by their directions, float64 [devices, numbers], are the one of most, bool [n]."""
    mean = directions[similar_groups(directions[:COMPARED])[0]].mean(axis=0)
    return np.asarray(directions @ (mean / np.linalg.norm(mean)) >= SIMILAR_FROM)


def combine_order(
    order: WordOrder, counts: Doubles, whitening: Doubles, values: Mapping[str, Value], agree: Callable[[Floats], Bools]
) -> tuple[Floats, float]:
    """Return a class's windows before the newest one, float32 [states, frames, numbers], and its length, s.

    Args:
        order: what devices sent, of each that has a prototype of the class.
        counts: clips behind each prototype, float64 [devices].
        whitening: matrix after which clips of a class scatter alike, float64 [numbers, numbers].
        values: values of the settings of ``prototype_mean``.
        agree: tells which of some windows, float32 [devices, frames, numbers], are of the same sound as most.
    """
    weights, shape = weights_of(counts, values), order.means.shape[1:]
    found: list[Floats] = []
    length_s = 0.0
    for state in range(STATES_BEFORE):
        have = np.flatnonzero(order.states > state)
        if 2 * weights[have].sum() <= weights.sum():
            break
        rows = order.means[order.starts[have] + state]
        same = agree(rows)
        have, rows = have[same], rows[same]
        if 2 * weights[have].sum() <= weights.sum():
            break
        if not found:
            length_s = _middle(order.lengths[have].astype(np.float64), weights[have])
        points = rows.reshape(len(rows), -1).astype(np.float64)
        found.append(combine(points, counts[have], whitening, values).reshape(shape).astype(np.float32))
    return np.stack(found) if found else np.zeros((0, *shape), np.float32), length_s


def _middle(values: Doubles, weights: Doubles) -> float:
    """Return the weighted lower median, which less than half of the weight cannot move beyond the others' values."""
    ascending = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[ascending])
    return float(values[ascending][np.searchsorted(reached, reached[-1] / 2)])


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


RULE = Rule(
    "prototype_mean",
    {
        "centre": Setting(GEOMETRIC_MEDIAN, "what stands for a class's devices", options=(MEAN, GEOMETRIC_MEDIAN)),
        "vote_cap": Setting(3, "clips from which more give a device no more weight; 1: all devices alike", 1, 10_000),
        "provisional": Setting(3, "devices below which a class that the fleet discovered is provisional", 1, 1_000),
        "corrections": Setting(True, "whether what an owner said is not a sound travels to all devices"),
        "order": Setting(True, "whether what comes before the end of a long word travels to all devices"),
    },
)
