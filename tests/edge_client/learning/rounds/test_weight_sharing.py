"""What a device with a model of its own makes of the plug-in that it shared."""

import dataclasses

import numpy as np
import pytest

from edge_client.learning.methods.local_method import local_methods
from edge_client.learning.rounds.client_update import RoundContext
from edge_client.learning.rounds.weight_sharing import WeightSharing
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.bundle.bundle_file import read_bundle
from fleet_protocol.bundle.labels import LabelMap, Slot
from fleet_protocol.messages.public_set import PublicSet
from fleet_protocol.messages.rest import ClassInfo
from tests.support.round_work import work_of

CLASSES = tuple(ClassInfo(f"c{number}", f"c{number}") for number in range(3))
OWN = LabelMap(32, (Slot("b", "c1"), Slot("a", "c0")))


def learned(bundles, own, label_map=OWN, *, fine_tune=True):
    """A device after it applied a round's result: the job, the fleet's weights, and the device's own before."""
    bundle, model = read_bundle(bundles["cnn1"]), ModelRuntime.open(bundles[own])
    fleets = {name: array + 1 for name, array in bundle.weights.items()}
    x = np.zeros((3, *model.manifest.input_shape), np.float32)
    public = PublicSet(bundle.manifest.feature_settings, CLASSES, x, np.arange(3), np.zeros(3, np.bool_))
    work = dataclasses.replace(work_of("fedmlac"), kind="learn", classes=CLASSES, fine_tune=fine_tune)
    context = RoundContext(public, None, dataclasses.replace(bundle, weights=fleets), trained=True)
    method = local_methods()["fedmlac"]
    job = WeightSharing(method, model, label_map, work, context, "1" * 32, ModelRuntime(context.model))
    before = model.get_weights()
    job.apply_result(adopt={info.class_id for info in CLASSES})
    return job, fleets, before


def same(weights, others):
    return all(np.array_equal(weights[name], others[name]) for name in weights)


def test_a_plug_in_of_the_device_s_architecture_is_what_it_may_listen_with(bundles):
    job, fleets, before = learned(bundles, "cnn1")
    assert job.label_map.class_ids == ("c1", "c0", "c2")
    assert same(job.own_weights, before)
    head = job.model.manifest.head.weights
    for name, array in job.model.get_weights().items():
        wanted = fleets[name][..., [1, 0, 2]] if name in head else fleets[name]
        np.testing.assert_array_equal(array[..., :3] if name in head else array, wanted)


@pytest.mark.parametrize(
    ("own", "label_map", "classes"),
    [
        ("cnn2", OWN, 3),  # another architecture
        ("cnn1", OWN.add("kettle"), 4),  # a label that the fleet does not know
    ],
)
def test_else_its_own_model_takes_up_the_classes_and_is_fine_tuned(bundles, own, label_map, classes):
    job, _, before = learned(bundles, own, label_map)
    assert len(job.label_map.slots) == classes
    assert job.own_weights is None
    assert same(job.model.get_weights(), before)
    unchanged, _, before = learned(bundles, own, label_map, fine_tune=False)
    assert (unchanged.label_map, unchanged.own_weights) == (label_map, None)
    assert same(unchanged.model.get_weights(), before)
