"""`benchmarks.gain`: who has which clips, and what its rows say."""

import numpy as np
import pytest

from benchmarks.gain.__main__ import chance_of_loss
from benchmarks.gain.deal import Fleet, deal
from benchmarks.gain.embeddings import WORDS, Words
from benchmarks.gain.heads import ALONE, PROTOTYPES, EmbeddingFleet
from fleet_protocol.bundle import read_bundle
from fleet_protocol.ready_bundles import find_bundle

SPEAKERS = np.repeat([f"{number:08x}" for number in range(120)], 10)
SAID = np.tile(WORDS, 120)


@pytest.fixture(scope="module")
def dealt():
    fleet = Fleet("two new words", devices=8, clips=40, new=("stop", "go"), taught=0.25)
    return deal(fleet, SAID, SPEAKERS, seed=3)


def people(rows):
    return set(SPEAKERS[rows])


def test_people_are_public_or_strangers_or_of_one_device(dealt):
    groups = [dealt.public, dealt.strangers]
    groups += [np.concatenate(pair) for pair in zip(dealt.devices, dealt.held_out, strict=True)]
    for number, group in enumerate(groups):
        for other in groups[number + 1 :]:
            assert not people(group) & people(other)
    assert len(people(dealt.strangers)) == pytest.approx(0.15 * 120, abs=1)


def test_no_clip_is_learned_from_and_judged_on(dealt):
    for mine, held_out in zip(dealt.devices, dealt.held_out, strict=True):
        assert len(mine) == 40
        assert len(held_out) == 20
        assert not set(mine) & set(held_out)


def test_new_words_are_on_the_devices_that_were_taught_them_and_among_strangers_alone(dealt):
    has = [bool(set(SAID[rows]) & {"stop", "go"}) for rows in dealt.devices]
    assert has == [True, True, *[False] * 6]
    assert not {"stop", "go"} & set(SAID[dealt.public])
    assert {"stop", "go"} <= set(SAID[dealt.strangers])
    assert dealt.known == WORDS[:8]


def test_the_same_seed_deals_the_same(dealt):
    again = deal(Fleet("two new words", devices=8, clips=40, new=("stop", "go"), taught=0.25), SAID, SPEAKERS, seed=3)
    assert all(np.array_equal(a, b) for a, b in zip(again.devices, dealt.devices, strict=True))
    other = deal(Fleet("two new words", devices=8, clips=40, new=("stop", "go"), taught=0.25), SAID, SPEAKERS, seed=4)
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
