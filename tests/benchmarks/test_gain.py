"""`benchmarks.gain`: who has which clips, and what its rows say."""

import numpy as np
import pytest

from benchmarks.gain import corrections
from benchmarks.gain.__main__ import chance_of_loss
from benchmarks.gain.deal import WORDS, Fleet, Words, deal
from benchmarks.gain.heads import ALONE, PROTOTYPES, EmbeddingFleet
from fleet_protocol.bundle import read_bundle
from fleet_protocol.ready_bundles import find_bundle

SPEAKERS = np.repeat([f"{number:08x}" for number in range(120)], 10)
SAID = np.tile(WORDS, 120)


def people(rows):
    return set(SPEAKERS[rows])


def test_people_are_public_or_strangers_or_of_one_device_and_new_words_are_where_they_were_taught():
    fleet = Fleet("two new words", devices=8, clips=40, new=("stop", "go"), taught=0.25)
    dealt, again, other = (deal(fleet, SAID, SPEAKERS, seed) for seed in (3, 3, 4))
    groups = [dealt.public, dealt.strangers]
    groups += [np.concatenate(pair) for pair in zip(dealt.devices, dealt.held_out, strict=True)]
    assert all(not people(one) & people(two) for n, one in enumerate(groups) for two in groups[n + 1 :])
    assert len(people(dealt.strangers)) == pytest.approx(0.15 * 120, abs=1)
    for mine, held_out in zip(dealt.devices, dealt.held_out, strict=True):
        assert (len(mine), len(held_out)) == (40, 20)
        assert not set(mine) & set(held_out)
    has = [bool(set(SAID[rows]) & {"stop", "go"}) for rows in dealt.devices]
    assert has == [True, True, *[False] * 6]
    assert not {"stop", "go"} & set(SAID[dealt.public])
    assert {"stop", "go"} <= set(SAID[dealt.strangers])
    assert dealt.known == WORDS[:8]
    assert all(np.array_equal(a, b) for a, b in zip(again.devices, dealt.devices, strict=True))
    assert not np.array_equal(other.public, dealt.public)


def test_losses_are_held_against_chance():
    both, neither = np.ones(10, bool), np.zeros(10, bool)
    assert chance_of_loss(both, both) == 1
    assert chance_of_loss(both, neither) == 0.5**10
    assert chance_of_loss(neither, both) == 1
    swapped = np.arange(10) < 5
    assert chance_of_loss(swapped, ~swapped) == pytest.approx((2**10 + 252) / 2 / 2**10)  # half of ten, or more


def test_devices_learn_of_strangers_from_prototypes_as_the_product_makes_them():
    bundle, rng = read_bundle(find_bundle("base")), np.random.default_rng(0)
    statistics = bundle.manifest.embedding_statistics
    means = statistics.means[[statistics.words.index(word) for word in SAID]]
    voices = 2.5 * np.repeat(statistics.draw(np.zeros(64), 120, rng), 10, axis=0)
    clips = (means + voices + statistics.draw(np.zeros(64), len(SAID), rng)).astype(np.float32)[:, None]
    words = Words(clips, SAID, SPEAKERS, statistics.noise)
    dealt = deal(Fleet("few clips", devices=2, clips=20), SAID, SPEAKERS, seed=1)
    fleet = EmbeddingFleet(bundle, words, dealt, seed=1)
    strangers = {}
    for plan in (ALONE, PROTOTYPES):
        judged = list(fleet.judged(plan))
        assert [len(found.own) for found in judged] == [20, 20]
        assert not any(found.kept_own for found in judged)
        strangers[plan] = np.mean([found.strangers.mean() for found in judged])
    assert strangers[PROTOTYPES] > strangers[ALONE] + 0.02


@pytest.mark.slow
def test_one_owner_s_correction_helps_every_device_and_three_liars_of_ten_take_no_word_away():
    bundle, rng = read_bundle(find_bundle("base")), np.random.default_rng(0)
    statistics = bundle.manifest.embedding_statistics
    said, speakers = np.tile(WORDS, 120), np.repeat([f"{number:08x}" for number in range(60)], 20)
    means = statistics.means[[statistics.words.index(word) for word in said]]
    voices = np.repeat(statistics.draw(np.zeros(64), 60, rng), 20, axis=0)
    clips = (means + 0.5 * voices + statistics.draw(np.zeros(64), len(said), rng)).astype(np.float32)[:, None]
    words = Words(clips, said, speakers, statistics.noise)
    fleet = corrections.CorrectedFleet(bundle, words, deal(corrections.FLEET, said, speakers, seed=1), seed=1)
    found = {}
    for plan in corrections.PLANS:
        judged = list(fleet.judged(plan))
        assert len(judged) == 6
        found[plan] = {name: np.mean([getattr(one, name).mean() for one in judged]) for name in corrections.FIGURES}
    before, helped = found[corrections.NOBODY], found[corrections.CORRECTED]
    assert helped["taken"] < 0.7 * before["taken"]
    assert helped["others"] < before["others"] + 0.02
    assert found[corrections.BOTH]["taken"] < 0.8 * before["taken"]
    assert max(one["missed"] for one in found.values()) < before["missed"] + 0.05
