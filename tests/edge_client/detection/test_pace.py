"""How often a detector looks and over which time it averages, where the owner does not say it."""

import pytest

from edge_client.config.sections import DetectorConfig
from edge_client.detection.pace import Pace, pace_of
from fleet_protocol.bundle.bundle_file import read_bundle
from fleet_protocol.bundle.ready_bundles import find_bundle


def settings_of(name):
    return read_bundle(find_bundle(name)).manifest.feature_settings


@pytest.mark.parametrize(("name", "usual"), [("base", Pace(0.25, 0.5)), ("cnn2", Pace(0.25, 0.5))])
def test_words_are_looked_at_more_often_than_sounds(name, usual):
    assert pace_of(DetectorConfig(), settings_of(name)) == usual
    assert pace_of(DetectorConfig(), settings_of("sounds")) == Pace(0.5, 1.0)


def test_the_owner_s_choice_comes_first():
    assert pace_of(DetectorConfig(hop_s=0.1, average_s=0.0), settings_of("sounds_2s")) == Pace(0.1, 0.0)
