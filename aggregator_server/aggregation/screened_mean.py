"""The screened mean: the mean of the uploads that lie about as far from the middle as the others, on the same side.

    theta_k = what device k uploads, u_k = theta_k - theta its update
    m = the coordinate-wise median of theta_1 ... theta_n (Yin et al. 2018)
    d_{k,l} = || theta_{k,l} - m_l ||_2   for every layer l, and for all of them as one
    S = all k with d_{k,l} <= c sqrt(max(1, n_k / n)) median_j d_{j,l} for every l, and <u_k, m - theta> >= 0
    w_k = min(n_k, b n),   n the lower median of the n_k above 0
    theta' = sum_{k in S} w_k theta_k / sum_{k in S} w_k;   m where S has no more than half of the devices

Distances are compared layer by layer as LPA does (Bai et al. 2025), the side as FLTrust does (Cao et al. 2021,
"FLTrust", section IV), with the round's median in place of an update that the server trusts. Unlike a trimmed mean or
Multi-Krum it drops nobody where nobody stands out. A device with more clips takes more steps, which add up as
independent ones do: hence the square root. The longer step is what more clips count for: a weight on top of it would
let a false number of clips count twice, so b is 1. Two devices cannot say which of them is the outlier: below three
nobody is dropped.
"""

import dataclasses
from dataclasses import dataclass

import numpy as np

from aggregator_server.aggregation.coordinate_wise import coordinate_median
from aggregator_server.aggregation.input_bounds import CLIPPED_CLIPS, capped_sizes, usual_size
from aggregator_server.aggregation.rule import Combined, Rule, Values
from aggregator_server.aggregation.updates import Updates, layer_distances
from aggregator_server.aggregation.weighted_mean import BY_SIZE, weighted_mean
from aggregator_server.errors import AggregationError
from aggregator_server.limits import SCREEN_CAP
from fleet_protocol.methods.setting import Setting
from fleet_protocol.numbers.arrays import Bools, Doubles, Floats

ALL_LAYERS = "all layers"
_FEWEST = 3
# Distances that rounding alone makes, as a share of the layer's own size.
_ROUNDING = 1e-6


@dataclass(frozen=True)
class Screened:
    """What the screen found."""

    # Distance from the median in medians of these distances, over the square root that more clips allow, float64
    # [devices]; by layer, and for all layers as one.
    distances: dict[str, Doubles]
    against: Bools  # whether the update points away from the median one, bool [devices]
    # Whether as many times the median number of clips lead as far, where all steps go the same way, bool
    # [devices]: as honest devices with many clips do in a fleet's first rounds.
    explained: Bools
    dropped: Bools  # whether its upload does not count, bool [devices]
    median: Floats  # coordinate-wise median of the uploads, float32 [weights]


def screen(updates: Updates, sizes: Doubles, start: Floats, threshold: float) -> Screened:
    """Find the uploads that stand out, by n_k, float64 [devices], theta, float32 [weights], and c."""
    median = coordinate_median(updates)
    squares, against = layer_distances(updates, median), _against(updates, start, median)
    squares[ALL_LAYERS] = np.sum(list(squares.values()), axis=0)
    allowed = np.sqrt(np.maximum(1.0, sizes / usual_size(sizes)))
    floors = {
        name: _ROUNDING * float(np.linalg.norm(median[columns].astype(np.float64)))
        for name, columns in updates.layout.layer_columns.items()
    }
    distances = {}
    for name, values in squares.items():
        found = np.sqrt(values)
        distances[name] = found / max(float(np.median(found)), floors.get(name, 0.0), 1e-30) / allowed
    furthest = np.max(list(distances.values()), axis=0)
    dropped = against | (furthest > threshold)
    explained = ~against & (furthest <= threshold * allowed)
    return Screened(distances, against, explained, dropped & (len(updates) >= _FEWEST), median)


def _against(updates: Updates, start: Floats, median: Floats) -> Bools:
    """Return whose update's product with the median one is negative, bool [devices]."""
    direction, products = np.subtract(median, start, dtype=np.float64), np.zeros(len(updates))

    def multiply(rows: slice) -> None:
        for _, columns, values in updates.runs_of(rows):
            products[rows] += np.subtract(values, start[columns], dtype=np.float64) @ direction[columns]

    updates.in_rows(multiply)
    return np.asarray(products < 0)


def _combine(updates: Updates, sizes: Doubles, values: Values) -> Combined:
    if updates.start is None:
        raise AggregationError("the screened mean compares updates, and nobody said what the devices started from")
    found = screen(updates, sizes, updates.start, values["threshold"])
    details = {"screened": _reasons(updates, found, values["threshold"])}
    kept = ~found.dropped
    if 2 * kept.sum() <= len(updates):
        return found.median, details | {"median": True}
    weights = capped_sizes(sizes, values["weight_cap"])
    if not values["by_size"] or not weights[kept].any():
        weights = np.ones(len(updates))
    return weighted_mean(updates, np.where(kept, weights, 0.0)), details


def _reasons(updates: Updates, found: Screened, threshold: float) -> dict[str, dict[str, object]]:
    """Return why uploads were dropped, by device: the layers in which they are too far off, the side, the excuse."""
    reasons: dict[str, dict[str, object]] = {}
    for row in np.flatnonzero(found.dropped):
        far = {
            name: round(float(values[row]), 3) for name, values in found.distances.items() if values[row] > threshold
        }
        reasons[updates.device_ids[row]] = {"distances": far, "against": bool(found.against[row])}
        if found.explained[row]:
            reasons[updates.device_ids[row]]["explained"] = True
    return reasons


RULE = Rule(
    "screened_mean",
    {
        "threshold": Setting(
            2.0, "distance from the median, in medians of all distances, above which an upload is dropped", 1.0, 1e9
        ),
        "by_size": BY_SIZE,
        "weight_cap": Setting(
            1.0,
            "medians of the round's numbers of clips above which more clips do not weigh more; 0: no limit",
            0.0,
            1e9,
        ),
        # A large device's update is the longer one: this bounds how far a number of clips alone lets it lead.
        "clips_cap": dataclasses.replace(CLIPPED_CLIPS["clips_cap"], default=SCREEN_CAP),
    },
    _combine,
)
