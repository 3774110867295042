"""Multi-Krum (Blanchard et al. 2017, "Machine learning with adversaries", section 5).

theta = the mean of the m devices with the smallest s(k), the scores of krum.py
"""

import numpy as np

from aggregator_server.aggregation.krum import BYZANTINE, Chosen, krum_scores
from aggregator_server.aggregation.rule import Combined, Rule, Values
from aggregator_server.aggregation.updates import Updates, floor_of, stable_order
from aggregator_server.aggregation.weighted_mean import weighted_mean
from fleet_protocol.methods.setting import Setting
from fleet_protocol.numbers.arrays import Doubles


def multi_krum(updates: Updates, byzantine: float, keep: float) -> Chosen:
    """Return the plain mean of the best-scored uploads, a share ``keep`` of n, rounded down, at least one.

    The share ``byzantine`` of n, rounded down, is f. Raises AggregationError: n < 2 f + 3, or there are too many.
    """
    best = stable_order(krum_scores(updates, byzantine))[: max(1, floor_of(keep, len(updates)))]
    chosen = np.zeros(len(updates))
    chosen[best] = 1.0
    return Chosen(weighted_mean(updates, chosen), tuple(updates.device_ids[row] for row in best))


def _combine(updates: Updates, _: Doubles, values: Values) -> Combined:
    chosen = multi_krum(updates, values["byzantine"], values["keep"])
    return chosen.weights, {"chosen": list(chosen.device_ids)}


RULE = Rule(
    "multi_krum",
    {
        "byzantine": BYZANTINE,
        "keep": Setting(0.5, "share of the devices, the best-scored, that is averaged; at least one", 0.0, 1.0),
    },
    _combine,
)
