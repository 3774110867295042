"""The public Python interface of the aggregator, and the front door for extensions."""

import json
import subprocess
import sys

import numpy as np
import pytest

from aggregator_server import plugins
from aggregator_server.api import (
    AggregationError,
    KnownClass,
    ReportedClass,
    WeightCombiner,
    alpha_update,
    average_scores,
    discover_classes,
    weight_rules,
)
from edge_client.api import Classifier
from fleet_protocol.errors import AuricleError
from tests.support.checkout import DATA, ROOT

RECORDINGS = DATA / "gsc_v2_test"
WORDS = ("no", "stop", "yes")
needs_data = pytest.mark.skipif(not RECORDINGS.is_dir(), reason=f"there is no {RECORDINGS}; set AURICLE_DATA")


def weights(*values):
    return [{"body/kernel": np.full((2, 2), value, np.float32), "body/bias": np.float32([value])} for value in values]


def test_weights_are_combined_by_any_rule():
    start, *uploads = weights(0, 1, 2, 9)
    mean = WeightCombiner().combine(start, uploads, [1, 1, 2])
    np.testing.assert_allclose(mean["body/kernel"], np.full((2, 2), 5.25))
    median = WeightCombiner("median").combine(start, uploads)
    np.testing.assert_allclose(median["body/bias"], [2])
    assert {"weighted_mean", "median", "krum", "lpa"} <= set(weight_rules())
    clipping = WeightCombiner(clip_norm=1.0)
    clipped = clipping.combine(start, uploads)
    assert np.linalg.norm(clipped["body/kernel"]) < 1
    assert clipping.details_["clipped"]


def test_a_server_optimiser_remembers():
    start, upload = weights(0, 1)
    fedavgm = WeightCombiner(server_optimiser="adam", server_learning_rate=0.1)
    first = fedavgm.combine(start, [upload])
    second = fedavgm.combine(first, [upload])
    fresh = WeightCombiner(server_optimiser="adam", server_learning_rate=0.1).combine(first, [upload])
    assert not np.allclose(second["body/bias"], fresh["body/bias"])


def test_what_does_not_fit_is_named():
    start, upload = weights(0, 1)
    with pytest.raises(AggregationError, match="'majority'"):
        WeightCombiner("majority").combine(start, [upload])
    with pytest.raises(AuricleError, match="clip_norms"):
        WeightCombiner(clip_norms=1.0).combine(start, [upload])
    with pytest.raises(AggregationError, match="body/bias"):
        WeightCombiner().combine(start, [{"body/kernel": upload["body/kernel"]}])
    with pytest.raises(AggregationError, match="1 uploads and 2 sizes"):
        WeightCombiner().combine(start, [upload], [1, 2])
    with pytest.raises(AggregationError, match="device 0"):
        average_scores([np.ones((3, 2), np.float32)], [[0]], np.zeros(3, np.int64))


def test_scores_are_averaged_label_by_label_as_in_the_paper():
    labels = np.array([0, 0, 1, 1])
    right = np.float32([[1, 0], [1, 0], [0, 1], [0, 1]])
    half = np.float32([[1, 0], [0, 1], [0, 1], [1, 0]])
    updated = alpha_update(right, np.zeros_like(right), clips=8)
    np.testing.assert_allclose(updated, 2 * right)
    found = average_scores([updated, half], [[0, 1], [0, 1]], labels, normalise=True, above_chance=False)
    assert list(found.accuracies.values()) == [1.0, 0.5]
    np.testing.assert_allclose(found.scores, (1.0 * updated + 0.5 * half) / 1.5, rtol=1e-6)
    alone = average_scores([half[:, :1]], [[2]], labels, previous=np.ones((4, 3), np.float32))
    np.testing.assert_allclose(alone.scores, np.column_stack([np.ones((4, 2)), half[:, 0]]))


@needs_data
def test_classifiers_that_shared_their_weights_know_each_other_s_words():
    reader = Classifier("base")
    clips, labels = reader.read_folder(RECORDINGS, WORDS, 50)
    labels = np.array(labels)
    devices, sizes = [], []
    for number, words in enumerate((("no", "stop"), ("stop", "yes"))):
        mine = np.flatnonzero(np.isin(labels, words) & (np.arange(len(labels)) % 4 == number))
        devices.append(Classifier("base", WORDS, seed=number).partial_fit(clips[mine], labels[mine], epochs=10))
        sizes.append(len(mine))
    test = np.arange(len(labels)) % 4 > 1
    before = [device.score(clips[test], labels[test]) for device in devices]
    start = Classifier("base", WORDS)
    start.weights = WeightCombiner().combine(start.weights, [device.weights for device in devices], sizes)
    assert start.score(clips[test], labels[test]) > max(before) + 0.1


@needs_data
def test_the_same_new_sound_of_two_devices_is_one_class():
    reader = Classifier("base")
    public = reader.make_public_set(*reader.read_folder(RECORDINGS, ("go", "left", "off"), 20))
    reports, known = [], []
    for device, words in (("a", ("go", "yes", "no")), ("b", ("left", "yes"))):
        clips, labels = Classifier("base", seed=ord(device)).read_folder(RECORDINGS, words, 10)
        described = Classifier("base").fit(clips, labels).describe(clips, labels, public, words)
        known.append(KnownClass(device, words[0], **described[words[0]]))
        reports += [ReportedClass(device, slot, None, **described[word]) for slot, word in enumerate(words[1:])]
    assert [(report.device_id, report.slot) for report in reports] == [("a", 0), ("a", 1), ("b", 0)]
    assert discover_classes(reports, known, public, count=2) == [(0, 2), (1,)]


def test_neither_a_database_nor_a_web_server_is_loaded():
    code = "import json, sys, aggregator_server.api; print(json.dumps(list(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert not {"sqlalchemy", "fastapi", "pydantic", "kmedoids", "edge_client"} & set(json.loads(done.stdout))


NAMES = {
    "a rule": {"Rule", "Updates", "Layout", "weighted_mean", "AggregationError"},
    "a selection": {"Selection", "Candidate", "History", "FRACTION", "SEEN_WITHIN"},
    "a strategy": {"Strategy", "sharing", "DeviceStatistics", "aggregate_shared_model", "check_shared_model"},
    "a strategy's functions": {
        *("RoundInputs", "RoundResult", "Contribution", "UploadTerms", "SharedModel", "Assigned", "Choice", "Update"),
        "MalformedUpdateError",
    },
    "types": {"Arrays", "Doubles", "Floats", "Setting", "Value"},
}


def test_the_front_door_offers_exactly_these_names():
    assert set(plugins.__all__) == set.union(*NAMES.values())
    assert all(hasattr(plugins, name) for name in plugins.__all__)
