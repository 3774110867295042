"""Every clip goes to one place, and no speaker is in two of test, public set and devices."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet_simulator.data.corpora import Corpus
from fleet_simulator.errors import CorpusError, RefusedKeyError
from fleet_simulator.experiment.sections import DataSection, Experiment, FleetSection, ModelSection, RoundsSection
from fleet_simulator.partition.splits import split


def experiment(devices, how, alpha=0.5, seed=0, spread=0.0, shares=()):
    data = DataSection("synthetic", test=0.2, public=0.1)
    fleet = FleetSection(devices=devices, split=how, alpha=alpha, size_spread=spread, shares=shares)
    return Experiment(data, fleet, ModelSection("x"), RoundsSection(count=1, seed=seed))


def corpus(clips=1000, speakers=60, classes=5, seed=0):
    rng = np.random.default_rng(seed)
    names = tuple(f"w{n}" for n in range(classes))
    who = np.array([f"s{n}" for n in rng.integers(speakers, size=clips)])
    return Corpus(names, rng.integers(classes, size=clips), who, lambda rows: rows)


@settings(derandomize=True, max_examples=40, deadline=None)
@given(
    how=st.sampled_from(["speaker", "dirichlet", "iid"]),
    devices=st.integers(1, 30),
    alpha=st.floats(0.01, 100),
    spread=st.floats(0, 3),
    seed=st.integers(0, 99),
)
def test_every_clip_goes_to_one_place(how, devices, alpha, spread, seed):
    clips = corpus()
    dealt = split(clips, experiment(devices, how, alpha, seed, spread))
    assert len(dealt.devices) == devices
    assert sorted(np.concatenate([*dealt.devices, dealt.public, dealt.test])) == list(range(1000))
    held = [set(clips.speakers[rows]) for rows in (dealt.test, dealt.public, np.concatenate(dealt.devices))]
    assert not held[0] & held[1]
    assert not (held[0] | held[1]) & held[2]
    if how == "speaker":
        owners = [set(clips.speakers[rows]) for rows in dealt.devices]
        assert sum(len(who) for who in owners) == len(held[2])
        assert all(owners)


def test_a_small_alpha_leaves_a_device_few_classes_and_a_large_one_all():
    def largest_share(alpha):
        dealt = split(corpus(5000), experiment(10, "dirichlet", alpha))
        counts = [np.bincount(corpus(5000).labels[rows], minlength=5) for rows in dealt.devices if len(rows)]
        return np.mean([count.max() / count.sum() for count in counts])

    assert largest_share(0.05) > 0.6 > 0.3 > largest_share(100.0)


@pytest.mark.parametrize("how", ["speaker", "dirichlet", "iid"])
def test_devices_get_the_shares_that_the_experiment_names(how):
    clips = corpus(20_000, 100)  # of 100 people, 20 are for the test and 10 for the public set
    dealt = split(clips, experiment(4, how, 100, shares=(10, 10, 20, 30)))
    if how == "speaker":
        assert [len(set(clips.speakers[rows])) for rows in dealt.devices] == [10, 10, 20, 30]
    sizes = np.array([len(rows) for rows in dealt.devices])
    assert sizes / sizes.sum() == pytest.approx(np.array([1, 1, 2, 3]) / 7, rel=0.2)


def test_shares_are_refused_that_do_not_fit_the_fleet():
    for shares, spread, said in (
        ((1, 2), 0.0, "must be 3 numbers"),
        ((1, 2, 0), 0.0, "above 0"),
        ((1, 2, 3), 1.0, "be 0"),
    ):
        with pytest.raises(RefusedKeyError, match=said):
            FleetSection(devices=3, shares=shares, size_spread=spread)


def test_noise_that_nobody_speaks_is_dealt_to_every_device_and_to_the_test():
    clips = corpus(1000)
    noise = np.arange(1000) % 4 == 0
    clips = Corpus(clips.names, clips.labels, np.where(noise, "", clips.speakers), clips.features)
    dealt = split(clips, experiment(20, "speaker"))
    counts = [int(noise[rows].sum()) for rows in dealt.devices]
    assert max(counts) - min(counts) <= 1
    assert int(noise[dealt.test].sum()) == 50
    assert sorted(np.concatenate([*dealt.devices, dealt.public, dealt.test])) == list(range(1000))


def test_more_devices_than_speakers_are_refused_with_the_way_out():
    with pytest.raises(CorpusError, match=r"42 speakers are left for 50 devices.*dirichlet"):
        split(corpus(), experiment(50, "speaker"))


def test_nobody_to_test_on_is_an_error():
    with pytest.raises(CorpusError, match=r"test = 0.2: of 2 speakers that is nobody.*enlarge it"):
        split(corpus(speakers=2), experiment(1, "iid"))
