"""A server that tells a device two stories of one private round, or one that it must not believe."""

import dataclasses
import json
import stat

import numpy as np
import pytest

from edge_client.errors import WorkError
from edge_client.storage.device_state import DeviceState
from fleet_protocol.errors import SecureSumError
from fleet_protocol.messages.private_rounds import PrivatePlan, PrivateWork
from fleet_protocol.messages.rest import Choice, ClassInfo, parse, to_json
from fleet_protocol.secure_sums.roster import signed_keys
from fleet_protocol.secure_sums.round_secret import RoundSecret
from tests.support.private_dealer import CLASSES, Dealer, Party


@pytest.fixture
def parties(tmp_path):
    return [Party(tmp_path / f"device-{number}") for number in range(6)]


@pytest.fixture
def dealer(parties):
    return Dealer(parties)


def numbers_of(parties, seed=1):
    rng = np.random.default_rng(seed)
    return {party.device_id: rng.integers(0, 2**32, 20, dtype=np.uint32) for party in parties}


def total(numbers):
    return np.sum(list(numbers.values()), axis=0, dtype=np.uint32)


def refused(says):
    return pytest.raises(SecureSumError, match=says)


# A round without a lie


def test_devices_that_restart_before_each_answer_come_to_the_plain_sum_without_one_that_went(dealer, parties):
    numbers = numbers_of(parties[1:])
    dealer.deal().share().collect(numbers)
    np.testing.assert_array_equal(dealer.sum(), total(numbers))


def test_what_is_asked_again_is_answered_by_the_same_bytes(dealer, parties):
    dealer.deal().share().collect(numbers_of(parties))
    party = parties[0]
    assert party.rounds.keys(dealer.work("keys")) == party.rounds.keys(dealer.work("keys"))
    assert party.rounds.shares(dealer.to_share()) == dealer.sent[party.device_id]
    party.rounds.accept(dealer.to_contribute(party))
    upload = dealer.uploads[party.device_id].tobytes()
    assert party.upload(1, numbers_of(parties, seed=2)[party.device_id], present=upload) == upload
    assert party.rounds.unmask(dealer.to_unmask()) == party.rounds.unmask(dealer.to_unmask())


def test_work_of_every_stage_survives_the_way_over_the_wire(dealer, parties):
    dealer.deal().share().collect(numbers_of(parties))
    for work in (dealer.to_share(), dealer.to_contribute(parties[0]), dealer.to_unmask()):
        assert parse(type(work), json.loads(json.dumps(to_json(work)))) == work


# Two stories of one round


def test_another_group_is_refused_once_shares_were_sent(dealer, parties):
    dealer.deal().share()
    turned = (*dealer.members[1:], dealer.members[0])
    with refused("named another group before"):
        parties[0].rounds.shares(dealer.to_share(turned))
    with refused("named another group before"):
        parties[0].rounds.accept(dealer.to_contribute(parties[0], members=turned))


def test_another_list_of_who_takes_part_is_refused_once_masks_were_agreed(dealer, parties):
    dealer.deal().share()
    whole = dealer.to_contribute(parties[0])
    parties[0].rounds.accept(whole)
    dealer.taking_part = dealer.taking_part[:-1]
    del dealer.sent[parties[-1].device_id]
    with refused("said before that others take part"):
        parties[0].rounds.accept(dealer.to_contribute(parties[0]))
    parties[0].rounds.accept(whole)


def test_another_list_of_who_uploaded_is_refused_once_shares_were_revealed(dealer, parties):
    dealer.deal().share().collect(numbers_of(parties))
    party = parties[0]
    first = party.rounds.unmask(dealer.to_unmask())
    with refused("others had sent their numbers"):
        party.rounds.unmask(dealer.to_unmask(uploaded=dealer.uploaded[:-1]))
    with refused("others take part"):
        party.rounds.unmask(dealer.to_unmask(taking_part=dealer.taking_part[:-1], uploaded=dealer.uploaded[:-1]))
    assert party.rounds.unmask(dealer.to_unmask()) == first
    assert not set(first.self_seeds) & set(first.mask_keys)


@pytest.mark.parametrize(
    "change",
    [
        {"public_set": "cd" * 32},
        {"classes": CLASSES[:1]},
        {"classes": CLASSES[::-1]},
        {"classes": (*CLASSES, ClassInfo("c2", "stop"))},
        "seed",
        "groups",
    ],
)
def test_the_same_number_with_other_contents_is_refused_at_every_stage(dealer, parties, change):
    dealer.deal().share().collect(numbers_of(parties))
    if isinstance(change, str):
        plan = dealer.plan
        anew = {"seed": {"seed": 1}, "groups": {"private": PrivatePlan(6)}}[change]
        change = {"plan": dataclasses.replace(plan, **anew)}
    rounds = parties[0].rounds
    for ask, work in [
        (rounds.keys, dealer.work("keys")),
        (rounds.shares, dealer.to_share()),
        (rounds.accept, dealer.to_contribute(parties[0])),
        (rounds.unmask, dealer.to_unmask()),
    ]:
        with refused("announced otherwise before"):
            ask(dataclasses.replace(work, **change))


def test_a_round_that_was_answered_to_its_end_or_was_overtaken_begins_no_more(dealer, parties):
    dealer.deal().share().collect(numbers_of(parties)).sum()
    party = parties[0]
    party.rounds.end()
    for ask, work in [(party.rounds.keys, dealer.work("keys")), (party.rounds.unmask, dealer.to_unmask())]:
        with refused("answered all that it answers"):
            ask(work)
    Dealer(parties, round_id=2).deal()
    with refused("is earlier than 2"):
        party.rounds.keys(dealer.work("keys"))


def test_a_second_upload_is_never_made(dealer, parties):
    numbers = numbers_of(parties)
    dealer.deal().share().collect(numbers)
    for present in (None, b"what a worn card made of it"):
        with pytest.raises(WorkError, match="made its only upload before"):
            parties[0].upload(1, numbers[parties[0].device_id] + np.uint32(1), present)


def test_without_its_note_a_device_answers_nothing_of_the_round_by_its_former_secret(dealer, parties):
    dealer.deal().share().collect(numbers_of(parties))
    path = parties[0].state.private_rounds.path
    path.write_bytes(path.read_bytes()[:-9])
    with refused("has sent no keys"):
        parties[0].rounds.unmask(dealer.to_unmask())
    keys = parties[0].rounds.keys(dealer.work("keys"))
    assert keys.mask_key != dealer.members[0].mask_key


# One story that is no private round


def test_stages_that_skip_those_before_them_are_refused(dealer, parties, tmp_path):
    dealer.deal().share().collect(numbers_of(parties))
    stranger = Party(tmp_path / "stranger")
    with refused("has sent no keys"):
        stranger.rounds.shares(dealer.to_share())
    with refused("has not agreed on masks"):
        stranger.upload(1, np.zeros(3, np.uint32))
    late = Dealer(parties, round_id=2).deal()
    with refused("named another group before, or none"):
        parties[0].rounds.accept(late.work("contribute", PrivateWork(members=late.members)))
    late.share()
    parties[0].rounds.accept(late.to_contribute(parties[0]))
    with refused("has sent no numbers"):
        late.uploaded = late.taking_part
        parties[0].rounds.unmask(late.to_unmask())
    with refused("says nothing of this device's group"):
        parties[0].rounds.shares(late.work("shares"))


@pytest.mark.parametrize(
    "plan",
    [
        {"private": None},
        {"private": PrivatePlan(1)},
        {"private": PrivatePlan(1000)},
        {"local": Choice("fedkws_ui")},
        {"personalisation": Choice("local")},
    ],
)
def test_plans_that_do_not_hide_a_device_are_refused_before_it_sends_keys(dealer, parties, plan):
    with refused("private"):
        parties[0].rounds.keys(dealer.work("keys", plan=dataclasses.replace(dealer.plan, **plan)))
    assert not parties[0].state.private_rounds.path.exists()


def test_groups_that_are_too_small_or_not_its_own_are_refused(dealer, parties):
    dealer.deal()
    party, rounds = parties[0], parties[0].rounds
    with refused("from 4 to"):
        rounds.shares(dealer.to_share(dealer.members[:3]))
    with refused("not in the group"):
        rounds.shares(dealer.to_share(dealer.members[1:]))
    own, other = dealer.members[:2]
    with refused("keys that are not its own"):
        rounds.shares(dealer.to_share((dataclasses.replace(own, mask_key="11" * 32), *dealer.members[1:])))
    with refused(f"{other.device_id} are not signed"):
        rounds.shares(dealer.to_share((own, dataclasses.replace(other, share_key="11" * 32), *dealer.members[2:])))
    large = Dealer(parties, 2, dataclasses.replace(dealer.plan, private=PrivatePlan(16))).deal()
    with refused("a group of 6 devices; this round's have 8 to 31"):
        party.rounds.shares(large.to_share())


def test_a_device_that_has_another_key_than_before_is_refused_by_name(dealer, parties):
    dealer.deal().share()
    again = Dealer(parties, round_id=2).deal()
    device = again.members[1].device_id
    secret, key = RoundSecret(device, bytes(32)), bytes(range(32))
    keys = secret.keys(key, again.roster.context)
    assert keys == signed_keys(key, again.roster.context, device, keys.mask_key, keys.share_key)
    forged = dataclasses.replace(again.members[1], signing_key=_public(key), **dataclasses.asdict(keys))
    with refused(f"device {device} has another signing key"):
        parties[0].rounds.shares(again.to_share((again.members[0], forged, *again.members[2:])))


def _public(key):
    from fleet_protocol.secure_sums.primitives import signing_public_key

    return signing_public_key(key)


def test_lists_that_would_leave_a_device_alone_in_its_sum_are_refused(dealer, parties):
    dealer.deal().share()
    party, rounds = parties[0], parties[0].rounds
    own, few = party.device_id, dealer.taking_part[:3]
    shares = dealer.to_contribute(party).private.shares
    with refused("too few neighbours"):
        rounds.accept(dealer.to_contribute(party, taking_part=few))
    with refused("too few neighbours"):
        rounds.accept(dealer.to_contribute(party, taking_part=dealer.taking_part[1:]))
    with refused("no part of the group"):
        rounds.accept(dealer.to_contribute(party, taking_part=(*dealer.taking_part, "ab" * 16)))
    with refused("no part of the group"):
        rounds.accept(dealer.to_contribute(party, taking_part=dealer.taking_part[::-1]))
    with refused("of other devices than those"):
        rounds.accept(dealer.to_contribute(party, shares=dict(list(shares.items())[1:])))
    dealer.collect(numbers_of(parties))
    for uploaded, says in [
        ((own,), "too few devices"),
        (dealer.taking_part[1:], "too few devices"),
        (dealer.taking_part[::-1], "no part of the group"),
        ((*dealer.taking_part, own), "no part of the group"),
    ]:
        with refused(says):
            rounds.unmask(dealer.to_unmask(uploaded=uploaded))
    rounds.unmask(dealer.to_unmask())  # none of it settled the answer


def test_two_thirds_of_two_stories_never_give_both_secrets_of_a_device(dealer, parties):
    """The server says to three that the first device did not upload, to the others that it did."""
    dealer.deal().share().collect(numbers_of(parties))
    victim, without = parties[0].device_id, dealer.uploaded[1:]
    found = {"self_seeds": 0, "mask_keys": 0}
    for number, party in enumerate(parties):
        told = without if 0 < number < 4 else dealer.uploaded
        revealed = party.rounds.unmask(dealer.to_unmask(uploaded=told))
        for which in found:
            found[which] += victim in getattr(revealed, which)
    assert sum(found.values()) == len(parties)
    assert min(found.values()) < dealer.roster.threshold(victim)


def test_shares_that_nobody_can_read_are_passed_over(dealer, parties):
    numbers = numbers_of(parties[1:])
    dealer.deal().share()
    liar = parties[0].device_id
    broken = dict.fromkeys(dealer.sent[liar].shares, "00" * 80)
    dealer.sent[liar] = dataclasses.replace(dealer.sent[liar], shares=broken)
    dealer.collect(numbers)
    assert liar not in parties[1].rounds.unmask(dealer.to_unmask()).mask_keys
    with pytest.raises(SecureSumError, match="are needed") as caught:
        dealer.sum()
    assert caught.value.device_id == liar


# What stays on the disk


def test_keys_and_notes_are_the_owners_alone_and_the_secret_goes_with_the_last_answer(dealer, parties):
    dealer.deal().share().collect(numbers_of(parties)).sum()
    state = parties[0].state
    for path in (state.identity.signing_path, state.private_rounds.path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    secret = state.private_rounds.load().secret
    assert len(secret) == 64
    parties[0].rounds.end_others(dealer.work("unmask"))
    assert state.private_rounds.load().secret == secret
    parties[0].rounds.end_others(dealer.work("learn"))
    assert secret not in state.private_rounds.path.read_text()
    assert state.private_rounds.load().round_id == 1


def test_who_leaves_a_fleet_is_nobody_that_its_devices_know(dealer, parties, tmp_path):
    dealer.deal().share()
    state = parties[0].state
    key = state.identity.signing_key()
    state.private_rounds.forget()
    state.identity.remove()
    anew = DeviceState(state.folder)
    assert anew.private_rounds.load() is None
    assert anew.identity.signing_key() != key
    assert anew.database.note("signing_keys") is None
