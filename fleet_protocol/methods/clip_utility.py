"""Adaptive local training (FedKWS-UI, Li et al. 2022, section 4.2): how much a device's clips are worth a step.

Devices with more clips, more evenly spread over the classes, take more steps. The device computes its own r_k, the
aggregator those of all devices.
"""

import math

import numpy as np

from fleet_protocol.numbers.arrays import Ints


def utility(clips: int, entropy: float, max_clips: float, classes: int) -> float:
    """Return r_k = 2 n' e' / (n' + e'), with n' = n_k / max n and e' = entropy(q_k) / log C, each at most 1.

    ``entropy`` is of q_k, the distribution of the device's n_k clips over the labels, in nats; the fleet has C classes.
    """
    size, evenness = min(1.0, clips / max_clips), min(1.0, entropy / math.log(classes)) if classes > 1 else 1.0
    return 2 * size * evenness / (size + evenness) if size + evenness else 0.0


def label_entropy(labels: Ints) -> float:
    """Return the entropy in nats of the distribution of int64 [clips], none negative, over their labels."""
    counts = np.bincount(labels)
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log(shares)).sum()) + 0.0
