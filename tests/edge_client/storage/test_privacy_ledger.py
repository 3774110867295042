"""What a device's rounds have told of it: counted once for each upload, kept when a fleet is left, never exceeded."""

import pytest

from edge_client.fleet.private_rounds import PrivateRounds
from edge_client.storage.device_state import DeviceState
from edge_client.storage.privacy_ledger import Spent
from fleet_protocol.bundle.ready_bundles import find_bundle
from fleet_protocol.errors import SecureSumError
from fleet_protocol.messages.private_rounds import PrivatePlan, PrivateWork
from fleet_protocol.messages.rest import Choice
from fleet_protocol.secure_sums.privacy_budget import epsilon_of, noise_for, spent_by
from tests.support.private_dealer import Dealer, Party, plan_of
from tests.support.secure_group import replace

NOISY = PrivatePlan(16, noise_for(4.0))


@pytest.fixture
def state(tmp_path):
    return DeviceState(tmp_path / "state")


def test_each_upload_counts_once_whoever_asks_again_after_a_restart(state):
    assert state.privacy.load() == Spent()
    assert state.privacy.load().told(None) is None
    for upload in ("aa", "aa", "bb", "bb"):
        DeviceState(state.folder).privacy.count(upload, NOISY)
    spent = state.privacy.load()
    assert (spent.noisy, spent.open) == (2, 0)
    told = spent.told(10.0)
    assert told["epsilon"] == pytest.approx(epsilon_of(2 * spent_by(NOISY.noise)))
    assert 4.0 < told["epsilon"] < 8.0
    assert f"can have told epsilon {told['epsilon']:.2g} of at most 10, at delta 1e-05" in told["words"]
    assert "at most 400 times as likely" in told["words"]


def test_without_noise_nothing_bounds_what_was_told(state):
    state.privacy.count("aa", NOISY)
    state.privacy.count("bb", PrivatePlan(16))
    state.privacy.count("cc", None)
    told = state.privacy.load().told(None)
    assert told["epsilon"] is None
    assert "besides 2 uploads without noise" in told["words"]


def test_who_leaves_a_fleet_has_told_it_all_the_same(tmp_path):
    party = Party(tmp_path / "device")
    party.state.privacy.count("aa", NOISY)
    party.state.leave_fleet(find_bundle("base_int8"))
    assert DeviceState(party.state.folder).privacy.load().noisy == 1


@pytest.mark.parametrize(
    ("noise", "told", "says"),
    [
        (0.0, 0, "has no noise, and this device has a budget"),
        (noise_for(12.0), 0, "to epsilon 12, and its owner allows 10"),
        (noise_for(6.0), 2, "its owner allows 10"),
        (float("nan"), 0, "noise of a private round"),
        (1e-9, 0, "noise of a private round"),
        (-1.0, 0, "noise of a private round"),
        (1e9, 0, "noise of a private round"),
    ],
)
def test_a_round_that_would_exceed_the_budget_is_refused_before_a_key_is_sent(tmp_path, noise, told, says):
    party = Party(tmp_path / "device")
    for number in range(told):
        party.state.privacy.count(str(number), PrivatePlan(5, noise_for(6.0)))
    dealer = Dealer([party], plan=replace(plan_of(5), private=PrivatePlan(5, noise)))
    rounds = PrivateRounds(party.state, budget=10.0)
    with pytest.raises(SecureSumError, match=says):
        rounds.keys(dealer.work("keys", PrivateWork()))
    assert party.state.private_rounds.load() is None


def test_noise_in_a_round_that_does_not_bound_what_is_added_is_refused(tmp_path):
    party = Party(tmp_path / "device")
    plan = replace(plan_of(5), private=PrivatePlan(5, noise_for(1.0)), local=Choice("fedavg"))
    with pytest.raises(SecureSumError, match="only rounds of prototypes can have noise"):
        PrivateRounds(party.state, budget=10.0).keys(Dealer([party], plan=plan).work("keys", PrivateWork()))


def test_a_round_within_the_budget_is_answered(tmp_path):
    party = Party(tmp_path / "device")
    dealer = Dealer([party], plan=replace(plan_of(5), private=PrivatePlan(5, noise_for(10.0))))
    assert PrivateRounds(party.state, budget=10.0).keys(dealer.work("keys", PrivateWork())).mask_key
