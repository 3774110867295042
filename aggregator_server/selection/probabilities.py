"""The selections: probabilities P_k by the devices' numbers of clips D_k, and by how the rounds before went."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from aggregator_server.selection.draw import FRACTION, SEEN_WITHIN, History, Selection
from fleet_protocol.methods.setting import Setting, Value
from fleet_protocol.numbers.arrays import Doubles


def equal(sizes: Doubles, _history: History, _settings: Mapping[str, Value]) -> Doubles:
    """P_k = 1 / N, as FedAvg draws its devices (McMahan et al. 2017)."""
    return np.full(len(sizes), 1.0 / len(sizes))


def size_proportional(sizes: Doubles, _history: History, _settings: Mapping[str, Value]) -> Doubles:
    """P_k = D_k / sum D, as FedProx draws its devices (Li et al. 2020)."""
    return np.asarray(sizes / sizes.sum())


def dynamic(sizes: Doubles, history: History, settings: Mapping[str, Value]) -> Doubles:
    """P_k = (1/D_k) / sum 1/D while r < R, D_k / sum D afterwards (Xu et al. 2025, section 3.1).

    Devices with few clips come first; those with many once the loss has settled. R is the setting ``switch_round``, or
    where that is 0 the round after which the loss stopped falling.
    """
    fixed = int(settings["switch_round"])
    settled = history.rounds >= fixed if fixed else settled_after(history.losses, int(settings["patience"])) is not None
    return size_proportional(sizes if settled else 1.0 / sizes, history, settings)


def settled_after(losses: Sequence[float], patience: int) -> int | None:
    """Return after how many rounds the loss first had no new lowest value for ``patience`` rounds; None: not yet."""
    lowest, since = math.inf, 0
    for index, loss in enumerate(losses):
        since = 0 if loss < lowest else since + 1
        lowest = min(loss, lowest)
        if since >= patience:
            return index + 1
    return None


SELECTION = (
    Selection(
        "all", {"seen_within_s": SEEN_WITHIN}, equal, about="All devices. The most is learned, and the most is sent."
    ),
    Selection(
        "uniform",
        {"fraction": FRACTION, "seen_within_s": SEEN_WITHIN},
        equal,
        about="A random share. Cheaper for the fleet; the others still learn from the result.",
    ),
    Selection(
        "size_proportional",
        {"fraction": FRACTION, "seen_within_s": SEEN_WITHIN},
        size_proportional,
        about="A random share, in which devices with many clips are more likely.",
    ),
    # Xu et al. 2025: three of ten devices a round; R is "near the first convergence", or where the loss stops falling.
    Selection(
        "dynamic",
        {
            "fraction": Setting(0.3, "share of the devices that take part, at least one", 0.0, 1.0),
            "switch_round": Setting(
                0,
                "R: done rounds after which much data counts for a device, not against it; 0: found from the loss",
                0,
                1_000_000,
            ),
            "patience": Setting(3, "rounds without a new lowest loss after which R is found", 1, 10_000),
            "seen_within_s": SEEN_WITHIN,
        },
        dynamic,
        about="A random share: at first devices with few clips are more likely, then, once the loss no longer falls, "
        "those with many.",
    ),
)
