"""Private rounds through the core: stages, who drops out, what is refused; and that sums are the plain ones."""

from dataclasses import replace

import numpy as np
import pytest

from aggregator_server.aggregation.rule import Choice
from aggregator_server.errors import RefusedError
from aggregator_server.fleet.class_details import list_class_history
from aggregator_server.fleet.devices import describe_device
from aggregator_server.limits import SUSPICION_IN_GROUPS
from aggregator_server.rounds.lifecycle import cancel_round
from aggregator_server.rounds.replies import describe_round
from aggregator_server.schemas import PrivateRequest
from aggregator_server.store.tables import PrivatePartRow, PrivateRoundRow, RoundRow
from tests.support.core_fleet import quiet, refusal
from tests.support.embedded_words import CENTRES, WORDS, PrototypeDevice
from tests.support.private_device import PrivateDevice
from tests.support.private_fleet import PrivateCoreFleet, plain_means, private_devices

MEAN = {"centre": "mean"}


@pytest.fixture
def fleet_of(tmp_path):
    made = []

    def make(*devices):
        made.append(PrivateCoreFleet(tmp_path, list(devices)))
        return made[0]

    yield make
    for fleet in made:
        fleet.store.close()


@pytest.fixture
def nine(fleet_of):
    return fleet_of(*private_devices(9))


def result(fleet, round_id):
    """The fleet's prototypes after a round, by class."""
    detail = describe_round(fleet.store, round_id)
    assert detail.summary.state == "done", detail.summary.reason
    found = fleet.prototypes(detail.result_prototypes)
    return dict(zip(found.class_ids, found.means[:, 0], strict=True)), found


def require_plain(means, devices):
    wanted = plain_means(devices)
    assert set(means) == set(wanted)
    for class_id, mean in means.items():
        np.testing.assert_allclose(mean, wanted[class_id], atol=2e-5)


def rows_left(fleet):
    with fleet.store.reading() as session:
        return [*session.query(PrivatePartRow), *session.query(PrivateRoundRow)]


def test_nine_devices_of_which_three_go_after_their_shares_come_to_the_plain_sum_of_six(nine):
    round_id = nine.open_private()
    assert nine.play(uploading=6) == round_id
    require_plain(result(nine, round_id)[0], nine.devices[:6])
    shown = describe_round(nine.store, round_id)
    assert [(len(group.devices), group.outcome) for group in shown.private.groups] == [(9, "6 of 9 devices")]
    assert (shown.private.stage, rows_left(nine)) == (None, [])
    assert [one.upload is not None for one in shown.participants] == [True] * 6 + [False] * 3
    assert not {one.upload for one in shown.participants} & set(nine.store.blobs.digests())
    assert all(nine.work(device, 700.0).kind == "learn" for device in nine.devices)


def test_groups_are_combined_as_devices_are_and_each_counts_once(fleet_of):
    fleet = fleet_of(*private_devices(13))
    round_id = fleet.open_private(groups=6, aggregation=MEAN)
    assert fleet.play() == round_id
    means, found = result(fleet, round_id)
    require_plain(means, fleet.devices)
    assert found.devices.max() <= 2
    groups = describe_round(
        fleet.store, round_id
    ).private.groups  # two: of three, an honest one stands out by some deals
    assert sorted(len(group.devices) for group in groups) == [6, 7]
    assert {one for group in groups for one in group.devices} == {device.device_id for device in fleet.devices}


def test_the_groups_are_dealt_anew_in_each_round(fleet_of):
    fleet, seen = fleet_of(*private_devices(16)), set()  # of whose 63 million deals two are hardly ever the same
    for now in (100.0, 200.0, 300.0):
        fleet.open_private(now, groups=4)
        groups = describe_round(fleet.store, fleet.play(now + 1)).private.groups
        seen.add(tuple(tuple(sorted(group.devices)) for group in groups))
        for device in fleet.devices:
            fleet.learned(device, fleet.work(device, now + 2).round_id)
    assert len(seen) == 3


def test_each_stage_asks_those_who_answered_the_one_before_and_ends_in_time(nine):
    round_id = nine.open_private()
    for device in nine.devices[:8]:
        nine.answer(device)
    late = nine.devices[8]
    kept = nine.work(late)
    assert (kept.kind, nine.deadline()) == ("keys", 100 + 600 / 4)
    assert nine.advance(249.9) is None
    assert nine.work(nine.devices[0]) is None
    assert nine.advance(250.0) is None  # the stage is over, the round is not
    assert nine.deadline() == 100 + 600 / 2
    with refusal("stage_over", "in its stage 'shares' and takes no keys"):
        nine.give(late, kept, late.answer(kept))
    assert nine.work(late) is None
    members = nine.work(nine.devices[0]).private.members
    assert sorted(one.device_id for one in members) == [device.device_id for device in nine.devices[:8]]
    assert nine.stage("shares", nine.devices[:7]) is None
    assert nine.advance(400.0) is None
    work = nine.work(nine.devices[0], 401.0)
    assert set(work.private.taking_part) == {device.device_id for device in nine.devices[:7]}
    assert set(work.private.shares) == set(work.private.taking_part) - {nine.devices[0].device_id}
    assert nine.work(nine.devices[7], 401.0) is None
    shown = describe_round(nine.store, round_id).private
    assert (shown.stage, shown.answered) == ("contribute", 0)


def test_too_few_for_a_group_and_groups_that_lost_too_many_end_the_round_with_the_reason(nine):
    too_few = nine.open_private()
    nine.stage("keys", nine.devices[:3])
    assert nine.advance(250.0) == too_few
    assert "3 sent keys of their own, 4 were needed" in describe_round(nine.store, too_few).summary.reason
    lost = nine.open_private(1000.0)
    for stage in ("keys", "shares"):
        nine.stage(stage, now=1001.0)
    nine.stage("contribute", nine.devices[:5], 1001.0)
    assert nine.advance(1000 + 600 * 7 / 8) == lost
    reason = describe_round(nine.store, lost).summary.reason
    assert "too many devices were lost for any group's sum (group 1: 5 of 9 devices uploaded)" in reason
    assert rows_left(nine) == []


def test_a_group_that_loses_too_many_is_left_out_and_the_others_go_on(fleet_of):
    fleet = fleet_of(*private_devices(8))
    round_id = fleet.open_private(groups=4, aggregation=MEAN, quorum=0.3)
    fleet.stage("keys")
    fleet.stage("shares")
    shown = describe_round(fleet.store, round_id).private.groups
    gone = set(shown[1].devices[:2])
    there = [device for device in fleet.devices if device.device_id not in gone]
    fleet.stage("contribute", there)
    fleet.advance(630.0)
    of_first = [device for device in fleet.devices if device.device_id in shown[0].devices]
    assert all(fleet.work(device, 631.0) is None for device in there if device not in of_first)
    assert fleet.stage("unmask", of_first, 631.0) == round_id
    require_plain(result(fleet, round_id)[0], of_first)
    outcomes = [group.outcome for group in describe_round(fleet.store, round_id).private.groups]
    assert outcomes == ["4 of 4 devices", "2 of 4 devices uploaded"]


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        ({"private": PrivateRequest(3)}, "have 4 to 128 devices, not 3"),
        ({"private": PrivateRequest(129)}, "have 4 to 128 devices, not 129"),
        ({"private": PrivateRequest(32)}, "needs 16 devices .* and 9 were found"),
        ({"personalisation": Choice("local")}, "has personalisation 'none', not 'local'"),
        ({"aggregation": {"corrections": True}}, "cannot have corrections = True"),
        ({"aggregation": {"vote_cap": 10_000}, "private": PrivateRequest(128)}, "ask for smaller groups"),
        ({"new_classes": 2}, "looks for no new sounds"),
    ],
)
def test_what_a_private_round_cannot_keep_is_refused_with_the_reason(nine, request_, said):
    with refusal("invalid_plan", said):
        nine.open(**({"strategy": "prototypes", "private": PrivateRequest(8)} | request_))
    with nine.store.reading() as session:
        assert session.query(RoundRow).count() == 0


def test_a_device_that_cannot_take_part_is_never_selected(fleet_of):
    unable = [PrototypeDevice(n, ("c0", "c1")) for n in (20, 21)]
    fleet = fleet_of(*private_devices(3), *unable)
    with refusal("invalid_plan", "and 3 were found; 2 others cannot take part in one: they need the extra `private`"):
        fleet.open_private()
    more = private_devices(1, 9)
    fleet.devices += more
    fleet.enrol(more[0])
    round_id = fleet.open_private()
    chosen = {one.device_id for one in describe_round(fleet.store, round_id).participants}
    assert chosen == {device.device_id for device in fleet.devices} - {device.device_id for device in unable}
    assert fleet.work(unable[0]) is None


def test_the_same_answer_twice_is_one_and_another_one_is_refused(nine):
    round_id = nine.open_private()
    first = nine.devices[0]
    for stage in ("keys", "shares", "contribute", "unmask"):
        work = nine.work(first)
        assert work.kind == stage
        answer = first.answer(work)
        nine.give(first, work, answer)
        nine.give(first, work, answer)
        if stage == "keys":
            other = replace(first, number=77).secret_of(round_id)
            changed = answer | {"mask_key": other.mask_key.hex()}
            with refusal("duplicate_update", "sent other keys for round 1 before; those stand"):
                nine.give(first, work, changed)
        nine.stage(stage, nine.devices[1:])
    assert describe_round(nine.store, round_id).summary.state == "done"
    with pytest.raises(RefusedError):
        nine.give(first, work, answer)


def test_what_people_taught_in_open_rounds_stays_and_is_not_counted_twice(fleet_of):
    fleet = fleet_of(*private_devices(9))
    fleet.devices = quiet(fleet.devices)
    opened = fleet.run_round(100.0, strategy="prototypes", learn=True)
    with fleet.store.reading() as session:
        votes = session.get_one(RoundRow, opened).result_server_state
    for device in fleet.devices:
        device.classes = ("c0", "c1")
    private = fleet.open_private(200.0)
    assert fleet.play(201.0) == private
    before, after = result(fleet, opened)[0], result(fleet, private)[0]
    assert set(before) == set(after) == {"c0", "c1", "c2", "c3"}
    assert all((before[one] == after[one]).all() for one in ("c2", "c3"))
    require_plain({one: after[one] for one in ("c0", "c1")}, fleet.devices)
    with fleet.store.reading() as session:
        assert session.get_one(RoundRow, private).result_server_state == votes
    assert all(entry.state == "active" for entry in list_class_history(fleet.store))


def test_a_round_that_is_cancelled_leaves_nothing_of_its_stages(nine):
    round_id = nine.open_private()
    nine.stage("keys")
    nine.stage("shares")
    assert len(rows_left(nine)) == 10
    cancel_round(nine.store, round_id, 102.0)
    assert rows_left(nine) == []
    assert nine.work(nine.devices[0]) is None


def test_groups_with_numbers_that_no_embedding_has_are_left_out_however_many_they_are(fleet_of):
    fleet = fleet_of(*private_devices(20))
    said = fleet.devices[1:4]  # in up to three of five groups
    for device in said:
        device.classes, device.said = ("c0", "c1", "c2", "c3"), np.tile([60.0, -60.0], 6)
    fleet.open_private(groups=4, aggregation=MEAN)
    round_id = fleet.play()
    liars, clean = {device.device_id for device in said}, set()
    for group in describe_round(fleet.store, round_id).private.groups:
        assert group.outcome.endswith("numbers that no embedding has") == bool(liars & set(group.devices))
        clean |= set(group.devices) if group.outcome == "4 of 4 devices" else set()
    require_plain(result(fleet, round_id)[0], [one for one in fleet.devices if one.device_id in clean])


@pytest.mark.slow
def test_liars_are_found_over_rounds_by_the_groups_that_they_are_in_and_move_the_result_little(fleet_of):
    fleet = fleet_of(*private_devices(40))
    liars = {fleet.devices[0].device_id, fleet.devices[1].device_id}
    for device in fleet.devices:
        device.classes = ("c0", "c1", "c2", "c3")
        if device.device_id in liars:
            device.said = np.full(12, 60.0)
    honest = plain_means([device for device in fleet.devices if device.device_id not in liars])
    now, beside = 100.0, {device.device_id for device in fleet.devices}
    for _ in range(SUSPICION_IN_GROUPS):
        fleet.open_private(now, groups=4)
        round_id = fleet.play(now + 1)
        means, _ = result(fleet, round_id)
        assert all(np.linalg.norm(means[one] - honest[one]) < 1.0 for one in honest)
        shown = describe_round(fleet.store, round_id)
        assert liars <= set(shown.aggregation["screened"])
        beside &= {one for group in shown.private.groups if liars & set(group.devices) for one in group.devices}
        for device in fleet.devices:
            fleet.learned(device, round_id)
        now += 1000.0
    shut = {
        one.device_id for one in fleet.devices if describe_device(fleet.store, one.device_id).conduct.quarantined_at
    }
    # Of 2,300 runs one deals an honest device into a group with a liar in each round: nobody could tell it from them.
    assert shut == beside
    assert liars <= beside


class Liar(PrivateDevice):
    """One that lies when it is told to: far numbers, or that it is ten devices, so that its group has no sum.

    Else it says what all say. Of five groups that scatter, and of the four that a lie leaves, an honest one stands out
    after some deal of a thousand; of groups that lie in one point none does after any.
    """

    lie: str | None = None

    def takes(self):
        words = np.stack([CENTRES[WORDS[int(class_id[1:])]] for class_id in self.classes]).astype(np.float32)
        return (words[:, None], np.full(len(words), 3.0)) if self.said is None else super().takes()

    def numbers(self, work):
        self.said = np.full(12, 60.0) if self.lie == "far" else None
        words = super().numbers(work)
        if self.lie == "ten devices":
            words[0] += self.layout(work).point.encode(np.array([9.0]))[0]
        return words


@pytest.mark.slow
@pytest.mark.parametrize("lie", ["far", "ten devices"])
def test_where_too_many_groups_stand_out_nobody_is_suspected_and_nobody_cleared(fleet_of, lie):
    fleet = fleet_of(*(Liar(number, ("c0", "c1", "c2", "c3")) for number in range(1, 21)))

    def suspicions(now, lying):
        """Play a round in which one device lies in so many of its five groups; return the suspicion against each."""
        round_id = fleet.open_private(now, groups=4)
        fleet.stage("keys", now=now + 1)
        # Who lies is decided once the groups are dealt: those are at random in earnest, and liars that were named
        # before could be in any number of them.
        groups = describe_round(fleet.store, round_id).private.groups
        assert len(groups) == 5
        chosen = {group.devices[0] for group in groups[:lying]}
        for device in fleet.devices:
            device.lie = lie if device.device_id in chosen else None
        for stage in ("shares", "contribute", "unmask"):
            fleet.stage(stage, now=now + 1)
        for device in fleet.devices:
            fleet.learned(device, round_id)
        assert describe_round(fleet.store, round_id).summary.state == "done"
        return {one: describe_device(fleet.store, one).conduct.suspicion for group in groups for one in group.devices}

    before = suspicions(100.0, lying=1)
    assert sorted(before.values()) == [0] * 16 + [1] * 4  # the liar's group
    assert suspicions(1_000.0, lying=2) == before  # more than a third of the groups
    assert not any(suspicions(2_000.0, lying=0).values())
