"""How often a detector looks and over which time it averages, where the owner does not say it; and thresholds."""

import numpy as np
import pytest

from edge_client.config.sections import DetectorConfig
from edge_client.detection.pace import Pace, pace_of
from edge_client.detection.thresholds import Tail, fit_tails
from fleet_protocol.bundle import read_bundle
from fleet_protocol.ready_bundles import find_bundle


def settings_of(name):
    return read_bundle(find_bundle(name)).manifest.feature_settings


@pytest.mark.parametrize(("name", "usual"), [("base", Pace(0.25, 0.5)), ("cnn2", Pace(0.25, 0.5))])
def test_words_are_looked_at_more_often_than_sounds(name, usual):
    assert pace_of(DetectorConfig(), settings_of(name)) == usual
    assert pace_of(DetectorConfig(), settings_of("sounds")) == Pace(0.5, 1.0)


def test_the_owner_s_choice_comes_first():
    assert pace_of(DetectorConfig(hop_s=0.1, average_s=0.0), settings_of("sounds_2s")) == Pace(0.1, 0.0)


def test_a_least_tail_raises_levels_and_scales_alone():
    quiet, loud = np.full((1000, 1), 0.01), np.linspace(0.9, 0.9999, 1000)[:, None]
    free = fit_tails(np.concatenate([quiet, loud], axis=1).astype(np.float32))
    bound = [tail.at_least(Tail(1.5, 0.75)) for tail in free]
    assert free[0].level < 1.5 < free[1].level == bound[1].level
    assert bound[0].level == 1.5
    assert min(tail.scale for tail in bound) >= 0.75
    assert bound[0].threshold(1.0) == pytest.approx(1 / (1 + np.exp(-1.5)))
    assert bound[0].threshold(0.1) > bound[0].threshold(1.0) > bound[0].threshold(10.0)
