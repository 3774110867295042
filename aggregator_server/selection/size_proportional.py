"""Devices with more clips are drawn more often: P_k = D_k / sum D (FedProx, Li et al. 2020)."""

from collections.abc import Mapping

import numpy as np

from aggregator_server.selection.draw import FRACTION, SEEN_WITHIN, History, Selection
from fleet_protocol.methods.setting import Value
from fleet_protocol.numbers.arrays import Doubles


def size_proportional(sizes: Doubles, _history: History, _settings: Mapping[str, Value]) -> Doubles:
    """P_k = D_k / sum D, as FedProx draws its devices (Li et al. 2020)."""
    return np.asarray(sizes / sizes.sum())


SELECTION = Selection(
    "size_proportional",
    {"fraction": FRACTION, "seen_within_s": SEEN_WITHIN},
    size_proportional,
    about="A random share, in which devices with many clips are more likely.",
)
