"""Krum and Multi-Krum (Blanchard et al. 2017, "Machine learning with adversaries", sections 4 and 5).

    s(k) = sum of || theta_k - theta_j ||^2 over the n - f - 2 devices j nearest to k
    Krum: theta = theta_k with the smallest s(k);   Multi-Krum: the mean of the m devices with the smallest s(k)

n devices, of which up to f may send anything; n >= 2 f + 3. How many clips a device says it has does not count.

Distances of all pairs take time and memory with the square of n, so there is a largest number of uploads.
"""

from dataclasses import dataclass

import numpy as np

from aggregator_server.aggregation.rule import LESS_THAN_HALF, Combined, Rule, Values
from aggregator_server.aggregation.updates import Updates, floor_of, stable_order
from aggregator_server.aggregation.weighted_mean import weighted_mean
from aggregator_server.errors import AggregationError
from fleet_protocol.methods.setting import Setting
from fleet_protocol.numbers.arrays import Doubles, Floats

_BYZANTINE = Setting(
    0.2, "share of Byzantine clients, rounded down to f; n >= 2 f + 3 uploads are needed", 0.0, LESS_THAN_HALF
)
MOST = 4_096  # number of uploads up to which all pairs are compared
_ROWS = 512


@dataclass(frozen=True)
class Chosen:
    """What a rule made of the uploads: the weights, float32 [weights], and whose they are, best score first."""

    weights: Floats
    device_ids: tuple[str, ...]

    @property
    def combined(self) -> Combined:
        """As a rule returns it."""
        return self.weights, {"chosen": list(self.device_ids)}


def krum(updates: Updates, byzantine: float) -> Chosen:
    """Return the upload nearest to its neighbours, of equal ones the first by id; errors as of :func:`krum_scores`."""
    best = int(stable_order(krum_scores(updates, byzantine))[0])
    return Chosen(updates.row(best), (updates.device_ids[best],))


def multi_krum(updates: Updates, byzantine: float, keep: float) -> Chosen:
    """Return the plain mean of the best-scored uploads, a share ``keep`` of n, rounded down, at least one.

    The errors are those of :func:`krum_scores`.
    """
    best = stable_order(krum_scores(updates, byzantine))[: max(1, floor_of(keep, len(updates)))]
    chosen = np.zeros(len(updates))
    chosen[best] = 1.0
    return Chosen(weighted_mean(updates, chosen), tuple(updates.device_ids[row] for row in best))


def krum_scores(updates: Updates, byzantine: float) -> Doubles:
    """Return s(k) of every device, float64 [devices]; the share ``byzantine`` of n, rounded down, is f.

    Raises AggregationError: n < 2 f + 3, or n > ``MOST``.
    """
    count, f = len(updates), floor_of(byzantine, len(updates))
    if count < 2 * f + 3:
        raise AggregationError(
            f"Krum with f = {f} Byzantine clients (byzantine = {byzantine:g}) needs {2 * f + 3} uploads, not {count}; "
            "wait for more devices (quorum), set byzantine lower, or use the median"
        )
    if count > MOST:
        raise AggregationError(
            f"Krum compares all pairs, of at most {MOST} uploads, and not of {count}; select fewer devices, or use the "
            "median"
        )
    products = _products(updates)
    squares, scores = np.diagonal(products), np.empty(count)
    for start in range(0, count, _ROWS):
        rows = slice(start, min(start + _ROWS, count))
        distances = np.maximum(squares[rows, None] + squares - 2 * products[rows], 0.0)
        distances[np.arange(len(distances)), np.arange(rows.start, rows.stop)] = np.inf
        scores[rows] = np.sort(distances, axis=1)[:, : count - f - 2].sum(axis=1)
    return scores


def _products(updates: Updates) -> Doubles:
    """Return the products of all pairs, float64 [devices, devices]."""
    # Distances are |a|^2 + |b|^2 - 2 a b, in float64: of float32 weights that differ in their third digit they are
    # right to nine digits, and an upload far away spoils nobody else's.
    products = np.zeros((len(updates), len(updates)))
    for _, _, values in updates.runs_of(slice(0, len(updates))):
        block = values.astype(np.float64)
        products += block @ block.T
    return products


def _krum(updates: Updates, _: Doubles, values: Values) -> Combined:
    return krum(updates, values["byzantine"]).combined


def _multi_krum(updates: Updates, _: Doubles, values: Values) -> Combined:
    return multi_krum(updates, values["byzantine"], values["keep"]).combined


_KEEP = Setting(0.5, "share of the devices, the best-scored, that is averaged; at least one", 0.0, 1.0)
RULE = (
    Rule("krum", {"byzantine": _BYZANTINE}, _krum),
    Rule("multi_krum", {"byzantine": _BYZANTINE, "keep": _KEEP}, _multi_krum),
)
