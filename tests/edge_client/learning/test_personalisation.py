"""A model of the device's own, on a real runtime: it is kept where it is better on clips that it never saw."""

import numpy as np
import pytest

from edge_client.learning.personalisation import PersonalTask, fine_tune, fine_tuned
from edge_client.learning.training_data import Clips, held_out_accuracy
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.bundle.labels import LabelMap
from fleet_protocol.methods.personalisations import FINE_TUNING
from fleet_protocol.methods.setting import complete

LABELS = LabelMap(32).add("yes").add("no").add("rare")


@pytest.fixture
def model(bundles):
    return ModelRuntime.open(bundles["cnn1"])


def plan(**given):
    return complete("local", FINE_TUNING, {"learning_rate": 0.02} | given)


def personalise(model, own, held_out, settings=None, **further):
    task = {"label_map": LABELS, "rng": np.random.default_rng(1), "global_weights": model.get_weights()} | further
    return fine_tuned(PersonalTask(model=model, clips=own, held_out=held_out, settings=settings or plan(), **task))


def clips(model, count, seed, flip=False):
    """Two classes that differ in the first coefficient; flipped: as another owner means them."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((1, count, *model.manifest.input_shape)).astype(np.float32)
    slots = np.arange(count) % 2
    x[0, :, :, 0] += np.where((slots == 0) ^ flip, -2, 2)[:, None]
    return Clips(x, slots)


def trained(model, flip=False):
    fine_tune(model, LABELS, clips(model, 64, 0, flip), plan(), np.random.default_rng(0))
    return model.get_weights()


def same(weights, others):
    return all(np.array_equal(weights[name], others[name]) for name in weights)


def test_a_device_whose_clips_are_unlike_the_fleet_s_keeps_its_personal_model(model):
    fleet = trained(model)
    found = personalise(model, clips(model, 64, 1, True), clips(model, 32, 2, True))
    assert found["kept"] == 1
    assert found["global_accuracy_held_out"] < 10
    assert found["personal_accuracy"] > 90
    assert not same(model.get_weights(), fleet)


def test_a_model_of_the_device_s_own_is_a_third_choice(model):
    own = trained(model, flip=True)
    start = {name: np.zeros_like(array) for name, array in own.items()}
    model.set_weights(start)
    slow = plan(learning_rate=1e-8)
    found = personalise(model, clips(model, 64, 1, True), clips(model, 32, 2, True), slow, own_weights=own)
    assert found["own_accuracy_held_out"] > 90 > found["personal_accuracy"]
    assert (found["kept"], same(model.get_weights(), own)) == (1, True)


def test_public_labels_beside_the_clips_teach_what_the_device_has_no_clips_of(model):
    own, public = clips(model, 32, 1), clips(model, 96, 2)
    one_class = Clips(own.x[:, own.slots == 0], own.slots[own.slots == 0])
    start = model.get_weights()
    right = {}
    for labels in (True, False):
        model.set_weights(start)
        personalise(model, one_class, clips(model, 32, 3), plan(labels=labels), public=public)
        right[labels] = held_out_accuracy(model, LABELS.mask, clips(model, 64, 4), [0, 1])
    assert right[True] > 0.9 > right[False]


def test_a_personal_model_that_is_worse_or_only_as_good_is_dropped(model):
    fleet = trained(model)
    published = plan(labels=False)
    wrong = Clips(clips(model, 64, 1).x, 1 - clips(model, 64, 1).slots)
    found = personalise(model, wrong, clips(model, 32, 2), published)
    assert found["kept"] == 0
    assert found["personal_accuracy"] < found["global_accuracy_held_out"]
    assert same(model.get_weights(), fleet)
    tie = personalise(model, clips(model, 64, 1), clips(model, 32, 2), published)
    assert tie == {"personal_accuracy": 100.0, "global_accuracy_held_out": 100.0, "kept": 0.0}
    assert same(model.get_weights(), fleet)
    with_labels = personalise(model, clips(model, 64, 1), clips(model, 32, 2))
    assert with_labels == tie | {"kept": 1.0}  # what forgets nothing is taken where nothing speaks against it
    assert not same(model.get_weights(), fleet)


def test_what_starts_from_a_group_s_model_is_held_against_the_fleet_s(model):
    fleet = trained(model)
    trained(model, flip=True)  # the group went astray
    found = personalise(model, clips(model, 0, 1), clips(model, 32, 2), global_weights=fleet)
    assert found == {"kept": 0.0}
    assert same(model.get_weights(), fleet)


def test_without_clips_to_judge_by_or_with_a_training_that_diverged_the_global_model_stays(model):
    fleet = trained(model)
    assert personalise(model, clips(model, 64, 1), clips(model, 0, 2)) == {"kept": 0.0}
    assert same(model.get_weights(), fleet)
    wild = plan(labels=False, learning_rate=10.0, momentum=0.99, epochs=60)
    huge = Clips(clips(model, 64, 1).x * 1e6, clips(model, 64, 1).slots)
    found = personalise(model, huge, clips(model, 32, 2), wild)
    assert found["kept"] == 0
    assert same(model.get_weights(), fleet)
