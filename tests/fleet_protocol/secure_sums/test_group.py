"""A group's sum: it is the plain one whoever drops out, and nothing else can be put together."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet_protocol.errors import SecureSumError
from fleet_protocol.messages.private_rounds import RevealedShares
from fleet_protocol.secure_sums.masking import require_revealed, unmasked
from fleet_protocol.secure_sums.roster import Roster, context_digest, require_signed, threshold_of
from fleet_protocol.secure_sums.round_secret import RoundSecret
from tests.support.secure_group import CONTEXT, PLAN, Group

NUMBERS = 50


def numbers_of(group: Group, seed: int = 1) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {s.device_id: rng.integers(0, 2**32, NUMBERS, dtype=np.uint32) for s in group.secrets}


def total(numbers, devices) -> np.ndarray:
    return np.sum([numbers[device] for device in devices], axis=0, dtype=np.uint32)


def enough(roster: Roster, taking_part, answering) -> bool:
    return all(len(set(roster.holders(d)) & answering) >= roster.threshold(d) for d in taking_part)


@given(st.data())
@settings(max_examples=15)
def test_the_sum_is_the_plain_one_whoever_drops_out_at_whichever_stage(data):
    group = Group(data.draw(st.integers(4, 9)), data.draw(st.integers(0, 5)))
    devices, roster = list(group.roster.places), group.roster
    gone = data.draw(st.lists(st.sampled_from(devices), max_size=len(devices) // 3, unique=True))
    stages = {device: data.draw(st.sampled_from(["shares", "contribute", "unmask"])) for device in gone}
    taking_part = [device for device in devices if stages.get(device) != "shares"]
    uploaded = {device for device in taking_part if stages.get(device) != "contribute"}
    answering = uploaded - gone_at(stages, "unmask")
    numbers = numbers_of(group)
    masked = group.masked({device: numbers[device] for device in uploaded}, taking_part)
    revealed = group.revealed(taking_part, uploaded, answering)
    for device, shares in revealed.items():
        require_revealed(roster, device, taking_part, uploaded, shares)
    if not enough(roster, taking_part, answering):
        with pytest.raises(SecureSumError, match="are needed"):
            unmasked(roster, taking_part, masked, group.commitments(), revealed)
        return
    found = unmasked(roster, taking_part, masked, group.commitments(), revealed)
    np.testing.assert_array_equal(found, total(numbers, uploaded))


def gone_at(stages, stage) -> set[str]:
    return {device for device, at in stages.items() if at == stage}


@pytest.mark.parametrize("size", [4, 9, 22])
def test_a_third_may_be_gone_after_they_sent_shares_where_all_are_neighbours(size):
    group = Group(size)
    devices = list(group.roster.places)
    left = set(devices[size // 3 :]) if size <= 21 else set(devices[6:])
    numbers = numbers_of(group)
    masked = group.masked({device: numbers[device] for device in left}, devices)
    found = unmasked(group.roster, devices, masked, group.commitments(), group.revealed(devices, left, left))
    np.testing.assert_array_equal(found, total(numbers, left))
    assert not any((upload == numbers[device]).any() for device, upload in masked.items() if device in left)


def test_masked_numbers_alone_look_random():
    group = Group(6)
    zeros = {secret.device_id: np.zeros(40_000, np.uint32) for secret in group.secrets}
    for upload in group.masked(zeros, list(zeros)).values():
        bits = np.unpackbits(upload.view(np.uint8))
        assert abs(bits.mean() - 0.5) < 0.003  # six standard deviations of so many coins
        assert len(np.unique(upload)) > 39_990


def test_repeated_work_gives_the_same_bytes_and_another_group_others():
    group = Group(6)
    one, devices = group.secrets[0], list(group.roster.places)
    again = RoundSecret(one.device_id, one.random)
    assert again.encrypted_shares(group.roster) == one.encrypted_shares(group.roster)
    turned = Roster(CONTEXT, (*group.roster.members[1:], group.roster.members[0]))
    assert turned.digest != group.roster.digest
    x = np.zeros(8, np.uint32)
    assert (one.masked(group.roster, x, devices) == again.masked(group.roster, x, devices)).all()
    assert (one.masked(group.roster, x, devices) != one.masked(turned, x, devices)).any()
    assert one.self_seed(turned) != one.self_seed(group.roster)


def test_shares_open_for_their_receiver_in_their_group_alone():
    group = Group(5)
    sender, receiver, third = group.secrets[:3]
    sealed = sender.encrypted_shares(group.roster).shares
    own = {sender.device_id: sealed[receiver.device_id]}
    assert receiver.opened(group.roster, own)[sender.device_id] == sender.own_shares(group.roster)[receiver.device_id]
    turned = Roster(CONTEXT, tuple(reversed(group.roster.members)))
    changed = {sender.device_id: "00" + own[sender.device_id][2:]}
    for who, roster, shares in [
        (third, group.roster, own),
        (receiver, turned, own),
        (receiver, group.roster, changed),
        (receiver, group.roster, {third.device_id: own[sender.device_id]}),
        (receiver, group.roster, {sender.device_id: own[sender.device_id][2:]}),
        (receiver, group.roster, {sender.device_id: "zz" * 80}),
    ]:
        assert who.opened(roster, shares) == {}
    with pytest.raises(SecureSumError, match="is no neighbour"):
        receiver.opened(group.roster, {"ab" * 16: own[sender.device_id]})


def test_a_wrong_share_is_passed_over_and_too_many_are_named():
    group = Group(9)
    devices, numbers = list(group.roster.places), numbers_of(group)
    left = set(devices[1:])
    masked = group.masked({device: numbers[device] for device in left}, devices)
    revealed = group.revealed(devices, left, left)

    def lying(*liars: str) -> dict[str, RevealedShares]:
        wrong = {device: dict.fromkeys(revealed[device].mask_keys, "11" * 32) for device in liars}
        return revealed | {d: dataclasses.replace(revealed[d], mask_keys=keys) for d, keys in wrong.items()}

    found = unmasked(group.roster, devices, masked, group.commitments(), lying(devices[2]))
    np.testing.assert_array_equal(found, total(numbers, left))
    with pytest.raises(SecureSumError, match=f"shares of device {devices[0]} are wrong") as caught:
        unmasked(group.roster, devices, masked, group.commitments(), lying(*devices[1:5]))
    assert caught.value.device_id == devices[0]


def test_an_answer_of_other_devices_or_secrets_is_refused():
    group = Group(5)
    devices = list(group.roster.places)
    left = set(devices[1:])
    answer = group.revealed(devices, left, left)[devices[1]]
    require_revealed(group.roster, devices[1], devices, left, answer)
    swapped = RevealedShares(answer.self_seeds | answer.mask_keys, {})
    short = RevealedShares(answer.self_seeds, {devices[0]: "11"})
    require_revealed(group.roster, devices[1], devices, left, RevealedShares(answer.self_seeds, {}))
    foreign = RevealedShares({"ab" * 16: "11" * 32}, {})
    for wrong in (swapped, short, foreign):
        with pytest.raises(SecureSumError):
            require_revealed(group.roster, devices[1], devices, left, wrong)


def test_both_secrets_of_a_device_need_more_holders_than_there_are():
    """However the server splits its holders into two stories, fewer than a third that collude do not help it."""
    for size in range(4, 256):
        holders = min(size, 21)
        colluding = (holders - 1) // 3
        assert 2 * threshold_of(holders) > holders + colluding


@pytest.mark.parametrize("size", [4, 21, 22, 50])
def test_neighbours_are_mutual_and_no_more_than_twenty(size):
    roster = Group(size).roster
    for device in roster.places:
        neighbours = roster.neighbours(device)
        assert len(neighbours) == min(size - 1, 20)
        assert device not in neighbours
        assert all(device in roster.neighbours(other) for other in neighbours)
        assert len(roster.holders(device)) == len(neighbours) + 1


def test_a_group_that_is_none_is_refused():
    group = Group(5)
    one, two, *others = group.roster.members
    for members, says in [
        ((one, two), "2 devices"),
        ((one, one, two, *others), "same device_id"),
        ((one, dataclasses.replace(two, signing_key=one.signing_key), *others), "same signing_key"),
        ((one, dataclasses.replace(two, mask_key=one.mask_key), *others), "same mask_key"),
        ((one, dataclasses.replace(two, share_key="AB" * 32), *others), "hex digits"),
        ((one, dataclasses.replace(two, device_id="ü" * 32), *others), "hex digits"),
    ]:
        with pytest.raises(SecureSumError, match=says):
            Roster(CONTEXT, members)


def test_keys_of_another_round_device_or_signer_are_refused():
    group = Group(4)
    one, two = group.roster.members[:2]
    require_signed(one, CONTEXT)
    for member, context in [
        (one, context_digest(2, PLAN, "ab" * 32, ("c0", "c1"))),
        (one, context_digest(1, dataclasses.replace(PLAN, seed=1), "ab" * 32, ("c0", "c1"))),
        (one, context_digest(1, PLAN, "ab" * 32, ("c1", "c0"))),
        (dataclasses.replace(one, device_id=two.device_id), CONTEXT),
        (dataclasses.replace(one, mask_key=two.mask_key), CONTEXT),
        (dataclasses.replace(one, signing_key=two.signing_key), CONTEXT),
    ]:
        with pytest.raises(SecureSumError, match="not signed"):
            require_signed(member, context)


def test_the_context_does_not_depend_on_how_a_whole_number_was_read():
    assert context_digest(1, dataclasses.replace(PLAN, deadline_s=600), "ab" * 32, ("c0", "c1")) == CONTEXT
