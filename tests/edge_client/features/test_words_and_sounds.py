"""The front end that hears words and everyday sounds: two networks, and what tells a word from a sound."""

import json

import numpy as np
import pytest

from edge_client.errors import FeatureError
from edge_client.features.front_end import open_front_end
from edge_client.learning.teaching.fleet_sounds import FleetSounds
from edge_client.learning.teaching.heard import Embeddings
from edge_client.learning.teaching.material import material_of
from fleet_protocol.bundle.bundle_file import read_bundle
from fleet_protocol.bundle.feature_settings import FeatureSettings, JointSettings
from fleet_protocol.bundle.labels import LabelMap
from fleet_protocol.bundle.ready_bundles import find_bundle
from fleet_protocol.errors import ProtocolError
from fleet_protocol.ground.sample_sounds import takes

BUNDLE = find_bundle("words_and_sounds")
PARTS = ("words", "sounds_2s")


@pytest.fixture(scope="module")
def manifest():
    return read_bundle(BUNDLE).manifest


def test_its_numbers_are_those_of_the_two_front_ends(manifest):
    words, sounds = (open_front_end(read_bundle(find_bundle(name)).manifest.feature_settings) for name in PARTS)
    joint = open_front_end(manifest.feature_settings)
    clips = takes("siren", 3, 32_000, np.random.default_rng(0))
    clips *= np.where((np.arange(32_000) >= 12_000) & (np.arange(32_000) < 28_000), 1.0, 0.1).astype(np.float32)
    said = clips[:, 12_000:28_000]  # the loudest second
    longer = np.pad(clips, ((0, 0), (0, 5000)))
    for samples, heard in ((clips, said), (longer, said), (said, said), (clips[0], said[0])):
        found = joint(samples)
        np.testing.assert_array_equal(found, np.concatenate([words(heard), sounds(samples)], axis=-1))
        assert found.shape[-2:] == manifest.feature_settings.shape == (1, 408)
    assert joint(np.zeros((0, 16_000), np.float32)).shape == (0, 1, 408)
    with pytest.raises(FeatureError, match="must be finite"):
        joint(np.full(100, np.nan, np.float32))


def test_settings_travel_as_json_and_what_does_not_fit_is_refused(manifest):
    settings = manifest.feature_settings
    document = json.loads(json.dumps(settings.to_json()))
    again = FeatureSettings.from_json(document)
    assert isinstance(again, JointSettings)
    assert again.digest == settings.digest
    assert [network.sha256 for network in again.networks] == [network.sha256 for network in settings.networks]
    for changes, message in (
        ({"words": document["words"] | {"clip_s": 3.0}}, "'clip_s' is 2.0 of both, 3.0 of words and 2.0 of sounds"),
        ({"sounds": document["sounds"] | {"clip_s": 1.0}}, "'clip_s' is 2.0 of both, 1.0 of words and 1.0 of sounds"),
        ({"words": document["words"] | {"hop_s": 0.005}}, "'hop_s' is 0.01 of both, 0.005 of words"),
        ({"words": "base"}, "'words' must be an object"),
        ({"words": {"words": {}}}, "'words.sample_rate_hz' is missing"),
        ({"sounds": document["sounds"] | {"hop_s": "10"}}, "'sounds.hop_s' must be a float, not '10'"),
        ({"sounds": document["sounds"] | {"hops": 1}}, "unknown feature setting 'sounds.hops'"),
    ):
        with pytest.raises(ProtocolError, match=message):
            FeatureSettings.from_json(document | changes)


def test_words_and_sounds_are_told_apart_by_their_takes(manifest):
    statistics, rng = manifest.embedding_statistics, np.random.default_rng(2)
    front_end = open_front_end(manifest.feature_settings)
    for kind in ("alarm", "glass", "vacuum_cleaner", "bark"):
        assert statistics.is_sound(front_end(takes(kind, 5, 16_000, rng))[:, 0]), kind
    for word in ("go", "stop", "up"):
        index = statistics.words.index(word)
        assert not statistics.are_sounds[index]
        assert not statistics.is_sound(statistics.draw(statistics.means[index], 5, rng))


def test_directions_of_words_and_of_sounds_are_those_of_their_own_network(manifest):
    joint = manifest.embedding_statistics
    parts = [read_bundle(find_bundle(name)).manifest.embedding_statistics for name in PARTS]
    split = len(parts[0].words)
    cosines = joint.whitened(joint.means) @ joint.whitened(joint.means).T
    assert np.abs(cosines[:split, split:]).max() == 0.0
    for own, block in zip(parts, (cosines[:split, :split], cosines[split:, split:]), strict=True):
        np.testing.assert_allclose(block, own.whitened(own.means) @ own.whitened(own.means).T, atol=1e-6)


def taught(manifest):
    statistics, rng = manifest.embedding_statistics, np.random.default_rng(3)
    labels = LabelMap(manifest.capacity, reserved=len(manifest.background)).add("hello").add("ping")
    word, sound = (statistics.words.index(name) for name in ("go", "synthetic siren"))
    heard = Embeddings(
        {
            "hello": statistics.draw(statistics.means[word] + 0.5, 5, rng)[:, None],
            "ping": statistics.draw(statistics.means[sound] + 0.5, 5, rng)[:, None],
        },
        np.zeros((0, 408), np.float32),
        np.zeros((0, 408), np.float32),
    )
    found = material_of(labels, [0, 1], heard, manifest, FleetSounds())
    return labels, heard, found


def test_a_row_keeps_the_half_that_knows_its_kind_and_gets_another_one_s_other_half(manifest):
    labels, heard, found = taught(manifest)
    assert found.kinds == {"hello": "word", "ping": "sound"}
    own = {sound.slot: sound for sound in found.sounds if sound.slot < 2}
    rng = np.random.default_rng(4)
    for slot, kept in ((0, slice(312)), (1, slice(312, None))):
        rows = found.rows(own[slot], 40, rng)
        takes_of = heard.takes[labels.names[slot]][:, 0]
        own_rows = rows[:20]  # the others are drawn around the centre
        assert all(any(np.array_equal(row[kept], take[kept]) for take in takes_of) for row in own_rows)
        assert not all(any(np.array_equal(row, take) for take in takes_of) for row in own_rows)
