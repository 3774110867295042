"""The alpha-update of a device's scores (Gudur & Perepu 2021, algorithm 1, local update, choice 1)."""

import numpy as np

from fleet_protocol.numbers.arrays import Floats


def alpha_update(own: Floats, consensus: Floats, clips: float) -> Floats:
    """Add a device's probabilities to the fleet's scores: f_m <- f_G + alpha p_m, alpha = |D_m| / |D_0|.

    Args:
        own: float32 [public samples, classes], p_m, of the classes that the device owns.
        consensus: the same columns of f_G; zeros before the first consensus.
        clips: |D_m|, the clips that the device learned from in this round.
    """
    return np.asarray(consensus + own * np.float32(clips / len(own)), np.float32)
