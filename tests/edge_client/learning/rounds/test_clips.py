"""The public set as a device's model takes it: its slots, its normalisation, and no impressions of what it has."""

import numpy as np

from edge_client.learning.methods.registry import shared_model_method
from edge_client.learning.rounds.clips import public_clips
from edge_client.learning.rounds.job import RoundContext
from edge_client.learning.rounds.weight_sharing import WeightSharing
from edge_client.learning.training_data import Clips
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.bundle import read_bundle
from fleet_protocol.labels import LabelMap, Slot
from fleet_protocol.messages import ClassInfo
from fleet_protocol.public_set import PublicSet
from tests.support.round_work import work_of


def test_public_rows_have_the_device_s_slots_and_no_impressions_of_classes_that_it_has_clips_of(bundles):
    bundle = read_bundle(bundles["ann3"])
    model = ModelRuntime.open(bundles["ann3"])
    x = np.random.default_rng(0).standard_normal((6, *model.manifest.input_shape)).astype(np.float32)
    classes = tuple(ClassInfo(f"c{number}", f"c{number}") for number in range(4))
    labels, synthetic = np.array([0, 1, 2, 3, 0, 3]), np.array([0, 0, 0, 1, 1, 1], np.bool_)
    public = PublicSet(bundle.manifest.feature_settings, classes, x, labels, synthetic)
    label_map = LabelMap(32, (Slot("kettle"), Slot("d", "c3"), Slot("a", "c0"), Slot("c", "c2")))
    method = shared_model_method("fedavg")
    job = WeightSharing(method, model, label_map, work_of(), RoundContext(public, None, bundle), "1" * 32, model)
    own = Clips(np.zeros((1, 2, *model.manifest.input_shape), np.float32), np.array([2, 2]))
    found = public_clips(job, own)
    assert found.slots.tolist() == [2, 3, 1, 1]  # class 1 has no slot, and of class 0 there are clips
    np.testing.assert_array_equal(found.x[0], model.normalise(x[[0, 2, 3, 5]]))
