"""What a device says of a label is what the takes and the words of the pretraining make likely."""

import dataclasses

import numpy as np
import pytest

from edge_client.audio.recordings import loudest_stretch
from edge_client.features.front_end import open_front_end
from edge_client.learning.teaching.advice import advice_on, fit_the_other_kind
from edge_client.learning.teaching.heard import Before, Embeddings
from fleet_protocol.bundle.bundle_file import read_bundle
from fleet_protocol.bundle.ready_bundles import find_bundle
from fleet_protocol.ground import sample_sounds


def takes_of(statistics, mean, count, share=1.0, seed=0):
    """Takes about a mean, whose variance is a share of that within a word: float32 [count, 1, 64]."""
    drawn = statistics.draw(np.zeros(64), count, np.random.default_rng(seed))
    return (mean + np.sqrt(share) * drawn).astype(np.float32)[:, None]


def told(statistics, kind="word", **takes):
    """Return what would help labels, all of one kind, by label."""
    nobody = np.zeros((0, statistics.means.shape[1]), np.float32)
    found = advice_on(Embeddings(takes, nobody, nobody), statistics, dict.fromkeys(takes, kind), {})
    return {one.label: one.lines for one in found}


def test_long_words_that_share_a_part_are_not_called_one_sound_but_told_apart_by_the_other(statistics):
    rng, far = np.random.default_rng(0), far_away(statistics)
    spread = 2 * (far - statistics.means.mean(axis=0))
    ends = {"lights on": far, "lights off": far + spread[::-1], "music on": far, "the lights on": far}
    begins = {name: spread if name.endswith("lights on") or name == "lights off" else spread[::-1] for name in ends}
    takes = {name: takes_of(statistics, mean, 8) for name, mean in ends.items()}
    longer = {"music on": {"music on please": 0.8}}
    before = {
        name: Before(takes_of(statistics, begin, 14, seed=int(rng.integers(99))).swapaxes(0, 1), 0.8)
        for name, begin in begins.items()
    }
    nobody = np.zeros((0, statistics.means.shape[1]), np.float32)
    heard, kinds = Embeddings(takes, nobody, nobody, before=before), dict.fromkeys(takes, "word")
    found = {one.label: one.lines for one in advice_on(heard, statistics, kinds, longer)}
    waits = (
        "'music on please' begins with 'music on': the device waits 0.8 s for the rest before it tells of 'music on'"
    )
    assert waits in found["music on"]
    assert "'lights on' and 'music on' end alike: the device tells them apart by how they begin" in found["lights on"]
    assert "'lights on' and 'lights off' begin alike: the device tells them apart by how they end" in found["lights on"]
    assert any(line.startswith("'lights on' and 'the lights on' sound the same") for line in found["lights on"])
    assert not any("'music on'" in line for line in found["lights off"])


def far_away(statistics):
    """A mean that no word is near."""
    return statistics.means.mean(axis=0) + 2.5 * (statistics.means[0] - statistics.means.mean(axis=0))


def test_takes_as_alike_as_one_person_s_call_for_another_person(statistics):
    centre = statistics.means.mean(axis=0)
    mean = centre + 0.6 * (statistics.means[0] - centre) + 0.6 * (statistics.means[5] - centre)  # beside two words
    one = told(statistics, gong=takes_of(statistics, mean, 10, 0.25))["gong"]
    many = told(statistics, gong=takes_of(statistics, mean, 10))["gong"]
    assert any("by another person" in line for line in one)
    assert not any("by another person" in line for line in many)


@pytest.mark.parametrize("front_end", ["base", "words", "words_and_sounds"])
def test_takes_of_several_people_are_never_called_one_person_s(front_end):
    statistics = read_bundle(find_bundle(front_end)).manifest.embedding_statistics
    said = {word: clips for word, clips in zip(statistics.words, statistics.samples, strict=True) if word.isalpha()}
    takes = {word: clips[:, None] for word, clips in said.items()}  # each clip is of another person
    lines = [line for of_word in told(statistics, **takes).values() for line in of_word]
    assert not any("person" in line for line in lines)
    alike = {word: clips.mean(axis=0) + 0.5 * (clips - clips.mean(axis=0)) for word, clips in takes.items()}
    found = told(statistics, **alike)
    assert sum(any("person" in line for line in of_word) for of_word in found.values()) > 0.5 * len(found)


def test_a_sound_between_words_is_taken_for_more_of_them_and_names_them(statistics):
    yes, no = (statistics.means[statistics.words.index(word)] for word in ("yes", "no"))
    found = told(
        statistics,
        gong=takes_of(statistics, far_away(statistics), 8),
        nope=takes_of(statistics, no, 8, 1.5),
        yes=takes_of(statistics, yes, 8),
    )
    assert any(
        "'nope' sounds much like 'no'" in line and "tell it that this was not 'nope'" in line for line in found["nope"]
    )
    assert not any("--" in line for lines in found.values() for line in lines)  # the page shows it too
    assert not any("'no'" in line for line in found["gong"])


def test_one_sound_under_two_names_is_seen_and_no_advice_to_teach_it_away_is_given(statistics):
    away = far_away(statistics)
    found = told(
        statistics,
        zero=takes_of(statistics, away, 8),
        digit0=takes_of(statistics, away, 8, seed=1),
        yes=takes_of(statistics, statistics.means[statistics.words.index("yes")], 8),
    )
    assert found["zero"][0].startswith("'zero' and 'digit0' sound the same")
    assert not any("sound the same" in advice for advice in found["yes"])
    assert not any("like 'digit0'" in advice for advice in found["zero"])


@pytest.mark.parametrize(("front_end", "warned"), [("words", True), ("sounds_2s", False), ("words_and_sounds", False)])
def test_takes_of_sounds_are_no_words_and_what_a_front_end_knows_is_of_its_kind(front_end, warned):
    manifest = read_bundle(find_bundle(front_end)).manifest
    settings, statistics = manifest.feature_settings, manifest.embedding_statistics
    for label in ("doorbell", "knock", "bark", "telephone"):
        takes = sample_sounds.takes(label, 6, 2 * sample_sounds.RATE_HZ, np.random.default_rng(1))
        clips = np.stack([loudest_stretch(samples, settings) for samples in takes]).astype(np.float32)
        assert fit_the_other_kind(open_front_end(settings)(clips)[:, 0], statistics) == warned
    assert not any(fit_the_other_kind(clips, statistics) for clips in statistics.samples)


@pytest.mark.parametrize("front_end", ["sounds_2s", "words_and_sounds", "words"])
def test_one_doorbell_needs_no_other_person_and_nobody_reads_what_the_pretraining_calls_it(front_end):
    manifest = read_bundle(find_bundle(front_end)).manifest
    settings, statistics = manifest.feature_settings, manifest.embedding_statistics
    takes = {}
    for label in ("doorbell", "bark"):
        sounds = sample_sounds.takes(label, 6, 2 * sample_sounds.RATE_HZ, np.random.default_rng(1))
        clips = np.stack([loudest_stretch(samples, settings) for samples in sounds]).astype(np.float32)
        embedded = open_front_end(settings)(clips)[:, 0]
        # Six presses of one bell are more alike than any that were recorded here.
        takes[label] = (embedded.mean(axis=0) + 0.1 * (embedded - embedded.mean(axis=0)))[:, None]
    for lines in told(statistics, "word" if front_end == "words" else "sound", **takes).values():
        assert not any("person" in line for line in lines)
        assert not any(name in line for line in lines for name in statistics.words if not name.isalpha())


def test_a_sound_that_is_near_another_of_the_owner_s_is_named_and_no_word_that_nobody_says(statistics):
    mean = statistics.means[statistics.words.index("yes")]
    internal = dataclasses.replace(statistics, words=tuple(f"{word}_4" for word in statistics.words))
    found = told(
        internal, yes=takes_of(statistics, mean, 8, 1.5), yeah=takes_of(statistics, 0.7 * mean, 8, 1.5, seed=1)
    )
    assert not any("_4" in line for lines in found.values() for line in lines)
    assert any("yeah" in line for line in found["yes"])
