"""A device's upload of a private round, as its training process makes it, and what the sum of its group says."""

import dataclasses

import numpy as np
import pytest

from edge_client.audio.recordings import Recordings
from edge_client.errors import WorkError
from edge_client.features.front_end import open_front_end
from fleet_protocol.messages.private_rounds import PrivatePlan
from fleet_protocol.messages.rest import Choice, ClassInfo
from fleet_protocol.numbers.tensors import unpack
from fleet_protocol.secure_sums.layouts import SumLayout
from tests.support.phrases import joined, write_takes
from tests.support.private_dealer import Dealer, Party
from tests.support.round_work import work_of
from tests.support.sounds import melody, public_set_of, write_clips
from tests.support.taught_device import Device

pytestmark = pytest.mark.slow

ORDER = Choice("prototype_mean", {"vote_cap": 3, "order": True, "corrections": False})


@pytest.fixture
def device(tmp_path, pretrained_bundle):
    made = Device(tmp_path, pretrained_bundle, training="teach_epochs = 8")
    for label, clips in (("yes", 4), ("stop", 2)):
        write_clips(made.clips, label, clips, seed=1)
    rng = np.random.default_rng(1)
    write_takes(
        made.clips, "no", [joined(*(melody(s, rng).astype(np.float32) for s in ("no", "up"))) for _ in range(2)]
    )
    made.settings = made.state.model.load(made.bundle).bundle.manifest.feature_settings
    return made


@pytest.fixture
def dealer(device, tmp_path):
    public = public_set_of(tmp_path / "public", ("yes", "no"), 6, device.settings)
    plan = dataclasses.replace(work_of("prototypes").plan, aggregation=ORDER, private=PrivatePlan(4))
    parties = [Party(device.state.folder), *(Party(tmp_path / f"other-{number}") for number in range(3))]
    classes = (ClassInfo("c5", "yes"), ClassInfo("c6", "no"), ClassInfo("c7", "down"))
    found = Dealer(parties, 3, plan, device.keep(public.pack()), classes).deal().share()
    parties[0].rounds.accept(found.to_contribute(parties[0]))
    return found


def sent(device, work) -> bytes:
    return device.state.outbox.read(device.state.outbox.update_path(work.round_id))


def test_the_sum_of_its_group_has_the_means_of_its_clips_and_its_upload_tells_nothing(device, dealer):
    work = dealer.to_contribute(dealer.parties[0])
    progress = device.do(work).progress
    assert progress.contributed == 3
    arrays, document = unpack(sent(device, work))
    assert document["classes"] == document["known"] == ["c5", "c6", "c7"]
    told = {name: document[name] for name in ("clips", "reports", "negatives", "metrics", "label_entropy")}
    assert told == {"clips": 0, "reports": [], "negatives": [], "metrics": {}, "label_entropy": 0.0}
    layout = SumLayout.of(work.plan, 3, device.settings.shape)
    assert {name: array.shape for name, array in arrays.items()} == {"masked": (layout.length,)}
    assert np.count_nonzero(arrays["masked"] == 0) < 5  # of many; without masks most were

    mine = arrays["masked"]
    others = {party.device_id: np.zeros(layout.length, np.uint32) for party in dealer.parties[1:]}
    dealer.collect(others)
    dealer.uploads[dealer.parties[0].device_id] = mine
    dealer.uploaded = dealer.taking_part
    sums = layout.read(dealer.sum())
    assert sums.devices[:, 0].tolist() == [1, 1, 0]
    assert sums.weights[:, 0].tolist() == [3, 2, 0]
    clips = Recordings(device.clips, device.settings)
    mean = open_front_end(device.settings)(clips.load(clips.clips("yes"))).mean(axis=0).ravel()
    np.testing.assert_allclose(sums.numbers[0, 0] / 3, mean, atol=1e-4)
    assert sums.devices[1].sum() > 1  # windows before the end of a long word
    assert 0.5 < sums.lengths[1] / 2 <= 4.0
    assert sums.lengths[[0, 2]].tolist() == [0, 0]


def test_repeated_work_sends_the_same_upload_although_clips_came_meanwhile_and_a_lost_one_is_not_made_again(
    device, dealer
):
    work = dealer.to_contribute(dealer.parties[0])
    device.do(work)
    upload = sent(device, work)
    write_clips(device.clips, "yes", 2, seed=9)
    device.do(work)
    assert sent(device, work) == upload
    device.state.outbox.update_path(3).unlink()
    with pytest.raises(WorkError, match="made its only upload before"):
        device.do(work)
    assert sent(device, work) is None
