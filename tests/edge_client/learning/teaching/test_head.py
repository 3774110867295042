"""A head that learned with the fleet is averaged with one that learned from the device's own takes alone."""

import dataclasses

import numpy as np
import pytest

from edge_client.learning.teaching.head import train_head
from edge_client.learning.teaching.head_material import Heard, head_material
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.bundle import read_bundle
from fleet_protocol.labels import LabelMap
from fleet_protocol.ready_bundles import find_bundle

NOTHING = np.zeros((0, 64), np.float32)


def fitted(name):
    """Weights of two sounds, of which the device has takes of the first, and the fleet a prototype of the second.

    Returns:
        By what was trained on - all, all without the own takes apart, own takes alone - the weights; and the material.
    """
    bundle = read_bundle(find_bundle(name))
    manifest, statistics = bundle.manifest, bundle.manifest.embedding_statistics
    model = ModelRuntime(bundle)
    labels = LabelMap(manifest.capacity, reserved=len(manifest.background)).add("mine", "c0").add("theirs", "c1")
    takes = statistics.draw(statistics.means[3], 5, np.random.default_rng(0))[:, None]
    heard = Heard({"mine": takes}, NOTHING, NOTHING)
    found = head_material(labels, [0, 1], heard, statistics, None, pytest.fail, {"c1": statistics.means[[9]]})
    parts = {"all": found, "together": dataclasses.replace(found, own=None), "own": found.own}
    weights = {what: train_head(model, bundle.weights, labels, part, 3, 0.05, 1) for what, part in parts.items()}
    return weights, found


def test_outputs_of_which_the_device_has_takes_are_averaged_and_the_others_are_the_fleet_s():
    weights, found = fitted("base")
    assert 0 in found.slots & found.own.slots
    assert 1 in found.slots - found.own.slots
    for name, averaged in weights["all"].items():
        together, own = weights["together"][name], weights["own"][name]
        np.testing.assert_allclose(averaged[..., 0], 0.8 * together[..., 0] + 0.2 * own[..., 0], rtol=1e-4, atol=1e-6)
        np.testing.assert_array_equal(averaged[..., 1], together[..., 1])
        assert not np.allclose(together[..., 0], own[..., 0])


def test_a_network_with_a_hidden_layer_is_not_averaged():
    weights, _ = fitted("base_hidden")
    for name, array in weights["all"].items():
        np.testing.assert_array_equal(array, weights["together"][name])
