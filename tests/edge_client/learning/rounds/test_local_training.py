"""A local method's task: which outputs are trained, and what keeps the other classes from being forgotten."""

import numpy as np
import pytest

from edge_client.learning.class_links import SlotOrder
from edge_client.learning.rounds.local_training import LocalTask, PublicRows, prepare_task
from edge_client.learning.training_data import Clips
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.bundle.labels import LabelMap, Slot
from tests.support.round_work import work_of

# Recordings of the fleet's classes 0 and 1, data impressions of its classes 2 and 3.
LABELS = np.array([0, 1, 2, 3])
SYNTHETIC = np.array([False, False, True, True])


def prepared(bundles, *, trained=True, slots=(2, 2), **settings):
    """A device that knows the classes 0 and 2 of four, and a label that is no class yet."""
    model = ModelRuntime.open(bundles["ann3"])
    rng = np.random.default_rng(0)
    x0 = rng.standard_normal((4, *model.manifest.input_shape)).astype(np.float32)
    label_map = LabelMap(32, (Slot("a", "c0"), Slot("c", "c2"), Slot("kettle")))
    clips = Clips(rng.standard_normal((1, len(slots), *model.manifest.input_shape), np.float32), np.array(slots))
    order = SlotOrder.of(label_map, ("c0", "c1", "c2", "c3"), 32)
    whole = LocalTask(
        shared=model,
        own=model,
        order=order,
        mask=order.mask(),
        clips=clips,
        own_clips=clips,
        settings=work_of(**settings).plan.local.settings,
        rng=rng,
    )
    public = PublicRows(model, x0, LABELS, SYNTHETIC, trained=trained)
    return model, x0, public, *prepare_task(whole, public)


def on(mask):
    return np.flatnonzero(mask).tolist()


@pytest.mark.parametrize("trained", [False, True])
def test_recordings_and_impressions_of_absent_classes_are_rehearsed_as_what_they_are(bundles, trained):
    model, x0, _, task, rehearsal = prepared(bundles, rehearsal=0.5, trained=trained)
    assert on(task.mask) == [0, 1, 2, 3]  # the label that is no class has no clips
    np.testing.assert_array_equal(rehearsal.x, x0[[0, 1, 3]])  # of class 2 the device has clips
    wanted = np.eye(32, dtype=np.float32)[[0, 1, 3]]
    if trained:  # of the classes 2 and 3 nobody has a recording: labels of the others say nothing of them
        answers = model.predict(x0[:2], task.mask)
        assert (answers[:, 2:4] > 0.01).all()
        wanted[:2] *= 1 - answers[:, [2, 3]].sum(axis=1, keepdims=True)
        wanted[:2, 2:4] = answers[:, 2:4]
    np.testing.assert_allclose(rehearsal.targets, 0.5 * wanted, rtol=1e-5)
    assert rehearsal.targets.sum() == pytest.approx(1.5)


def test_recordings_are_rehearsed_by_the_fleet_s_opinion_where_the_plan_says_so(bundles):
    model, x0, _, task, rehearsal = prepared(bundles, rehearsal=0.5, rehearsal_by="opinion")
    np.testing.assert_array_equal(rehearsal.x, x0[[0, 1, 3]])
    np.testing.assert_array_equal(rehearsal.targets[:2], 0.5 * model.predict(x0[:2], task.mask))
    assert rehearsal.targets[2, 3] == 0.5 == rehearsal.targets[2].sum()


@pytest.mark.parametrize(
    ("how", "mask", "rows"),
    [
        ({"trained": False, "rehearsal_by": "opinion"}, [2, 3], 1),  # the fleet has none on recordings yet
        ({"rehearsal": 0.0}, [2], 0),
        ({"rehearsal": 0.0, "restrict": False}, [0, 1, 2, 3, 4], 0),
        ({"slots": (2, 4)}, [0, 1, 2, 3, 4], 3),  # clips of the label that is no class
    ],
)
def test_outputs_for_which_nothing_speaks_are_left_alone(bundles, how, mask, rows):
    _, _, _, task, rehearsal = prepared(bundles, **how)
    assert on(task.mask) == mask
    assert len(rehearsal.x) == len(rehearsal.targets) == rows
    assert not rehearsal.targets[:, 4:].any()  # the fleet's model has no opinion on what is no class
