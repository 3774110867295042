"""What a round made is taken only where it is at least as good, on a real runtime."""

import dataclasses

import numpy as np
import pytest

from edge_client.learning.methods.local_method import local_methods
from edge_client.learning.personalisation import fine_tune
from edge_client.learning.rounds.client_update import RoundContext
from edge_client.learning.rounds.clips import public_clips
from edge_client.learning.rounds.guard import Evidence, Listener, judge, public_rows
from edge_client.learning.rounds.weight_sharing import WeightSharing
from edge_client.learning.training_data import Clips
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.bundle.bundle_file import read_bundle
from fleet_protocol.bundle.feature_settings import PRESETS
from fleet_protocol.bundle.labels import LabelMap, Slot
from fleet_protocol.messages.public_set import PublicSet
from fleet_protocol.messages.rest import ClassInfo
from fleet_protocol.methods.personalisations import FINE_TUNING
from fleet_protocol.methods.setting import complete
from fleet_protocol.numbers.tensors import Arrays
from tests.support.round_work import work_of

LABELS = LabelMap(32).add("yes", "yes").add("no", "no").add("up", "up")
HOW = complete("local", FINE_TUNING, {"learning_rate": 0.02, "epochs": 20})


@pytest.fixture(scope="module")
def model(bundles):
    return ModelRuntime.open(bundles["cnn1"])


def clips(model, slots, seed):
    """Clips of the given slots, which differ in the coefficient of their number."""
    rng = np.random.default_rng(seed)
    wanted = np.asarray(slots, np.int64)
    x = rng.standard_normal((1, len(wanted), *model.manifest.input_shape)).astype(np.float32)
    x[0, np.arange(len(wanted)), :, wanted] += 3
    return Clips(x, wanted)


@pytest.fixture(scope="module")
def weights(model):
    """Weights that know three sounds."""
    fine_tune(model, LABELS, clips(model, [0, 1, 2] * 40, 0), HOW, np.random.default_rng(0))
    return model.get_weights()


def swapped(weights: Arrays, one: int, other: int) -> Arrays:
    """Weights that take two sounds for one another."""
    order = list(range(32))
    order[one], order[other] = other, one
    return {name: array[..., order] if array.shape[-1] == 32 else array for name, array in weights.items()}


def without(model, weights: Arrays, slot: int) -> Arrays:
    """Weights that never answer with a sound."""
    name = model.manifest.head.weights[-1]
    bias = weights[name].copy()
    bias[slot] = -1000
    return weights | {name: bias}


def some(model, slots, count):
    return clips(model, (slots * count)[:count], 1)


def nothing(model):
    return clips(model, [], 2)


def test_a_result_that_loses_own_clips_is_refused_and_says_by_how_much(model, weights):
    evidence = Evidence(some(model, [0, 1], 16), "held_out", nothing(model))
    present, worse = Listener(weights, LABELS), Listener(swapped(weights, 0, 1), LABELS)
    verdict = judge(model, present, worse, evidence)
    assert verdict.kept_own
    assert verdict.metrics["held_out_before"] > 90
    assert verdict.metrics["held_out_after"] < 10
    assert verdict.metrics.keys() == {"held_out_before", "held_out_after"}
    assert not judge(model, worse, present, evidence).kept_own
    assert not judge(model, present, Listener(dict(weights), LABELS), evidence).kept_own  # of equals the round's


def test_a_class_without_own_clips_is_guarded_by_the_public_set(model, weights):
    public = some(model, [2], 12)
    present, worse = Listener(weights, LABELS), Listener(without(model, weights, 2), LABELS)
    own = some(model, [0, 1], 16)
    verdict = judge(model, present, worse, Evidence(own, "held_out", public))
    assert verdict.kept_own
    assert verdict.metrics["held_out_after"] >= verdict.metrics["held_out_before"]
    assert verdict.metrics["public_after"] < verdict.metrics["public_before"]


@pytest.mark.parametrize(("count", "kept"), [(8, True), (7, False)])
def test_too_few_clips_say_nothing(model, weights, count, kept):
    evidence = Evidence(some(model, [0, 1], count), "held_out", nothing(model))
    verdict = judge(model, Listener(weights, LABELS), Listener(swapped(weights, 0, 1), LABELS), evidence)
    assert verdict.kept_own == kept
    assert bool(verdict.metrics) == kept


@pytest.mark.parametrize(
    ("lost", "taught", "grown", "kept"),
    [
        (1, False, True, False),
        (1, False, False, True),
        (2, False, True, True),
        (1, True, False, False),
        (2, True, False, True),
    ],
)
def test_clips_that_both_learned_and_a_new_class_may_cost_what_chance_would(model, weights, lost, taught, grown, kept):
    """The candidate never answers with the first label, so it loses that label's clips and no other."""
    own = clips(model, [0] * lost + [1] * (16 - lost), 1)
    before = dataclasses.replace(LABELS, off=(2,)) if grown else LABELS
    present, candidate = Listener(weights, before), Listener(without(model, weights, 0), LABELS)
    verdict = judge(model, present, candidate, Evidence(own, "held_out", nothing(model), taught))
    assert verdict.metrics["held_out_before"] - verdict.metrics["held_out_after"] == pytest.approx(100 * lost / 16)
    assert verdict.kept_own == kept


@pytest.mark.parametrize(("lost", "kept"), [(1, False), (3, True)])
def test_a_new_class_may_cost_a_tenth_of_the_known_ones_however_well_it_is_known_itself(model, weights, lost, kept):
    """Twenty clips of the new class are gained, for some of twenty public rows of which the first label's are lost."""
    own, public = clips(model, [2] * 20, 1), clips(model, [0] * lost + [1] * (20 - lost), 3)
    present = Listener(weights, dataclasses.replace(LABELS, off=(2,)))
    candidate = Listener(without(model, weights, 0), LABELS)
    verdict = judge(model, present, candidate, Evidence(own, "held_out", public))
    assert verdict.metrics["held_out_before"] == 0
    assert verdict.metrics["held_out_after"] > 90
    assert verdict.metrics["public_before"] - verdict.metrics["public_after"] == pytest.approx(5 * lost)
    assert verdict.kept_own == kept


def test_public_recordings_count_for_classes_without_clips_and_impressions_only_where_there_is_nothing_else():
    names = ("yes", "no", "up", "kettle", "bell")
    labels = np.array([0, 0, 1, 1, 2, 2, 3, 3, 4])
    synthetic = np.array([False, False, False, False, False, True, True, True, True])
    settings = PRESETS["gudur"]
    features = np.arange(9, dtype=np.float32)[:, None, None] * np.ones((9, *settings.shape), np.float32)
    public = PublicSet(settings, tuple(ClassInfo(name, name) for name in names), features, labels, synthetic)
    label_map = LABELS.add("kettle", "kettle").add("bell", "bell").add("mine")

    def rows(judged, heard):
        found = public_rows(public, features, label_map, set(judged), set(heard))
        return list(zip(found.x[0, :, 0, 0].astype(int).tolist(), found.slots.tolist(), strict=True))

    known = [(2, 1), (3, 1), (4, 2)]
    assert rows([0], [0]) == [*known, (6, 3), (7, 3), (8, 4)]
    assert rows([0, 4], [0, 4]) == [*known, (6, 3), (7, 3)]
    assert rows([], [0, 4]) == [(0, 0), (1, 0), *known, (6, 3), (7, 3)]  # own clips are too few to judge by


def test_public_rows_have_the_device_s_slots_and_no_impressions_of_classes_that_it_has_clips_of(bundles):
    bundle = read_bundle(bundles["ann3"])
    model = ModelRuntime.open(bundles["ann3"])
    x = np.random.default_rng(0).standard_normal((6, *model.manifest.input_shape)).astype(np.float32)
    classes = tuple(ClassInfo(f"c{number}", f"c{number}") for number in range(4))
    labels, synthetic = np.array([0, 1, 2, 3, 0, 3]), np.array([0, 0, 0, 1, 1, 1], np.bool_)
    public = PublicSet(bundle.manifest.feature_settings, classes, x, labels, synthetic)
    label_map = LabelMap(32, (Slot("kettle"), Slot("d", "c3"), Slot("a", "c0"), Slot("c", "c2")))
    method = local_methods()["fedavg"]
    job = WeightSharing(method, model, label_map, work_of(), RoundContext(public, None, bundle), "1" * 32, model)
    own = Clips(np.zeros((1, 2, *model.manifest.input_shape), np.float32), np.array([2, 2]))
    found = public_clips(job, own)
    assert found.slots.tolist() == [2, 3, 1, 1]  # class 1 has no slot, and of class 0 there are clips
    np.testing.assert_array_equal(found.x[0], model.normalise(x[[0, 2, 3, 5]]))
