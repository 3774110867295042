"""How often a detector looks and over which time it averages, where the owner does not say it."""

import pytest

from edge_client.config.sections import DetectorConfig
from edge_client.detection.pace import pace_of
from fleet_protocol.bundle.bundle_file import read_bundle
from fleet_protocol.bundle.ready_bundles import find_bundle


def pace(name, **chosen):
    found = pace_of(DetectorConfig(**chosen), read_bundle(find_bundle(name)).manifest.feature_settings)
    return found.hop_s, found.average_s


@pytest.mark.parametrize("name", ["base", "cnn2"])
def test_words_are_looked_at_more_often_than_sounds(name):
    assert pace(name) == (0.25, 0.5)
    assert pace("sounds") == (0.5, 1.0)


def test_the_owner_s_choice_comes_first():
    assert pace("sounds_2s", hop_s=0.1, average_s=0.0) == (0.1, 0.0)
    assert pace("base", hop_s=10.0)[0] <= 1.0  # a clip
