"""Class discovery: reports of the same sound find each other, and the clustering is as good as the reference's."""

import dataclasses

import numpy as np
import pytest

from aggregator_server.discovery.clustering import KnownClass, ReportedClass, cosine_distances, silhouette
from aggregator_server.discovery.clustering import discover as discover_in
from tests.support.aggregator_process import SETTINGS, public_set, sound_impressions


def fleet(sounds_of_devices, names=None, seed=0):
    """Reports of devices whose impressions all have a bias of their own, and their impressions of known classes."""
    rng = np.random.default_rng(seed)
    reports, known = [], []
    for number, sounds in enumerate(sounds_of_devices):
        bias = rng.normal(size=SETTINGS.shape) * 2
        for kind in (100, 101):
            impressions = (sound_impressions(kind, 8, rng) + bias).astype(np.float32)
            known.append(KnownClass(f"device-{number}", f"c{kind - 100}", impressions))
        for slot, sound in enumerate(sounds, 4):
            name = names[sound] if names else None
            impressions = (sound_impressions(sound, 8, rng) + bias).astype(np.float32)
            reports.append(ReportedClass(f"device-{number}", slot, name, impressions))
    return reports, known


def discover(reports, known, **options):
    return discover_in(reports, known, public_set(), **options)


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


def with_profiles(items, sound_of, rng):
    """Profiles over 24 public samples of 4 classes: what a sound has in common with clips, and with classes."""
    clips = np.random.default_rng(5).normal(size=(200, 24))  # how each sound is like each clip
    classes = np.arange(24) % 4
    return [
        dataclasses.replace(
            item,
            impressions=rng.normal(size=item.impressions.shape).astype(np.float32),  # of no use
            profile=(clips[sound_of(item)] + 3 * rng.normal(size=4)[classes] + 0.3 * rng.normal(size=24)).astype(
                np.float32
            ),
        )
        for item in items
    ]


@pytest.mark.parametrize(
    ("sounds", "expected"),
    [
        ([[1], [2], [1], [2]], {(0, 2), (1, 3)}),
        ([[1], [1], [1]], {(0, 1, 2)}),  # a single class: the reference classes show that it is one
        ([[1], [2], [3]], {(0,), (1,), (2,)}),
    ],
)
def test_profiles_tell_how_many_classes_there_are_and_which(sounds, expected):
    rng = np.random.default_rng(0)
    reports, known = fleet(sounds)
    truth = {(f"device-{device}", 4): kinds[0] for device, kinds in enumerate(sounds)}
    reports = with_profiles(reports, lambda report: truth[report.device_id, report.slot], rng)
    known = with_profiles(known, lambda item: 100 + int(item.class_id[1:]), rng)
    assert members(discover(reports, known, count=None, seed=0)) == expected


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_the_silhouette_is_that_of_scikit_learn(seed):
    from sklearn.metrics import silhouette_score

    rng = np.random.default_rng(seed)
    distances = cosine_distances(rng.normal(size=(20, 6)))
    labels = rng.integers(0, 5, 20)
    expected = silhouette_score(distances, labels, metric="precomputed")
    assert silhouette(distances, labels) == pytest.approx(expected)
