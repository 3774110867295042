"""Which devices take part: the paper's probabilities, and draws that depend on the seed and the devices alone."""

from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator_server.rounds.lifecycle import cancel_round
from aggregator_server.rounds.participants import read_history
from aggregator_server.rounds.replies import describe_round, summarise_round
from aggregator_server.strategies.plans import complete
from aggregator_server.strategies.selection import Candidate, History, select, selections, settled_after
from fleet_protocol.messages.rest import Choice
from tests.support.aggregator_process import FakeDevice
from tests.support.core_fleet import SAMPLES, CoreFleet, devices, refusal

SIZES = st.lists(st.integers(1, 100_000), min_size=1, max_size=40)
NAMES = sorted(selections())


def choice(name, **given):
    return complete("selection", Choice(name, given))


def fleet(*clips, unseen_s=0.0):
    return [Candidate(f"{index:032x}", size, unseen_s) for index, size in enumerate(clips)]


def probabilities(name, sizes, history=History(), **given):  # noqa: B008  (immutable)
    return selections()[name].probabilities(np.array(sizes, np.float64), history, choice(name, **given).settings)


def test_dynamic_favours_little_data_before_r_and_much_data_from_r_on():
    # 1/10, 1/20, 1/40 are as 4 : 2 : 1; 10, 20, 40 as 1 : 2 : 4.
    early = probabilities("dynamic", [10, 20, 40], History(rounds=2), switch_round=3)
    late = probabilities("dynamic", [10, 20, 40], History(rounds=3), switch_round=3)
    assert early == pytest.approx([4 / 7, 2 / 7, 1 / 7])
    assert late == pytest.approx([1 / 7, 2 / 7, 4 / 7])
    assert probabilities("size_proportional", [10, 20, 40]) == pytest.approx([1 / 7, 2 / 7, 4 / 7])
    assert probabilities("uniform", [10, 20, 40]) == pytest.approx([1 / 3] * 3)


def test_r_is_found_where_the_loss_has_no_new_lowest_value_for_some_rounds_and_stays_found():
    falling = (3.0, 2.0, 1.5, 1.6, 1.4)
    assert settled_after(falling, 2) is None
    assert settled_after((3.0, 2.0, 2.0, 2.5), 2) == 4
    assert settled_after((3.0, 2.0, 2.0, 2.5, 0.5, 0.4), 2) == 4  # one fall later on does not undo it
    assert settled_after((), 1) is None
    early = probabilities("dynamic", [1, 3], History(5, falling), patience=2)
    late = probabilities("dynamic", [1, 3], History(6, (*falling, 1.4, 1.5)), patience=2)
    assert early == pytest.approx([3 / 4, 1 / 4])
    assert late == pytest.approx([1 / 4, 3 / 4])


@given(st.sampled_from(NAMES), SIZES, st.integers(0, 2**31), st.randoms(use_true_random=False))
def test_a_draw_depends_on_the_seed_and_the_devices_not_on_their_order(name, sizes, seed, random):
    candidates = fleet(*sizes)
    drawn = select(candidates, choice(name), History(), (seed, 1))
    random.shuffle(candidates)
    assert select(candidates, choice(name), History(), (seed, 1)) == drawn
    share = choice(name).settings.get("fraction", 1.0)
    assert len(set(drawn)) == len(drawn) == max(1, int(share * len(sizes) + 0.5))
    assert set(drawn) <= {candidate.device_id for candidate in candidates}


@pytest.mark.parametrize(("name", "rounds"), [("uniform", 0), ("size_proportional", 0), ("dynamic", 0), ("dynamic", 9)])
def test_over_many_seeds_each_device_is_drawn_as_often_as_its_probability_says(name, rounds):
    sizes = (5, 10, 20, 40, 80)
    given_settings = {"fraction": 0.2} | ({"switch_round": 9} if name == "dynamic" else {})
    wanted = probabilities(name, sizes, History(rounds), **given_settings)
    drawn = [select(fleet(*sizes), choice(name, **given_settings), History(rounds), (seed, 1)) for seed in range(4000)]
    found = [sum(device.device_id in one for one in drawn) / len(drawn) for device in fleet(*sizes)]
    # Four standard deviations of a share of 4000 draws are at most 0.032.
    assert found == pytest.approx(wanted, abs=0.032)


class TestRounds:
    """The same in real rounds: what the aggregator remembers of devices and losses, and who is asked then."""

    def selected(self, fleet, **request):
        round_id = fleet.open(**request)
        return [found.device_id for found in describe_round(fleet.store, round_id).participants]

    def test_a_device_joins_with_the_next_round_and_one_that_fell_silent_is_left_out(self, tmp_path):
        fleet = CoreFleet(tmp_path, devices(3))
        lately = Choice("all", {"seen_within_s": 600})
        for device in fleet.devices:
            assert fleet.work(device, now=1000.0) is None
        assert len(self.selected(fleet, now=1100.0, selection=lately)) == 3
        late = devices(4)[3]
        fleet.enrol(late)
        assert fleet.work(late, now=1101.0) is None  # not in the middle of a round
        cancel_round(fleet.store, 1, 1102.0)
        fleet.work(fleet.devices[0], now=1690.0)
        assert self.selected(fleet, now=2000.0, selection=lately, all_there=False) == [fleet.devices[0].device_id]
        cancel_round(fleet.store, 2, 2001.0)
        with refusal("no_devices", "600 s"):
            self.selected(fleet, now=9000.0, selection=lately, all_there=False)

    def test_a_round_keeps_the_median_loss_and_selection_finds_r_from_it(self, tmp_path):
        fleet = CoreFleet(tmp_path, [FakeDevice(number, ("c0", "c1")) for number in (1, 2, 3)])
        wanted = Choice("dynamic", {"fraction": 1.0, "patience": 2})
        for number, losses in enumerate([(2.0, 3.0, 1e300), (2.5, 2.0, 1.0), (9.0, 2.5, 2.0)], 1):
            assert fleet.open(selection=wanted) == number
            for device, loss in zip(fleet.devices, losses, strict=True):
                work = asdict(fleet.work(device))
                fleet.send(device, number, device.upload(work, SAMPLES, metrics={"training_loss": loss}))
            assert fleet.advance() == number
            for device in fleet.devices:
                fleet.learned(device, number)
        assert [summarise_round(fleet.store, number).training_loss for number in (1, 2, 3)] == [3.0, 2.0, 2.5]
        with fleet.store.reading() as session:
            history = read_history(session, "zero_shot")
            assert read_history(session, "another") == History()
        assert history == History(3, (3.0, 2.0, 2.5))
        assert settled_after(history.losses, 1) == 3
