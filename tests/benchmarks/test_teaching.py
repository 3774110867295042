"""On real recordings a device recognises what it was taught, and still knows what the fleet taught it."""

import pytest

from benchmarks.teaching import Case, Material, known_words, trial
from fleet_protocol.feature_settings import preset
from tests.support.checkout import DATA


@pytest.mark.slow
@pytest.mark.skipif(not DATA.is_dir(), reason=f"no recordings in {DATA}; set AURICLE_DATA")
def test_a_siren_is_learned_from_ten_takes_and_the_words_stay_known(bundles):
    material = Material(DATA, preset("gudur"))
    weights = known_words(material, bundles["cnn2"])
    shares = trial(Case("siren", 10), 1, material, bundles["cnn2"], weights)
    assert shares["new"] > 65
    assert shares["known"] > 70
    assert shares["mistaken"] < 5
    assert shares["noise"] < 12
