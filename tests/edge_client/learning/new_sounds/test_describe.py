"""What a device sends of a new sound depends on its front end."""

import numpy as np

from edge_client.learning.methods.settings import NEW_SOUNDS
from edge_client.learning.new_sounds.describe import describe
from edge_client.learning.training_data import Clips
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.ready_bundles import find_bundle

SETTINGS = {name: setting.default for name, setting in NEW_SOUNDS.items()} | {"impressions": 3, "impression_steps": 2}


def described(name):
    model, rng = ModelRuntime.open(find_bundle(name)), np.random.default_rng(0)
    x = rng.normal(size=(1, 12, *model.manifest.input_shape)).astype(np.float32)
    public = rng.normal(size=(7, *model.manifest.input_shape)).astype(np.float32)
    mask = np.zeros(model.manifest.capacity, np.float32)
    mask[:3] = 1.0
    slots = np.repeat([0, 1, 2], [3, 5, 4])
    return model, x[0], describe(model, mask, Clips(x, slots), public, [1, 2], SETTINGS, rng)


def test_a_pretrained_front_end_gives_the_mean_embedding_of_each_class_before_normalisation():
    model, x, arrays = described("base")
    assert {name: array.shape for name, array in arrays.items()} == {"prototypes": (2, 1, 64)}
    expected = np.stack([model.denormalise(x[3:8]).mean(axis=0), model.denormalise(x[8:]).mean(axis=0)])
    np.testing.assert_allclose(arrays["prototypes"], expected, rtol=1e-5, atol=1e-6)
    assert arrays["prototypes"].dtype == np.float32


def test_cepstra_give_profiles():
    _, _, arrays = described("cnn2")
    assert {name: array.shape for name, array in arrays.items()} == {"impressions": (2, 3, 20, 13), "profiles": (2, 7)}
