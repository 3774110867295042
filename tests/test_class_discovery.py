"""Class discovery: reports of the same sound find each other, and the clustering is as good as the reference's."""

import sys

import numpy as np
import pytest
from aggregator_process import SETTINGS, sound_impressions

from aggregator_server.class_discovery import KnownImpressions, ReportedClass, cosine_distances, discover, k_medoids


def fleet(sounds_of_devices, names=None, seed=0):
    """Reports of devices whose impressions all have a bias of their own, and their impressions of known classes."""
    rng = np.random.default_rng(seed)
    reports, known = [], []
    for number, sounds in enumerate(sounds_of_devices):
        bias = rng.normal(size=SETTINGS.shape) * 2
        for kind in (100, 101):
            impressions = (sound_impressions(kind, 8, rng) + bias).astype(np.float32)
            known.append(KnownImpressions(f"device-{number}", f"c{kind - 100}", impressions))
        for slot, sound in enumerate(sounds, 4):
            name = names[sound] if names else None
            impressions = (sound_impressions(sound, 8, rng) + bias).astype(np.float32)
            reports.append(ReportedClass(f"device-{number}", slot, name, impressions))
    return reports, known


def members(discovery):
    return {group.members for group in discovery.groups}


@pytest.mark.parametrize("seed", range(5))
def test_reports_of_the_same_sound_find_each_other(seed):
    reports, known = fleet([[1], [1], [2], [2]], seed=seed)
    assert members(discover(reports, known, count=2, seed=seed)) == {(0, 1), (2, 3)}


def test_names_tell_how_many_classes_there_are_whatever_their_case():
    reports, known = fleet([[1], [1], [2]], names={1: "Stop", 2: "go"})
    reports[1] = ReportedClass("device-1", 4, "STOP", reports[1].impressions)
    assert members(discover(reports, known, count=None, seed=0)) == {(0, 1), (2,)}


def test_without_names_and_count_the_silhouette_decides():
    reports, known = fleet([[1, 2], [1], [2], [1, 2]])
    assert members(discover(reports, known, count=None, seed=0)) == {(0, 2, 4), (1, 3, 5)}


def test_one_report_is_one_class():
    reports, known = fleet([[1]])
    assert members(discover(reports, known, count=None, seed=0)) == {(0,)}


def test_the_same_seed_gives_the_same_groups_and_details():
    reports, known = fleet([[1, 2], [2, 3], [3, 1]])
    assert discover(reports, known, count=3, seed=4) == discover(reports, known, count=3, seed=4)


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="scikit-learn-extra has no wheels for Python 3.12 and later")
@pytest.mark.parametrize("seed", range(10))
def test_the_loss_is_no_worse_than_that_of_scikit_learn_extra(seed):
    from sklearn_extra.cluster import KMedoids

    rng = np.random.default_rng(seed)
    points = rng.normal(size=(30 + 10 * seed, 40)) + 2 * rng.normal(size=(5, 40))[rng.integers(0, 5, 30 + 10 * seed)]
    distances = cosine_distances(points)
    for count in (2, 5, 8):
        theirs = KMedoids(count, metric="precomputed", method="pam", init="build", random_state=seed).fit(distances)
        assert k_medoids(distances, count, seed)[1] <= theirs.inertia_ + 1e-6
