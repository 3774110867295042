"""Sliding over a stream gives the features of every window, and skipping part of the work changes nothing."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_client.features.front_end import SlidingFeatures, open_front_end
from fleet_protocol.bundle.feature_settings import PRESETS


@pytest.mark.parametrize("name", sorted(PRESETS))
@given(hop_share=st.floats(0.01, 1.0), seed=st.integers(0, 1000), forget=st.booleans())
@settings(max_examples=12)
def test_every_window_has_the_features_that_it_has_alone(name, hop_share, seed, forget):
    preset = PRESETS[name]
    hop_frames = max(1, round(hop_share * preset.frames))
    rng = np.random.default_rng(seed)
    stream = (0.1 * rng.standard_normal(4 * preset.clip_samples)).astype(np.float32)
    stream[preset.clip_samples : 2 * preset.clip_samples] *= 1e-4
    sliding, alone = SlidingFeatures(preset, hop_frames), open_front_end(preset)
    hop = hop_frames * preset.hop_samples
    for number, start in enumerate(range(0, len(stream) - preset.clip_samples + 1, hop)):
        if forget and number == 2:
            sliding.reset()
            continue
        window = stream[start : start + preset.clip_samples]
        np.testing.assert_allclose(sliding(window), alone(window), rtol=1e-5, atol=1e-5)
