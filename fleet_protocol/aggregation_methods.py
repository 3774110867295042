"""The settings of the aggregation rules: how the aggregator can combine what the devices upload (docs/methods.md)."""

from __future__ import annotations

from fleet_protocol.setting import Setting

# In front of a rule and behind it: clipping, and the server optimisers of Reddi et al. 2021 with its settings for
# beta and tau.
_AROUND: dict[str, Setting] = {
    "clip_norm": Setting(0.0, "largest L2 norm of a device's update, longer ones are shortened; 0: none is", 0.0, 1e9),
    "server_optimiser": Setting("none", "takes the combined update for a gradient",
                                options=("none", "adam", "yogi", "adagrad")),
    "server_learning_rate": Setting(0.03, "eta, of the server optimiser", 1e-8, 1e3),
    "server_beta_1": Setting(0.9, "memory of the server optimiser's mean update", 0.0, 0.9999),
    "server_beta_2": Setting(0.99, "memory of adam's and yogi's squared updates", 0.0, 0.9999),
    "server_tau": Setting(1e-3, "added to the root of the squared updates, and their start's root", 1e-9, 1e3),
}  # fmt: skip

_LESS_THAN_HALF = 0.49  # twice that leaves somebody, however many devices there are
_BYZANTINE = Setting(0.2, "share of the devices that may lie, rounded down to f; n >= 2 f + 3 uploads are needed",
                     0.0, _LESS_THAN_HALF)  # fmt: skip

_OF_WEIGHTS: dict[str, dict[str, Setting]] = {
    "weighted_mean": {
        "by_size": Setting(True, "weigh a device by its number of clips; false: all alike (FedKWS-UI)"),
    },
    "lpa": {
        "v_l": Setting(0.1, "share of the devices dropped from a layer for the least deviation", 0.0, _LESS_THAN_HALF),
        "v_h": Setting(0.1, "share of the devices dropped from a layer for the most deviation", 0.0, _LESS_THAN_HALF),
    },
    "median": {},
    "trimmed_mean": {
        "trim": Setting(0.1, "share of the values cut off at either end, weight by weight", 0.0, _LESS_THAN_HALF),
    },
    "krum": {"byzantine": _BYZANTINE},
    "multi_krum": {
        "byzantine": _BYZANTINE,
        "keep": Setting(0.5, "share of the devices, the best-scored, that is averaged; at least one", 0.0, 1.0),
    },
}  # fmt: skip

AGGREGATION: dict[str, dict[str, Setting]] = {
    "label_wise": {
        "normalise": Setting(True, "divide by sum(beta) label by label; false: the paper to the letter"),
    },
} | {name: own | _AROUND for name, own in _OF_WEIGHTS.items()}
