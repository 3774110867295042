"""Group-balanced personalisation as rounds: who is asked when, where each goes on from, and what outlives what."""

from dataclasses import asdict

import numpy as np
import pytest

from aggregator_server.rounds.devices.work import acknowledge
from aggregator_server.rounds.replies import describe_round, summarise_round
from aggregator_server.schemas import RoundRequest
from aggregator_server.strategies.plans import make_plan
from fleet_protocol.messages.rest import Choice, Learned
from fleet_protocol.numbers.tensors import unpack
from tests.support.aggregator_process import SharingDevice
from tests.support.core_fleet import SAMPLES, CoreFleet, refusal

# Two devices with few clips, one with many; two rounds among the small ones, one for the large.
CLIPS = {1: 10, 2: 10, 3: 4000}
GROUPS = Choice("group_balanced", {"groups": 2, "most_rounds": 2, "least_rounds": 1})


class WeightDevice(SharingDevice):
    """A device whose training adds its number to the first weight, and makes all others 0."""

    def arrays(self, work, samples):
        weights = {name: np.zeros_like(array) for name, array in super().arrays(work, samples).items()}
        weights["weights/body/kernel"][0, 0] = work["start"] + self.number
        return weights


class WeightFleet(CoreFleet):
    def __init__(self, folder):
        super().__init__(folder, [WeightDevice(number, ("c0", "c1")) for number in CLIPS])
        self.publish_model()

    def open(self, now=100.0, **request):
        return super().open(now, "fedavg", **request)

    def weight(self, sha256):
        """The first weight in a blob of weights; 0 in place of the bundle's."""
        return 0.0 if sha256 is None else float(unpack(self.store.blobs.read(sha256))[0]["body/kernel"][0, 0])

    def body(self, device, work):
        start = {"start": self.weight(work.weights)}
        return device.upload(asdict(work) | start, SAMPLES, clips=CLIPS[device.number])


@pytest.fixture
def fleet(tmp_path):
    made = WeightFleet(tmp_path)
    yield made
    made.store.close()


def contribute(fleet, *devices):
    """Let devices upload; return the round's number."""
    for device in devices:
        work = fleet.work(device)
        assert work is not None
        assert work.kind == "contribute"
        fleet.send(device, work.round_id, fleet.body(device, work))
    return fleet.advance()


def learn(fleet, device):
    """Let a device learn what it is asked to; return (round, whether it fine-tuned)."""
    work = fleet.work(device)
    assert work.kind == "learn"
    acknowledge(fleet.store, device.device_id, Learned(work.round_id, {}, personalised=work.fine_tune))
    return work.round_id, work.fine_tune


def test_small_groups_train_among_themselves_first_and_every_device_fine_tunes_once_its_group_is_done(fleet):
    small, other, large = fleet.devices
    fleet.open(personalisation=GROUPS)
    assert contribute(fleet, small, other, large) == 1
    first = describe_round(fleet.store, 1)
    assert first.groups == ((small.device_id, other.device_id), (large.device_id,))
    assert first.group_rounds == (2, 1)
    assert [learn(fleet, device) for device in fleet.devices] == [(1, False)] * 3

    assert fleet.work(large) is None  # the small ones' round is none of its business
    assert contribute(fleet, small, other) == 2
    assert (summarise_round(fleet.store, 2).follows, summarise_round(fleet.store, 2).group) == (1, 0)
    assert [learn(fleet, device) for device in (small, other)] == [(2, False)] * 2
    assert contribute(fleet, small, other) == 3
    assert [learn(fleet, device) for device in (small, other)] == [(3, True)] * 2

    assert summarise_round(fleet.store, 4).group == 1
    assert contribute(fleet, large) == 4
    assert learn(fleet, large) == (4, True)
    assert [fleet.work(device) for device in fleet.devices] == [None] * 3
    fleet.open(now=900.0)  # the phase is over: the fleet's next round
    assert summarise_round(fleet.store, 5).follows is None
    assert summarise_round(fleet.store, 5).selected == 3


def test_a_group_goes_on_from_its_own_last_round_and_the_fleet_from_the_fleet_s(fleet):
    large = fleet.devices[2]
    fleet.open(personalisation=GROUPS)
    contribute(fleet, *fleet.devices)
    fleets = describe_round(fleet.store, 1).result_weights
    started = {}
    for _ in range(3):
        for device in fleet.devices:
            while (work := fleet.work(device)) is not None and work.kind == "learn":
                learn(fleet, device)
            if work is not None:
                started[work.round_id] = fleet.weight(work.weights)
                fleet.send(device, work.round_id, fleet.body(device, work))
        fleet.advance()
    assert started == pytest.approx({2: fleet.weight(fleets), 3: fleet.weight(fleets) + 1.5, 4: fleet.weight(fleets)})
    work = fleet.work(large)
    assert (work.fleet_weights, fleet.weight(work.weights)) == (fleets, pytest.approx(fleet.weight(fleets) + 3))
    fleet.open(now=900.0)
    for device in fleet.devices:
        while (work := fleet.work(device)).kind == "learn":
            learn(fleet, device)
        assert work.weights == fleets


def test_a_group_without_rounds_and_a_device_that_came_later_fine_tune_at_once(fleet):
    small, other, large = fleet.devices
    fleet.open(personalisation=Choice("group_balanced", {"groups": 2, "most_rounds": 1}))
    contribute(fleet, *fleet.devices)
    late = WeightDevice(9, ("c0",))
    fleet.enrol(late)
    assert learn(fleet, large) == (1, True)
    assert learn(fleet, late) == (1, True)
    assert learn(fleet, small) == (1, False)
    learn(fleet, other)
    assert contribute(fleet, small, other) == 2
    assert fleet.advance() is None
    assert learn(fleet, small) == (2, True)


def test_a_group_that_misses_its_quorum_is_passed_over_and_its_devices_fine_tune_what_there_is(fleet):
    small, other, large = fleet.devices
    fleet.open(personalisation=GROUPS, deadline_s=50)
    contribute(fleet, *fleet.devices)
    for device in fleet.devices:
        learn(fleet, device)
    assert contribute(fleet, small, other) == 2
    learn(fleet, small)
    assert fleet.advance(now=500.0) == 3
    assert summarise_round(fleet.store, 3).state == "failed"
    assert learn(fleet, small) == (2, True)  # asked once more: no further round of its group comes
    assert learn(fleet, other) == (2, True)
    assert contribute(fleet, large) == 4


def test_devices_fine_tune_what_they_share_unless_a_request_says_otherwise_and_groups_need_a_model_to_share():
    assert make_plan(RoundRequest("fedavg")).personalisation.settings["labels"] is True
    for request in (RoundRequest("fedavg", personalisation=Choice("none")), RoundRequest("zero_shot")):
        assert make_plan(request).personalisation == Choice("none")
    with refusal("invalid_plan", r"'zero_shot' shares no model.*local, none"):
        make_plan(RoundRequest("zero_shot", personalisation=GROUPS))
    assert make_plan(RoundRequest("zero_shot", personalisation=Choice("local"))).personalisation.name == "local"
    assert make_plan(RoundRequest("fedmlac", personalisation=GROUPS)).personalisation.name == "group_balanced"
