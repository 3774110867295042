"""FedAvg with smoothed labels, in which a device with a hundred times the clips counts ten times as much."""

import numpy as np

from aggregator_server.plugins import Rule, Selection, Setting, sharing, weighted_mean


def combine(updates, sizes, values):
    shares = sizes ** values["power"]
    return weighted_mean(updates, shares), {"largest_share": float(shares.max() / shares.sum())}


def probabilities(sizes, history, values):
    return np.log1p(sizes)


RULE = Rule(
    "power_mean", {"power": Setting(0.5, "exponent of the number of clips; 1: FedAvg, 0: all alike", 0.0, 1.0)}, combine
)
SELECTION = Selection(
    "log_size",
    {"fraction": Setting(1.0, "share of the devices", 0.0, 1.0)},
    probabilities,
    about="Devices with many clips are a little more likely.",
)
STRATEGY = sharing("gentle", "smoothed", "power_mean", selection="log_size")
