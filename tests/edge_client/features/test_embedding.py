"""Embeddings: the front end with a network, alone, in a bundle, and with what cannot be used."""

import dataclasses

import numpy as np
import pytest

from edge_client.errors import FeatureError, ModelError
from edge_client.features.front_end import open_front_end
from edge_client.features.log_mel import LogMel
from edge_client.model.interpreter import open_network
from fleet_protocol.bundle.bundle_file import read_bundle, unpack_bundle, write_bundle
from fleet_protocol.bundle.feature_settings import FeatureSettings, FrozenNetwork
from fleet_protocol.errors import BundleError, ProtocolError


@pytest.fixture
def bundle(embedding_bundles):
    return read_bundle(embedding_bundles / "embedding.auricle")


@pytest.fixture
def settings(bundle):
    return bundle.manifest.feature_settings


def test_it_is_the_network_of_the_scaled_log_mel_features(settings):
    clips = (0.1 * np.random.default_rng(0).standard_normal((3, settings.clip_samples))).astype(np.float32)
    found = open_front_end(settings)(clips)
    scaled = (LogMel(settings.log_mel)(clips) + 6) / 5
    np.testing.assert_allclose(found[:, 0], open_network(settings.network.data)(scaled), rtol=1e-5, atol=1e-6)
    assert found.shape == (3, *settings.shape) == (3, 1, 16)
    np.testing.assert_array_equal(open_front_end(settings)(clips[1]), found[1])
    assert np.ptp(found, axis=0).max() > 0.01  # the network hears a difference


def test_a_bundle_carries_the_network_and_its_features_name_it(bundle, settings):
    packed = write_bundle(bundle.manifest, bundle.graph, bundle.weights)
    again = unpack_bundle(packed, "again").manifest
    assert again.feature_settings.network.data == settings.network.data
    assert again.feature_settings.digest == settings.digest
    other = dataclasses.replace(settings, network=FrozenNetwork.of(settings.network.data + b"x"))
    assert other.digest != settings.digest
    features = dict(bundle.manifest.features)
    foreign = dataclasses.replace(bundle.manifest, features=features | {"network": "0" * 64})
    with pytest.raises(BundleError, match=r"not the network of its features"):
        unpack_bundle(write_bundle(foreign, bundle.graph, bundle.weights), "foreign")


def test_settings_that_travelled_know_the_digest_alone_and_say_so(settings):
    there = FeatureSettings.from_json(settings.to_json())
    assert there == settings
    assert there.digest == settings.digest
    with pytest.raises(FeatureError, match=settings.network.sha256[:16]):
        open_front_end(there)
    with pytest.raises(ProtocolError, match="64 hex digits"):
        FeatureSettings.from_json(settings.to_json() | {"network": "../x"})


def test_a_network_that_does_not_fit_or_is_none_is_refused(settings):
    with pytest.raises(FeatureError, match=r"\(16,\) of a clip, not the 17 numbers"):
        open_front_end(dataclasses.replace(settings, numbers=17))
    with pytest.raises(FeatureError, match=r"takes rows of shape \(98, 40\)"):
        open_front_end(dataclasses.replace(settings, frames=97))
    with pytest.raises(ModelError, match="cannot take this network"):
        open_front_end(dataclasses.replace(settings, network=FrozenNetwork.of(b"\x1c\0\0\0TFL3" + bytes(40))))
