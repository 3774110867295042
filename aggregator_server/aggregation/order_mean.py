"""What comes before the end of a long word: from what devices sent to what the fleet is told, for one class.

Devices' windows are aligned from the newest. Each counts where devices with more than half of the class's weight sent
it alike, and is combined like their prototypes. Who sent none counts too, so that who sent one is not believed alone:
with half of the weight or less, a liar makes no order and changes none. Then the class is heard without one.
"""

from collections.abc import Callable, Mapping

import numpy as np

from aggregator_server.aggregation.prototype_mean import combine, weights_of
from fleet_protocol.limits import STATES_BEFORE
from fleet_protocol.methods.setting import Value
from fleet_protocol.numbers.arrays import Bools, Doubles, Floats
from fleet_protocol.numbers.similar_groups import SIMILAR_FROM, similar_groups
from fleet_protocol.numbers.word_order import WordOrder

COMPARED = 512  # votes for a class that are compared with one another


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
        alike = agree(rows)
        have, rows = have[alike], rows[alike]
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
