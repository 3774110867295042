"""The listening benchmark counts as the literature does, and runs from teaching to figures."""

import itertools
import json
import re
from dataclasses import asdict

import numpy as np
import pytest

from benchmarks.command import BenchmarkError
from benchmarks.listening.dialogue import dialogue, sentences
from benchmarks.listening.material import RATE_HZ, Half, Word
from benchmarks.listening.measurement import Heard, Listened, at_most, averaged, hits, rates
from benchmarks.listening.one_front_end import earlier_of
from benchmarks.listening.phrases import join
from edge_client.audio.recordings import loud_stretch, read_recording
from edge_client.config.sections import DetectorConfig
from edge_client.detection.posterior_handling import Decisions
from edge_client.detection.scores import STATES, read_table
from tests.support.checkout import DATA, run_python
from tests.support.sounds import TONES, write_words

WORDS = (Word(10.0, "yes"), Word(14.0, None), Word(18.0, "no"), Word(22.0, "yes"))


def test_every_event_but_the_first_right_one_of_a_word_is_a_false_accept():
    events = ((5.0, "no"), (10.8, "yes"), (12.0, "yes"), (14.5, "yes"), (17.9, "no"), (18.5, "yes"), (30.0, "no"))
    heard = [Heard(*event) for event in events]
    # False: three in the background, one repeated, one for another word, one for a wrong one.
    assert hits(WORDS, heard) == ({0}, 6)
    assert rates(WORDS, heard, 1800.0) == {"false_accepts_per_hour": 12.0, "false_reject_percent": 66.7}


def test_a_word_that_follows_a_wrong_event_can_still_be_heard_and_silence_rejects_all():
    assert hits(WORDS[:1], [Heard(10.5, "no"), Heard(11.0, "yes")]) == ({0}, 1)
    assert rates(WORDS, [], 3600.0) == {"false_accepts_per_hour": 0.0, "false_reject_percent": 100.0}


def test_what_would_be_heard_at_other_thresholds_is_what_the_detector_hears_where_one_waits_too():
    rng = np.random.default_rng(0)
    scores = rng.random((1600, 3)).astype(np.float32) ** 2
    limits = rng.random((1600, 3)).astype(np.float32) ** 0.25
    thresholds = np.array([0.4, 0.5, 0.6], np.float32)
    labels, config = ("yes", "no", "up"), DetectorConfig(refractory_s=1.0, over_after_s=1.0, waits={"up": ["yes"]})
    for hop_s, average_s in itertools.product((0.1, 0.25, 0.256, 0.5), (0.0, 0.25, 0.5, 0.75)):
        at_s = hop_s * np.arange(1, 1601)
        handler = Decisions(thresholds[:, None], labels, config, ["no"], average_s=average_s)
        rows = zip(scores, at_s.tolist(), limits, strict=True)
        slots = [(time, handler.update(row, time, limit if limit[0] > 0.5 else None)) for row, time, limit in rows]
        expected = [Heard(time, labels[slot]) for time, slot in slots if slot is not None]
        assert len(expected) > 20
        means = averaged(scores, at_s, average_s, np.where(limits[:, :1] > 0.5, limits, 1.0).astype(np.float32))
        listened = Listened(labels, (), means, at_s, config, 100.0, lasting=frozenset({"no"}))
        assert listened.at(thresholds) == expected
        assert listened.at_each(np.stack([thresholds, np.ones(3, np.float32)], axis=1)) == [expected, []]


def test_a_stream_has_for_each_window_those_before_it_that_it_has():
    windows = np.arange(8, dtype=np.float32).reshape(4, 2)
    np.testing.assert_array_equal(earlier_of(windows, 2, STATES)[0], [[np.nan] * 2, [np.nan] * 2, [0, 1], [2, 3]])
    np.testing.assert_array_equal(earlier_of(windows, 1, STATES)[2], [*[[np.nan] * 2] * 3, [0, 1]])
    assert np.isnan(earlier_of(windows, 2, STATES)[1:]).all()
    assert np.isnan(earlier_of(windows, 0, STATES)).all()


def test_the_dialogue_has_no_taught_word_and_is_as_long_as_asked_and_the_same_each_time():
    spoken = itertools.islice(sentences(("Down", "salt", "bank"), np.random.default_rng(0)), 300)
    assert not [one for one in spoken if {"down", "salt", "bank"} & set(re.findall("[a-z]+", one.lower()))]
    half = Half((), (np.random.default_rng(0).normal(size=RATE_HZ).astype(np.float32),))
    first, again = (np.concatenate(list(dialogue(half, 20 / 3600, ("yes",), 3))) for _ in range(2))
    assert len(first) == 20 * RATE_HZ
    assert np.array_equal(first, again)
    assert np.abs(first).max() > 0.05


def test_the_fewest_false_rejects_within_a_rate_are_found():
    points = [
        {"false_accepts_per_hour": rate, "false_reject_percent": rejects}
        for rate, rejects in ((30.0, 10.0), (9.0, 20.0), (10.0, 19.0), (1.0, 40.0))
    ]
    assert at_most(points, 10.0) == 19.0
    assert at_most(points, 0.5) == 100.0


@pytest.mark.slow
@pytest.mark.skipif(not (DATA / "gsc_v2_test").is_dir(), reason=f"there are no recordings in {DATA}")
def test_it_runs_from_teaching_to_figures(pretrained_bundle):
    arguments = ["--front-ends", "base", "--bundles", str(pretrained_bundle.parent), "--minutes", "2", "--json"]
    printed = run_python("-m", "benchmarks.listening", "--data", str(DATA), *arguments)
    result = json.loads(printed.splitlines()[-1])
    (found,) = result["front_ends"]
    assert found["front_end"] == "base"
    assert found["clips_per_label"] > 100
    assert 0 < found["real_time_factor"] < 1
    assert [ratio["snr_db"] for ratio in found["snr"]] == [20, 10, 5]
    for ratio in found["snr"]:
        assert 0 <= ratio["false_reject_percent_at"]["10"] <= ratio["false_reject_percent_at"]["2"] <= 100
        # What the detector itself did is what is decided again for the promise that is its default.
        for point in ratio["promised"]:
            if point["promised_per_label"] == 1:
                assert point["false_accepts_per_hour"] == ratio["false_accepts_per_hour"]
                assert point["false_reject_percent"] == ratio["false_reject_percent"]
    assert found["snr"][0]["promised"]


def test_phrases_are_two_words_of_one_speaker_behind_one_another_and_an_unknown_word_is_refused(tmp_path):
    words = tuple(TONES)[:3]
    write_words(tmp_path / "words", words, 2)
    join(tmp_path / "words", (words[:2], words[2:]), tmp_path / "phrases")
    made = sorted(path.relative_to(tmp_path / "phrases").as_posix() for path in tmp_path.glob("phrases/*/*"))
    assert made == sorted(f"{word} {words[2]}/speaker{number}_0.wav" for word in words[:2] for number in (0, 1))
    phrase = read_recording(tmp_path / "phrases" / made[0], RATE_HZ)
    length = sum(
        end - begin
        for word in made[0].split("/")[0].split()
        for begin, end in [loud_stretch(read_recording(tmp_path / "words" / word / "speaker0_0.wav", RATE_HZ), RATE_HZ)]
    )
    begin, end = loud_stretch(phrase, RATE_HZ)
    assert 0 < (end - begin - length) / RATE_HZ < 0.2
    with pytest.raises(BenchmarkError, match=r"no recordings in .*nothing; --join names folders of --words"):
        join(tmp_path / "words", (["nothing"], words), tmp_path / "none")


@pytest.mark.slow
@pytest.mark.skipif(not (DATA / "gsc_v2_test").is_dir(), reason=f"there are no recordings in {DATA}")
def test_own_words_are_taught_by_their_owner_and_heard_through_his_room(pretrained_bundle, tmp_path):
    write_words(tmp_path, TONES, 8)
    people = ["--owners", "1", "--takes", "2", "--json"]
    arguments = [
        "--words",
        str(tmp_path),
        "--rooms",
        "--rejected",
        "1",
        "--talk",
        str(tmp_path),
        "--hours",
        "0.005",
        *people,
    ]
    chosen = ["--front-ends", "base", "--bundles", str(pretrained_bundle.parent), "--data", str(DATA)]
    printed = run_python("-m", "benchmarks.listening", *chosen, *arguments)
    (found,) = json.loads(printed.splitlines()[-1])["front_ends"]
    assert found["talk_hours"] == 0.005
    assert (found["front_end"], found["takes"], found["teachers"], found["rooms"]) == ("base", 2, 1, True)
    assert [row["snr_db"] for row in found["snr"]] == [20, 10, 5]
    for row in found["snr"]:
        for who in ("owner", "others"):
            assert 0 <= row[who]["10"] <= row[who]["2"] <= row[who]["0.5"] <= 100
            assert 0 <= row["own_thresholds"][who] <= 100
        assert row["own_thresholds"]["false_accepts_per_hour"] >= 0
        assert 0 <= row["talk"]["1"] <= row["talk"]["0.1"] <= 100
        assert row["before"].keys() == {"owner", "others", "own_thresholds"}
    arguments = ["--choose", str(tmp_path), "--trials", "2", "--into", str(tmp_path / "scores.toml"), *people]
    result = json.loads(run_python("-m", "benchmarks.listening", *chosen, *arguments).splitlines()[-1])
    assert [row["trial"] for row in result["trials"]] == ["start", "yes 1.25"]
    best = min(result["trials"], key=lambda row: row["missed"])
    assert asdict(read_table(tmp_path / "scores.toml")) == result["table"]
    assert result["table"]["other_word"]["yes"] == (1.25 if best["trial"] == "yes 1.25" else 1.0)
