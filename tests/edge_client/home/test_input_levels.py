"""The background of an input, and how far a sound stands out of it."""

import numpy as np
import pytest

from edge_client.audio.level import rms_dbfs
from edge_client.home.input_levels import Background


def test_a_background_is_what_is_there_most_of_the_time():
    quiet, loud = Background(), Background()
    assert quiet.snr_db(-20.0) == 0.0
    rng = np.random.default_rng(1)
    for _ in range(200):
        quiet.take(rms_dbfs(rng.normal(0, 0.001, 1600).astype(np.float32)), 0.1)
        loud.take(-30.0, 0.1)
    quiet.take(rms_dbfs(rng.normal(0, 0.5, 1600).astype(np.float32)), 0.1)  # a sound itself hardly counts
    assert quiet.snr_db(-20.0) == pytest.approx(40.0, abs=0.5)
    assert loud.snr_db(-20.0) == pytest.approx(10.0, abs=0.1)
    assert loud.snr_db(float("-inf")) == pytest.approx(-70.0, abs=0.1)
