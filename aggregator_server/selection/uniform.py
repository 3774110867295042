"""Every device has the same chance: P_k = 1 / N (FedAvg, McMahan et al. 2017)."""

from collections.abc import Mapping

import numpy as np

from aggregator_server.selection.draw import FRACTION, SEEN_WITHIN, History, Selection
from fleet_protocol.methods.setting import Value
from fleet_protocol.numbers.arrays import Doubles


def equal(sizes: Doubles, _history: History, _settings: Mapping[str, Value]) -> Doubles:
    """P_k = 1 / N."""
    return np.full(len(sizes), 1.0 / len(sizes))


SELECTION = Selection(
    "uniform",
    {"fraction": FRACTION, "seen_within_s": SEEN_WITHIN},
    equal,
    about="A random share. Cheaper for the fleet; the others still learn from the result.",
)
