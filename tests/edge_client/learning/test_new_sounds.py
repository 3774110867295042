"""What a device sends of a new sound depends on its front end."""

import numpy as np

from edge_client.learning.new_sounds import describe, profiles
from edge_client.learning.training_data import Clips
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.bundle.ready_bundles import find_bundle
from fleet_protocol.methods.local_methods import NEW_SOUNDS

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


def scene(seed=0, clips=40, recordings=200):
    """Clips of four classes and public recordings as points of a space that all devices hear, 6 dimensions."""
    rng = np.random.default_rng(seed)
    centres = 3 * rng.normal(size=(4, 6))
    spread = rng.normal(size=(6, 6))
    slots = np.repeat(np.arange(4), clips)
    own = centres[slots] + rng.normal(size=(len(slots), 6)) @ spread
    public = 2 * rng.normal(size=(recordings, 6))
    return public.astype(np.float32), own.astype(np.float32), slots, rng


def test_networks_that_hear_the_same_but_write_it_otherwise_agree():
    public, own, slots, rng = scene()
    other = np.linalg.qr(rng.normal(size=(6, 6)))[0] * rng.uniform(1, 4, 6)
    here = profiles(public, own, slots, [1, 3])
    there = profiles((public @ other + 5).astype(np.float32), (own @ other + 5).astype(np.float32), slots, [1, 3])
    agreement = np.corrcoef(np.concatenate([here, there]))
    assert min(agreement[0, 2], agreement[1, 3]) > 0.95
    assert max(agreement[0, 3], agreement[1, 2]) < min(agreement[0, 2], agreement[1, 3]) - 0.05


def test_a_class_of_a_single_clip_and_an_embedding_without_spread_give_finite_profiles():
    public, own, slots, _ = scene()
    keep = np.r_[0:40, 40:41]
    assert np.isfinite(profiles(public, own[keep], slots[keep], [0, 1])).all()
    assert np.isfinite(profiles(public * 0, own * 0, slots, [2])).all()
