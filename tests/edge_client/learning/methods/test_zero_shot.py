"""The alpha-update: the device's scores are added to the fleet's by its share of clips."""

import numpy as np

from edge_client.learning.methods.zero_shot import alpha_update


def test_the_alpha_update_by_hand():
    own = np.array([[0.5, 0.5], [1.0, 0.0]], np.float32)
    # alpha = 6 clips / 2 public samples = 3
    assert alpha_update(own, None, 6).tolist() == [[1.5, 1.5], [3.0, 0.0]]
    consensus = np.array([[1.0, 0.0], [0.0, 2.0]], np.float32)
    assert alpha_update(own, consensus, 6).tolist() == [[2.5, 1.5], [3.0, 2.0]]
