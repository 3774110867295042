"""What a device uploads in a round of prototypes: the means of its clips, with the plan's noise."""

import numpy as np
import pytest

from aggregator_server.rounds.plan import make_plan
from aggregator_server.schemas import RoundRequest
from edge_client.learning.rounds.prototype_sharing import PrototypeRound
from fleet_protocol.atomic_files import write_durably
from fleet_protocol.bundle import read_bundle
from fleet_protocol.messages import ClassInfo, Work
from fleet_protocol.public_set import PublicSet
from fleet_protocol.ready_bundles import find_bundle
from fleet_protocol.tensors import digest, unpack
from tests.support.sounds import write_clips
from tests.support.taught_device import Device

CLASSES = (ClassInfo("c0", "yes"), ClassInfo("c1", "no"))


@pytest.fixture
def device(tmp_path):
    made = Device(tmp_path, find_bundle("base"))
    for seed, label in enumerate(("yes", "no")):
        write_clips(made.clips, label, 4, seed=seed)
    return made


def upload(device, round_id, **settings):
    statistics = read_bundle(device.bundle).manifest.embedding_statistics
    features = np.asarray(statistics.means[:2, None])
    saved = device.state.model.load(device.bundle)
    blob = PublicSet(
        saved.bundle.manifest.feature_settings, CLASSES, features, np.arange(2), np.zeros(2, np.bool_)
    ).pack()
    name = digest(blob)
    write_durably(device.state.blobs.path(name), blob)
    plan = make_plan(RoundRequest("prototypes", settings=settings))
    work = Work(kind="contribute", round_id=round_id, plan=plan, public_set=name, consensus=None, classes=CLASSES)
    PrototypeRound(device.config, device.state, saved, work).contribute()
    arrays, document = unpack(device.state.outbox.read(device.state.outbox.update_path(round_id)))
    assert arrays["counts"].shape == (2,)
    return dict(zip(document["known"], arrays["prototypes"], strict=True))


def test_the_same_clips_get_the_same_noise_in_every_round_and_others_get_other_noise(device):
    plain, first, second = upload(device, 1), upload(device, 2, noise=0.5), upload(device, 3, noise=0.5)
    whitening = read_bundle(device.bundle).manifest.embedding_statistics.whitening
    assert set(plain) == {"c0", "c1"}
    for class_id, mean in plain.items():
        np.testing.assert_array_equal(first[class_id], second[class_id])
        # 64 numbers with a standard deviation of 0.5 x 2 x 10 / 4, and what clipping moved
        assert np.linalg.norm((first[class_id] - mean) @ whitening) > 8 * 0.75 * 2.5

    write_clips(device.clips, "no", 1, seed=9)
    third = upload(device, 4, noise=0.5)
    np.testing.assert_array_equal(third["c0"], first["c0"])
    assert not np.allclose(third["c1"], first["c1"], atol=0.5)
