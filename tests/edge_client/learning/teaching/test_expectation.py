"""What a device says of a label is what the takes and the words of the pretraining make likely."""

import numpy as np
import pytest

from edge_client.audio.recordings import loudest_stretch
from edge_client.features.front_end import open_front_end
from edge_client.learning.teaching.expectation import expectations, fit_the_other_kind
from edge_client.learning.teaching.head import train_head
from edge_client.learning.teaching.head_material import Heard, head_material
from edge_client.model.runtime import ModelRuntime
from fleet_protocol import sample_sounds
from fleet_protocol.bundle import read_bundle
from fleet_protocol.labels import LabelMap
from fleet_protocol.ready_bundles import find_bundle

NOBODY = np.zeros((0, 64), np.float32)


@pytest.fixture(scope="module")
def bundle(pretrained_bundle):
    return read_bundle(pretrained_bundle)


@pytest.fixture(scope="module")
def statistics(bundle):
    return bundle.manifest.embedding_statistics


def takes_of(statistics, mean, count, share=1.0, seed=0):
    """Takes about a mean, whose variance is a share of that within a word: float32 [count, 1, 64]."""
    drawn = statistics.draw(np.zeros(64), count, np.random.default_rng(seed))
    return (mean + np.sqrt(share) * drawn).astype(np.float32)[:, None]


def told(bundle, statistics, **takes):
    """Return what is expected of labels, by label."""
    manifest = bundle.manifest
    nobody = np.zeros((0, manifest.feature_settings.shape[1]), np.float32)
    heard = Heard(takes, nobody, nobody)
    labels = LabelMap(manifest.capacity, reserved=len(manifest.background))
    for label in takes:
        labels = labels.add(label)
    model = ModelRuntime(bundle)
    material = head_material(labels, (), heard, statistics, None)
    model.set_weights(train_head(model, bundle.weights, labels, material, 30, 0.02, 1))
    return {found.label: found for found in expectations(model, labels, heard, statistics, np.random.default_rng(2))}


def far_away(statistics):
    """A mean that no word is near."""
    return statistics.means.mean(axis=0) + 2.5 * (statistics.means[0] - statistics.means.mean(axis=0))


def test_takes_as_alike_as_one_person_s_call_for_another_person(bundle, statistics):
    centre = statistics.means.mean(axis=0)
    mean = centre + 0.6 * (statistics.means[0] - centre) + 0.6 * (statistics.means[5] - centre)  # beside two words
    one = told(bundle, statistics, gong=takes_of(statistics, mean, 10, 0.25))["gong"]
    many = told(bundle, statistics, gong=takes_of(statistics, mean, 10))["gong"]
    assert one.spread < 0.35 < 0.7 < many.spread
    assert any("by another person" in advice for advice in one.advice)
    assert not any("by another person" in advice for advice in many.advice)
    assert one.misses_of_others > many.misses_of_others
    assert one.takes == 10


def test_few_takes_call_for_more(bundle, statistics):
    found = told(bundle, statistics, gong=takes_of(statistics, far_away(statistics), 1))["gong"]
    assert found.spread == 0.0
    assert any("1 are few" in advice for advice in found.advice)


def test_a_sound_between_words_is_taken_for_more_of_them_and_names_them(bundle, statistics):
    yes, no = (statistics.means[statistics.words.index(word)] for word in ("yes", "no"))
    found = told(
        bundle,
        statistics,
        gong=takes_of(statistics, far_away(statistics), 8),
        nope=takes_of(statistics, no, 8, 1.5),
        yes=takes_of(statistics, yes, 8),
    )
    assert found["nope"].near[0] == "no"
    assert "yes" not in found["yes"].near
    assert any("say that this is not 'nope'" in advice for advice in found["nope"].advice)
    assert not any("--" in advice for one in found.values() for advice in one.advice)  # the page shows it too
    assert found["gong"].near == () or "no" not in found["gong"].near


def test_one_sound_under_two_names_is_seen_and_no_advice_to_teach_it_away_is_given(bundle, statistics):
    away = far_away(statistics)
    found = told(
        bundle,
        statistics,
        zero=takes_of(statistics, away, 8),
        digit0=takes_of(statistics, away, 8, seed=1),
        yes=takes_of(statistics, statistics.means[statistics.words.index("yes")], 8),
    )
    assert found["zero"].advice[0].startswith("'zero' and 'digit0' sound the same")
    assert not any("sound the same" in advice for advice in found["yes"].advice)
    assert not any("resembles 'digit0'" in advice for advice in found["zero"].advice)


@pytest.mark.parametrize(("front_end", "warned"), [("words", True), ("sounds_2s", False), ("words_and_sounds", False)])
def test_takes_of_sounds_are_no_words_and_what_a_front_end_knows_is_of_its_kind(front_end, warned):
    manifest = read_bundle(find_bundle(front_end)).manifest
    settings, statistics = manifest.feature_settings, manifest.embedding_statistics
    for label in ("doorbell", "knock", "bark", "telephone"):
        takes = sample_sounds.takes(label, 6, 2 * sample_sounds.RATE_HZ, np.random.default_rng(1))
        clips = np.stack([loudest_stretch(samples, settings) for samples in takes]).astype(np.float32)
        assert fit_the_other_kind(open_front_end(settings)(clips)[:, 0], statistics) == warned
    assert not any(fit_the_other_kind(clips, statistics) for clips in statistics.samples)
