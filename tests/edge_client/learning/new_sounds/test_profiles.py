"""Profiles say which public recordings sound like a class, whatever the device's network looks like inside."""

import numpy as np

from edge_client.learning.new_sounds.profiles import profiles


def scene(seed=0, clips=40, recordings=200):
    """Clips of four classes and public recordings as points of a space that all devices hear, 6 dimensions."""
    rng = np.random.default_rng(seed)
    centres = 3 * rng.normal(size=(4, 6))
    spread = rng.normal(size=(6, 6))
    slots = np.repeat(np.arange(4), clips)
    own = centres[slots] + rng.normal(size=(len(slots), 6)) @ spread
    public = 2 * rng.normal(size=(recordings, 6))
    return public.astype(np.float32), own.astype(np.float32), slots, rng


def test_recordings_of_a_class_score_highest_for_it():
    _, own, slots, _ = scene()
    found = profiles(own, own, slots, [0, 1, 2, 3])
    assert found.dtype == np.float32
    assert found.shape == (4, len(own))
    assert np.abs(found).max() <= 1 + 1e-6
    assert (found.argmax(axis=0) == slots).mean() > 0.9


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
