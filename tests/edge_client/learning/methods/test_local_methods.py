"""The local methods that share a model: their targets by hand, on a real runtime; and slots in two orders."""

import dataclasses
from dataclasses import replace

import numpy as np
import pytest

from edge_client.learning.class_links import SlotOrder, move_head
from edge_client.learning.methods import fedkws_ui, fedmlac, fedmmd
from edge_client.learning.methods.local_method import LocalMethod, local_methods
from edge_client.learning.personalisation import personalisations
from edge_client.learning.rounds.local_training import LocalTask, Rehearsal, train_shared
from edge_client.learning.training_data import Clips
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.bundle.bundle_file import Layer
from fleet_protocol.bundle.labels import LabelMap, Slot
from fleet_protocol.errors import LabelError
from fleet_protocol.methods.local_methods import local_methods as known_methods
from fleet_protocol.methods.personalisations import personalisations as known_personalisations
from fleet_protocol.methods.setting import complete
from tests.support.checkout import ROOT

SHARED_METHODS = {name: method for name, method in local_methods().items() if isinstance(method, LocalMethod)}
# The owner taught b, x (no class yet), a; the fleet knows a, b, c.
OWN = LabelMap(6, (Slot("b", "cb"), Slot("x"), Slot("a", "ca")))
CLASSES = ("ca", "cb", "cc")


def test_the_device_s_slots_in_the_fleet_s_order_and_back():
    order = SlotOrder.of(OWN, CLASSES, 5)
    assert dict(zip(order.own, order.shared, strict=True)) == {0: 1, 2: 0, 1: 3}
    own = np.array([[0.1, 0.2, 0.7, 0, 0, 0]], np.float32)
    shared = order.to_shared(own)
    np.testing.assert_array_equal(shared, np.array([[0.7, 0.1, 0, 0.2, 0]], np.float32))
    np.testing.assert_array_equal(order.to_own(shared), own)
    assert order.slots_to_shared(np.array([0, 2, 1])).tolist() == [1, 0, 3]
    assert order.mask().tolist() == [1, 1, 1, 1, 0]


def test_new_sounds_come_first_behind_the_classes_in_the_order_of_the_reports():
    label_map = LabelMap(6, (Slot("x"), Slot("y"), Slot("z"), Slot("a", "ca")))
    order = SlotOrder.of(label_map, CLASSES, 6, new=[2, 0])
    assert dict(zip(order.own, order.shared, strict=True)) == {3: 0, 2: 3, 0: 4, 1: 5}
    with pytest.raises(LabelError, match="--capacity"):
        SlotOrder.of(label_map, CLASSES, 5)


def test_a_head_is_moved_column_by_column_and_the_body_as_it_is():
    head = Layer("head", ("h/kernel", "h/bias"))
    source = {"body": np.ones(2), "h/kernel": np.arange(6.0).reshape(2, 3), "h/bias": np.array([7.0, 8.0, 9.0])}
    into = {"body": np.zeros(2), "h/kernel": np.full((2, 3), -1.0), "h/bias": np.full(3, -1.0)}
    moved = move_head(source, into, head, [0, 2], [2, 0])
    assert moved["h/kernel"].tolist() == [[2, -1, 0], [5, -1, 3]]
    assert moved["h/bias"].tolist() == [9, -1, 7]
    assert moved["body"] is source["body"]
    assert into["h/bias"].tolist() == [-1, -1, -1]


def task(bundles, method, own="cnn1", **changes):
    """Two classes that differ in the first coefficient; the device has them in the other order."""
    shared, mine = ModelRuntime.open(bundles["cnn1"]), ModelRuntime.open(bundles[own])
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1, 40, *shared.manifest.input_shape)).astype(np.float32)
    slots = np.arange(40) % 2
    x[0, :, :, 0] += np.where(slots == 0, -2, 2)[:, None]
    order = SlotOrder.of(LabelMap(32, (Slot("b", "cb"), Slot("a", "ca"))), CLASSES, 32)
    own_x = mine.normalise(shared.denormalise(x[0]))[None]
    mask = np.zeros(32, np.float32)
    mask[:2] = 1
    full = complete(method, SHARED_METHODS[method].settings, changes)
    return LocalTask(
        shared=shared,
        own=mine,
        order=order,
        mask=mask,
        clips=Clips(x, slots),
        own_clips=Clips(own_x, 1 - slots),
        settings=full,
        rng=rng,
    )


def train(of, method):
    nothing = Rehearsal(of.clips.x[0][:0], np.zeros((0, 32), np.float32))
    return train_shared(of, SHARED_METHODS[method].prepare(of), nothing)


@pytest.mark.parametrize("method", sorted(SHARED_METHODS))
def test_every_method_teaches_the_shared_model_the_device_s_classes(bundles, method):
    of = task(bundles, method, own="cnn2" if method == "fedmlac" else "cnn1")
    before = of.shared.get_weights()
    for _ in range(3):
        loss = train(of, method)
    assert np.isfinite(loss)
    guesses = of.shared.predict(of.clips.x[0], of.mask).argmax(axis=1)
    assert (guesses == of.clips.slots).mean() > 0.9
    after = of.shared.get_weights()
    head = of.shared.manifest.head.weights
    assert all(np.array_equal(before[name][..., 2:], after[name][..., 2:]) for name in head)  # nobody else's outputs
    own = of.own.predict(of.own_clips.x[0], of.own_mask).argmax(axis=1)
    if SHARED_METHODS[method].keeps_own:
        assert (own == of.own_clips.slots).mean() > 0.9


def test_the_proximal_term_holds_the_weights_to_the_fleet_s(bundles):
    moved = []
    for mu in (0.0, 10.0):
        of = task(bundles, "fedprox", proximal=mu, epochs=20)
        before = of.shared.get_weights()
        train(of, "fedprox")
        moved.append(sum(float(((a - before[n]) ** 2).sum()) for n, a in of.shared.get_weights().items()))
    assert moved[1] < moved[0] / 4


def test_with_mutual_learning_both_models_rehearse(bundles):
    of = task(bundles, "fedmlac", own="cnn2", epochs=20)
    public = np.concatenate([of.clips.x[0], np.random.default_rng(1).standard_normal((20, 20, 13)).astype(np.float32)])
    public[40:, :, 1] += 4
    slots = np.concatenate([of.clips.slots, np.full(20, 2)])  # of the fleet's third class the device has no clips
    of = dataclasses.replace(
        of,
        order=SlotOrder.of(LabelMap(32, (Slot("b", "cb"), Slot("a", "ca"), Slot("c", "cc"))), CLASSES, 32),
        mask=(np.arange(32) < 3).astype(np.float32),
    )
    train_shared(of, fedmlac.prepare(of), Rehearsal(public, np.eye(32, dtype=np.float32)[slots]))
    own = of.own.predict(of.for_own(public[40:]), of.mask).argmax(axis=1)
    assert (own == 2).mean() > 0.9


def test_fedkws_ui_targets_by_hand(bundles):
    of = task(bundles, "fedkws_ui", private_epochs=0, smoothing=0.2, adversarial=0.1)
    x, labels = of.clips.x[0][:2], np.eye(32, dtype=np.float32)[[0, 1]]
    targets = fedkws_ui.prepare(of).targets(x, labels)
    private = of.own.predict(of.for_own(x), of.own_mask)[:, [1, 0]]
    expected = 0.8 * labels[:, :2] + 0.1 - 0.1 * private
    np.testing.assert_allclose(targets[:, :2], expected, rtol=1e-5)
    assert not targets[:, 2:].any()


@pytest.mark.parametrize(
    ("changes", "steps"),
    [
        ({}, 50),  # nobody told anything yet
        ({"most_clips": 80, "step_factor": 2.0}, 56),  # n' = 40/80, e' = log 2 / log 3: r = 0.558; 2 r 50
        ({"most_clips": 80, "step_factor": 2.0, "adaptive": False}, 50),
        ({"most_clips": 10**6, "step_factor": 1.0}, 1),
    ],
)
def test_adaptive_local_training_steps_by_hand(bundles, changes, steps):
    assert fedkws_ui.prepare(task(bundles, "fedkws_ui", private_epochs=0, **changes)).steps == steps


@pytest.mark.parametrize(
    ("method", "changes", "steps"),
    [("fedavg", {"epochs": 3}, 6), ("fedavg", {"steps": 7}, 7), ("fedmmd", {"steps": 1}, 1), ("fedkws_ui", {}, 50)],
)
def test_a_device_takes_the_passes_or_steps_that_were_asked_for(bundles, method, changes, steps):
    of, taken = task(bundles, method, **changes), []
    training = SHARED_METHODS[method].prepare(of)

    def targets(x, labels):
        taken.append(len(x))
        return training.targets(x, labels)

    train_shared(of, dataclasses.replace(training, targets=targets), Rehearsal(of.clips.x[0][:0], np.zeros((0, 32))))
    assert taken == ([32, 8] * steps)[:steps]  # batches of 40 clips


def test_the_discrepancy_s_gradient_is_that_of_finite_differences(monkeypatch):
    rng = np.random.default_rng(4)
    local, fleet = (rng.normal(size=(5, 3)).astype(np.float32) for _ in range(2))
    widths = fedmmd._kernel_widths(local, fleet)
    monkeypatch.setattr(fedmmd, "_kernel_widths", lambda *_: widths)  # the gradient takes them for constants
    assert fedmmd.discrepancy(local, local) == pytest.approx(0.0, abs=1e-9)
    np.testing.assert_allclose(fedmmd.discrepancy_gradient(local, local), 0.0, atol=1e-6)
    gradient = fedmmd.discrepancy_gradient(local, fleet)
    for row, column in ((0, 0), (2, 1), (4, 2)):
        values = []
        for step in (1e-3, -1e-3):
            moved = local.astype(np.float64)
            moved[row, column] += step
            values.append(fedmmd.discrepancy(moved, fleet))
        assert gradient[row, column] == pytest.approx((values[0] - values[1]) / 2e-3, rel=1e-3, abs=1e-6)


def test_the_table_of_methods_names_every_method_and_setting():
    text = (ROOT / "docs" / "methods.md").read_text()
    for name, method in local_methods().items():
        assert all(f"`{word}`" in text for word in (name, *method.settings)), name


def test_both_sides_know_the_same_methods():
    for here, there in ((local_methods(), known_methods()), (personalisations(), known_personalisations())):
        assert {**here} == {name: replace(here[name], **vars(terms)) for name, terms in there.items()}
