"""Devices that change sides are told from those that go on as they did, by their own records."""

import numpy as np
import pytest

from aggregator_server.aggregation import Layout, Updates, aggregate_weights
from aggregator_server.aggregation.own_records import without
from aggregator_server.limits import SUSPICION
from fleet_protocol.bundle import Layer
from fleet_protocol.messages import Choice
from fleet_protocol.tensors import pack, unpack

WIDTH = 3000
LAYOUT = Layout((Layer("body", ("kernel",)),), {"kernel": (WIDTH,)})
TURNED = {"distances": {}, "against": False, "turned": True}


class Clips:
    """A fleet late in its training: each device pulls to its own clips, and all pulls together come to nothing."""

    def __init__(self, devices: int = 10, noise: float = 0.8) -> None:
        self.rng = np.random.default_rng(7)
        pulls = self.rng.normal(size=(devices, WIDTH))
        self.pulls, self.noise = pulls - pulls.mean(axis=0), noise
        self.names = [f"{number:02d}" for number in range(devices)]
        self.weights, self.state = {"kernel": np.zeros(WIDTH, np.float32)}, {}

    def round(self, flipped=(), strength=1.0, devices=None, **settings):
        """Play a round; return whom it screened and why."""
        chosen = range(len(self.names)) if devices is None else devices
        start, rows = self.weights["kernel"], []
        for number in chosen:
            update = 0.1 * (self.pulls[number] + self.noise * self.rng.normal(size=WIDTH))
            rows.append(start - strength * update if number in flipped else start + update)
        uploads = Updates(LAYOUT, tuple(self.names[n] for n in chosen), np.array(rows, np.float32))
        choice = Choice("screened_mean", settings)
        weights, state, details = aggregate_weights(choice, uploads, np.full(len(rows), 40.0), self.weights, self.state)
        self.weights, self.state = weights, unpack(pack(state, {}))[0]  # as it comes back from the disk
        return details["screened"]


@pytest.mark.parametrize("strength", [0.25, 1.0])
def test_who_flips_weakly_after_honest_rounds_counts_no_more_from_the_first_such_round_on(strength):
    fleet = Clips()
    assert [fleet.round() for _ in range(6)] == [{}] * 6
    before = fleet.weights["kernel"].copy()
    assert fleet.round((2, 5, 8), strength) == dict.fromkeys(("02", "05", "08"), TURNED)
    honest = fleet.pulls[[0, 1, 3, 4, 6, 7, 9]].mean(axis=0)
    moved = fleet.weights["kernel"] - before
    assert moved @ honest / np.linalg.norm(moved) / np.linalg.norm(honest) > 0.5  # that is the mean of the others
    assert fleet.round((2, 5, 8), strength) == dict.fromkeys(("02", "05", "08"), TURNED)
    assert fleet.round() == {}  # they are as before: nothing is held against them


def test_a_round_of_two_devices_sees_it_too_and_one_of_attackers_alone_changes_nothing():
    fleet = Clips()
    fleet.round()
    assert fleet.round((2,), devices=(2, 3)) == {"02": TURNED}
    before = fleet.weights["kernel"].copy()
    assert fleet.round((2, 5), devices=(2, 5)) == {"02": TURNED, "05": TURNED}
    assert (fleet.weights["kernel"] == before).all()


def test_a_device_that_stays_on_the_other_side_begins_anew_once_it_has_been_in_quarantine():
    """Its owner may have put right labels that were wrong; then whoever released it was right, too."""
    fleet = Clips()
    fleet.round()
    for _ in range(SUSPICION):
        assert fleet.round((2,)) == {"02": TURNED}
    assert [fleet.round((2,)) for _ in range(3)] == [{}] * 3
    assert fleet.round() == {"02": TURNED}


def test_where_the_model_turned_no_device_did():
    fleet = Clips()
    for _ in range(3):
        fleet.round()
    fleet.pulls = -fleet.pulls
    screened = [fleet.round() for _ in range(12)]
    assert not any("turned" in why for one in screened for why in one.values())
    assert fleet.round((2,)) == {"02": TURNED}  # the records have followed


def test_parts_of_the_fleet_that_turn_with_the_model_one_after_the_other_come_to_no_harm():
    fleet = Clips(12)
    fleet.round()
    fleet.pulls = -fleet.pulls
    parts = [range(4), range(4, 8), range(8, 12)] * 4
    turned = [name for part in parts for name in fleet.round(devices=part)]
    assert max(turned.count(name) for name in fleet.names) < SUSPICION


def test_updates_that_are_mostly_noise_are_not_judged():
    fleet = Clips(20, noise=20.0)
    screened = [fleet.round(threshold=1e9) for _ in range(30)]
    assert not any("turned" in why for one in screened for why in one.values())


def test_the_records_of_devices_that_left_are_forgotten():
    fleet = Clips()
    fleet.round()
    assert without(fleet.state, ()) == fleet.state
    fleet.state = without(fleet.state, {"02", "not here"})
    assert fleet.round((2, 5)) == {"05": TURNED}


def test_a_record_of_another_model_is_not_continued():
    fleet, other = Clips(), Clips()
    fleet.round()
    state = dict(fleet.state)
    state["records.sketches"] = state["records.sketches"][:, :100]
    other.state = state
    assert other.round((2,)) == {}
    assert other.state["records.sketches"].shape == (10, 256)


def test_a_device_that_sends_back_what_it_got_has_not_turned():
    fleet = Clips()
    fleet.round()
    assert fleet.round((2,), strength=0.0) == {}
