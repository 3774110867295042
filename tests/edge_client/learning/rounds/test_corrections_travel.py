"""A correction from one device's clip store to what another one hears, through the aggregation, without a server."""

import pytest

from aggregator_server.aggregation.contract import Contribution
from aggregator_server.schemas import RoundRequest
from aggregator_server.strategies.plans import make_plan
from edge_client.clips.folders import rejected
from fleet_protocol.bundle.bundle_file import read_bundle
from fleet_protocol.bundle.ready_bundles import find_bundle
from fleet_protocol.messages.rest import Update, parse
from fleet_protocol.numbers.tensors import unpack
from fleet_simulator.simulation.aggregator import Aggregator, FleetState, Uploads
from tests.support.edge_process import give_identity
from tests.support.sounds import public_set_of, write_clips
from tests.support.taught_device import Device, scores_of

pytestmark = pytest.mark.slow

BUNDLE = find_bundle("base")


class LocalFleet:
    """Devices with folders of their own, and an aggregator in memory."""

    def __init__(self, folder, **labels):
        settings = read_bundle(BUNDLE).manifest.feature_settings
        self.plan = make_plan(RoundRequest("prototypes"))
        public_set = public_set_of(folder / "public", ("yes", "no", "up"), 12, settings)
        self.aggregator = Aggregator("prototypes", self.plan, FleetState(public_set))
        self.devices = {}
        for seed, (name, of_device) in enumerate(labels.items()):
            (folder / name).mkdir()
            self.devices[name] = Device(folder / name, BUNDLE, training="teach_epochs = 20")
            give_identity(self.devices[name].config.device.state, name)
            for label in of_device:
                write_clips(self.devices[name].clips, label, 6, seed=seed)

    def run_round(self, round_id):
        """Have all devices contribute and learn, none of which has a new sound; return the result."""
        work, state = self.aggregator.work("contribute", round_id, self.plan), self.aggregator.state
        sent = []
        for device in self.devices.values():
            device.keep(state.public_set.pack())
            device.do(work)
            arrays, document = unpack(device.state.outbox.read(device.state.outbox.update_path(round_id)))
            sent.append(Contribution(parse(Update, document), lambda arrays=arrays: arrays))
        result, _ = self.aggregator.close(work, Uploads(sent))
        assert result.assignments == ()
        work = self.aggregator.work("learn", round_id, self.plan)
        for device in self.devices.values():
            device.keep(state.prototypes.pack())
            device.do(work)
        return result


def score(device, label, sound):
    """The mean score that a device gives a label on clips of a sound that no device has."""
    saved = device.state.model.load(BUNDLE)
    return float(scores_of(saved, sound)[:, saved.progress.listening_labels.slot_of(label)].mean())


def deny(device, label, sound, count, seed=70):
    write_clips(device.clips, sound, count, seed=seed, name=rejected(label))


def test_a_confusion_that_one_owner_cleared_up_is_cleared_up_on_a_device_that_was_never_told(tmp_path):
    fleet = LocalFleet(tmp_path, owner=("no", "up"), other=("yes", "up"))
    assert fleet.run_round(1).prototypes.negatives is None
    other = fleet.devices["other"]
    before = score(other, "up", "zip")
    own = score(other, "up", "up"), score(other, "yes", "yes")
    assert before > 0.3
    deny(fleet.devices["owner"], "up", "zip", 1)
    assert fleet.run_round(2).prototypes.negatives.class_ids == ("up",)
    assert score(other, "up", "zip") < before / 3
    assert score(other, "up", "up") > own[0] - 0.05
    assert score(other, "yes", "yes") > own[1] - 0.05


def test_a_device_that_was_taught_the_sound_keeps_it_whoever_says_that_it_is_nothing(tmp_path):
    fleet = LocalFleet(tmp_path, owner=("no", "up"), other=("yes", "up", "zip"))
    owner, other = fleet.devices.values()
    other.teach()
    before = score(other, "zip", "zip")
    deny(owner, "up", "zip", 3)
    work = fleet.aggregator.work("contribute", 1, fleet.plan)
    owner.keep(fleet.aggregator.state.public_set.pack())
    owner.do(work)
    outbox = owner.state.outbox
    arrays, document = unpack(outbox.read(outbox.update_path(1)))
    fleet.aggregator.close(work, Uploads([Contribution(parse(Update, document), lambda: arrays)]))
    for blob in (fleet.aggregator.state.public_set.pack(), fleet.aggregator.state.prototypes.pack()):
        other.keep(blob)
    assert fleet.aggregator.state.prototypes.negatives.class_ids == ("up",)
    other.do(fleet.aggregator.work("learn", 1, fleet.plan))
    assert score(other, "zip", "zip") > before - 0.05 > 0.7


def test_three_devices_of_ten_that_deny_a_word_itself_take_it_from_nobody(tmp_path):
    names = [f"honest{number}" for number in range(7)] + [f"liar{number}" for number in range(3)]
    fleet = LocalFleet(tmp_path, **dict.fromkeys(names, ("yes", "up")))
    for number in range(3):
        deny(fleet.devices[f"liar{number}"], "up", "up", 12, seed=80 + number)
    result = fleet.run_round(1)
    assert result.prototypes.devices.tolist() == [10, 10]
    assert result.state["negative_counts"].tolist() == [12.0] * 3
    assert min(score(fleet.devices[name], "up", "up") for name in names[:7]) > 0.85
