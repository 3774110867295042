"""Krum (Blanchard et al. 2017, "Machine learning with adversaries", section 4).

    s(k) = sum of || theta_k - theta_j ||^2 over the n - f - 2 devices j nearest to k
    theta = theta_k with the smallest s(k)

n devices, of which up to f may send anything; n >= 2 f + 3. How many clips a device says it has does not count.
"""

from dataclasses import dataclass

import numpy as np

from aggregator_server.aggregation.rule import LESS_THAN_HALF, Combined, Rule, Values
from aggregator_server.aggregation.updates import Updates, floor_of, stable_order
from aggregator_server.errors import AggregationError
from fleet_protocol.arrays import Doubles, Floats
from fleet_protocol.setting import Setting

BYZANTINE = Setting(
    0.2, "share of Byzantine clients, rounded down to f; n >= 2 f + 3 uploads are needed", 0.0, LESS_THAN_HALF
)
_COLUMNS = 1_024


@dataclass(frozen=True)
class Chosen:
    """What Krum made of the uploads: the weights, float32 [weights], and whose they are, best score first."""

    weights: Floats
    device_ids: tuple[str, ...]


def krum(updates: Updates, byzantine: float) -> Chosen:
    """Return the upload that is nearest to its neighbours; of equal scores the first device's by id.

    Args:
        byzantine: share of Byzantine clients; f is that share of n, rounded down.

    Raises:
        AggregationError: n < 2 f + 3.
    """
    best = int(stable_order(krum_scores(updates, byzantine))[0])
    return Chosen(updates.matrix[best].copy(), (updates.device_ids[best],))


def krum_scores(updates: Updates, byzantine: float) -> Doubles:
    """Return s(k) of every device, float64 [devices]. Raises AggregationError: n < 2 f + 3."""
    count, f = len(updates), floor_of(byzantine, len(updates))
    if count < 2 * f + 3:
        raise AggregationError(
            f"Krum with f = {f} Byzantine clients (byzantine = {byzantine:g}) needs {2 * f + 3} uploads, not {count}; "
            "wait for more devices (quorum), set byzantine lower, or use the median"
        )
    distances = squared_distances(updates)
    np.fill_diagonal(distances, np.inf)
    nearest = np.sort(distances, axis=1)[:, : count - f - 2]
    scores: Doubles = nearest.sum(axis=1)
    return scores


def squared_distances(updates: Updates) -> Doubles:
    """Return || theta_k - theta_j ||^2 of all pairs, float64 [devices, devices].

    By the products of all pairs, |a|^2 + |b|^2 - 2 a b, in float64: of float32 weights that differ in their third
    digit it is right to nine digits, and an upload far away spoils nobody else's distances.
    """
    products = np.zeros((len(updates), len(updates)))
    for start in range(0, updates.layout.width, _COLUMNS):
        block = updates.matrix[:, start : start + _COLUMNS].astype(np.float64)
        products += block @ block.T
    squares = np.diagonal(products)
    distances: Doubles = np.maximum(squares[:, None] + squares[None, :] - 2 * products, 0.0)
    return distances


def _combine(updates: Updates, _: Doubles, values: Values) -> Combined:
    chosen = krum(updates, values["byzantine"])
    return chosen.weights, {"chosen": list(chosen.device_ids)}


RULE = Rule("krum", {"byzantine": BYZANTINE}, _combine)
