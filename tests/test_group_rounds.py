"""Group-balanced personalisation as rounds: who is asked when, where each goes on from, and what outlives what."""

from dataclasses import asdict

import pytest
from aggregator_process import FakeDevice
from core_fleet import SAMPLES, CoreFleet

from aggregator_server.devices import revoke
from aggregator_server.lineage import Group, origin
from aggregator_server.replies import Method
from aggregator_server.round_views import describe_round, summarise_round
from aggregator_server.rounds import cancel_round
from aggregator_server.work import acknowledge
from fleet_protocol.messages import Learned

# Two devices with few clips, one with many; two rounds among the small ones, one for the large.
CLIPS = {1: 10, 2: 12, 3: 4000}
GROUPS = Method("group_balanced", {"groups": 2, "most_rounds": 2, "least_rounds": 1})


@pytest.fixture
def fleet(tmp_path):
    made = CoreFleet(tmp_path, [FakeDevice(number, ("c0", "c1")) for number in CLIPS])
    yield made
    made.store.close()


def contribute(fleet, *devices):
    """Let devices upload; return the round's number."""
    for device in devices:
        work = fleet.work(device)
        assert work is not None
        assert work.kind == "contribute"
        body = device.upload(asdict(work), SAMPLES, clips=CLIPS[device.number])
        fleet.send(device, work.round_id, body)
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
    small, other, large = fleet.devices
    members = (small.device_id, other.device_id)
    with fleet.store.reading() as session:
        assert origin(session, None) is None
    fleet.open(personalisation=GROUPS)
    contribute(fleet, *fleet.devices)
    for device in fleet.devices:
        learn(fleet, device)
    contribute(fleet, small, other)
    with fleet.store.reading() as session:
        assert origin(session, Group(1, 0, members)).round_id == 2
        assert origin(session, Group(1, 1, (large.device_id,))).round_id == 1
        assert origin(session, None).round_id == 1


def test_a_group_without_rounds_and_a_device_that_came_later_fine_tune_at_once(fleet):
    small, other, large = fleet.devices
    fleet.open(personalisation=Method("group_balanced", {"groups": 2, "most_rounds": 1}))
    contribute(fleet, *fleet.devices)
    late = FakeDevice(9, ("c0",))
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


def test_a_cancelled_group_round_ends_the_phase(fleet):
    fleet.open(personalisation=GROUPS)
    contribute(fleet, *fleet.devices)
    for device in fleet.devices:
        learn(fleet, device)
    cancel_round(fleet.store, 2, 104.0)
    assert fleet.advance() is None
    assert [learn(fleet, device) for device in fleet.devices] == [(1, True)] * 3
    fleet.open(now=900.0)


def test_a_failed_round_of_the_fleet_has_no_groups_and_local_fine_tuning_needs_none(fleet):
    fleet.open(personalisation=GROUPS, deadline_s=50)
    assert fleet.advance(now=500.0) == 1
    assert fleet.advance(now=501.0) is None
    fleet.open(now=600.0, personalisation=Method("local"))
    for device in fleet.devices:
        fleet.upload(device, now=601.0)
    assert fleet.advance(now=602.0) == 2
    assert [learn(fleet, device) for device in fleet.devices] == [(2, True)] * 3
    assert describe_round(fleet.store, 2).participants[0].personalised


def test_every_device_revoked_ends_a_phase_too(fleet):
    small, other, large = fleet.devices
    fleet.open(personalisation=GROUPS)
    contribute(fleet, *fleet.devices)
    for device in (small, other):
        revoke(fleet.store, device.device_id, 104.0)
    assert fleet.advance() == 2
    assert fleet.advance() == 3
    assert learn(fleet, large) == (1, False)
    assert contribute(fleet, large) == 4
    assert learn(fleet, large) == (4, True)
