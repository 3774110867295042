"""What a device adds to its group's sum where a network is trained: the same as its plain upload says."""

import dataclasses

import numpy as np
import pytest

from aggregator_server.aggregation.alpha_update import alpha_update
from aggregator_server.aggregation.label_wise_beta import DeviceScores, label_wise
from edge_client.learning.methods.local_method import local_methods
from edge_client.learning.rounds.client_update import RoundContext
from edge_client.learning.rounds.score_sharing import ScoreSharing
from edge_client.learning.rounds.weight_sharing import WeightSharing
from edge_client.learning.training_data import Clips
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.bundle.bundle_file import read_bundle
from fleet_protocol.bundle.labels import LabelMap, Slot
from fleet_protocol.messages.private_rounds import PrivatePlan
from fleet_protocol.messages.public_set import PublicSet
from fleet_protocol.messages.rest import Choice, ClassInfo
from fleet_protocol.secure_sums.layouts import ScoreLayout, WeightLayout
from tests.support.round_work import work_of

CLASSES = tuple(ClassInfo(f"c{number}", f"word {number}") for number in range(3))
QUICK = {"impression_steps": 2, "impressions": 2, "epochs": 12}


@pytest.fixture
def bundle(bundles):
    return read_bundle(bundles["cnn1"])


def sounds(bundle, labels, seed):
    """Pictures that differ by label, float32 [clips, frames, numbers]."""
    centres = np.random.default_rng(0).normal(size=(4, *bundle.manifest.input_shape))
    rng = np.random.default_rng(seed)
    return (centres[labels] + rng.normal(size=(len(labels), *bundle.manifest.input_shape)) * 0.5).astype(np.float32)


def work(method):
    found = work_of(method, **QUICK)
    aggregation = Choice("label_wise", {"above_chance": True})
    plan = dataclasses.replace(found.plan, private=PrivatePlan(4), aggregation=aggregation)
    return dataclasses.replace(found, plan=plan, classes=CLASSES)


def public(bundle, rows=12):
    labels = np.arange(rows) % 3
    features = sounds(bundle, labels, 1)
    return PublicSet(bundle.manifest.feature_settings, CLASSES, features, labels, np.zeros(rows, np.bool_))


def test_its_weights_moved_as_its_upload_says_but_for_a_new_sounds_column(bundle, bundles):
    labels = LabelMap(bundle.manifest.capacity, (Slot("b", "c1"), Slot("a", "c0"), Slot("kettle")))
    clips = Clips(sounds(bundle, np.array([1, 1, 0, 0, 3, 3]), 2)[None], np.array([0, 0, 1, 1, 2, 2]))
    model = ModelRuntime.open(bundles["cnn1"])
    context = RoundContext(public(bundle), None, bundle)
    job = WeightSharing(
        local_methods()["fedavg"], model, labels, work("fedavg"), context, "1" * 32, ModelRuntime(bundle)
    )
    update, arrays = job.contribute(clips, share_names=False)
    assert [report.slot for report in update.reports] == [2]
    before, layout = bundle.weights, WeightLayout.of(job.work.plan, bundle.manifest.weight_shapes)
    found = layout.mean(job.to_sum(clips, arrays), 1, before)
    for name in before:
        sent = arrays[f"weights/{name}"]
        if name in bundle.manifest.head.weights:
            assert not np.array_equal(sent[..., 3], before[name][..., 3])
            sent = np.concatenate([sent[..., :3], before[name][..., 3:]], axis=-1)
        np.testing.assert_allclose(found[name], sent, atol=2e-6)
        assert not np.array_equal(found[name], before[name])


@pytest.mark.parametrize("is_first", [True, False])
def test_the_sum_of_devices_scores_is_what_the_aggregator_makes_of_their_uploads(bundle, bundles, is_first):
    seen, plan = public(bundle), work("zero_shot").plan
    consensus = np.zeros((12, 3), np.float32) if is_first else np.eye(3, dtype=np.float32)[seen.labels] * 0.2
    layout, total, devices = ScoreLayout.of(plan, 3, 12), 0, []
    for number, owned in enumerate(((0, 1), (1, 2), (1, 0))):
        labels = LabelMap(bundle.manifest.capacity, tuple(Slot(f"word {one}", f"c{one}") for one in owned))
        slots = np.array([0, 1, 0, 1][: 2 + number])
        clips = Clips(sounds(bundle, np.array(owned)[slots], number)[None], slots)
        context = RoundContext(seen, None if is_first else consensus)
        job = ScoreSharing(ModelRuntime.open(bundles["cnn1"]), labels, work("zero_shot"), context, str(number) * 32)
        update, arrays = job.contribute(clips, share_names=False)
        total = total + job.to_sum(clips, arrays)
        columns = np.array(owned)
        own = alpha_update(arrays["scores"], consensus[:, columns], update.clips)
        devices.append(DeviceScores(update.device_id, columns, own))
    plain = label_wise(devices, seen.labels, seen.synthetic, consensus, above_chance=True)
    found = layout.read(total)
    np.testing.assert_array_equal(found.devices, [2, 3, 1])
    np.testing.assert_allclose(consensus + found.scores / found.betas, plain.scores, atol=5e-4)
