"""The listening benchmark counts as the literature does, and runs from teaching to figures."""

import json
from collections import Counter

import pytest

from benchmarks.listening.scoring import Heard, score
from benchmarks.listening.streams import Word
from tests.support.checkout import DATA, run_python

WORDS = (Word(10.0, "yes"), Word(14.0, None), Word(18.0, "no"), Word(22.0, "yes"))


def test_every_event_but_the_first_right_one_of_a_word_is_a_false_accept():
    heard = [
        Heard(5.0, "no"), Heard(10.8, "yes"), Heard(12.0, "yes"), Heard(14.5, "yes"), Heard(17.9, "no"),
        Heard(18.5, "yes"), Heard(30.0, "no"),
    ]  # fmt: skip
    found = score(WORDS, heard, 1800.0)
    assert found.said == Counter(yes=2, no=1)
    assert found.rejected == Counter(no=1, yes=1)
    assert found.others == 1
    assert found.accepts == Counter({"background": 3, "repeat": 1, "other word": 1, "confusion": 1})
    assert found.false_rejects == pytest.approx(2 / 3)
    assert found.false_accepts_per_hour == 12.0


def test_a_word_that_follows_a_wrong_event_can_still_be_heard():
    found = score(WORDS[:1], [Heard(10.5, "no"), Heard(11.0, "yes")], 3600.0)
    assert not found.rejected
    assert found.accepts == Counter(confusion=1)


def test_silence_is_no_accept_and_all_rejects():
    found = score(WORDS, [], 3600.0)
    assert found.false_rejects == 1.0
    assert found.false_accepts_per_hour == 0.0


@pytest.mark.slow
@pytest.mark.skipif(not (DATA / "gsc_v2_test").is_dir(), reason=f"there are no recordings in {DATA}")
def test_it_runs_from_teaching_to_figures(bundles):
    arguments = ["--architectures", "cnn2", "--bundles", str(bundles["cnn2"].parent), "--minutes", "2", "--json"]
    printed = run_python("-m", "benchmarks.listening", "--data", str(DATA), *arguments)
    result = json.loads(printed.splitlines()[-1])
    assert result["import_s"] > 0
    (network,) = result["architectures"]
    assert network["architecture"] == "cnn2"
    assert network["clips_per_label"] > 100
    assert network["idle_mb"] < 70
    assert 0 < network["real_time_factor"] < 1
    assert [ratio["snr_db"] for ratio in network["snr"]] == [20, 10, 5]
    for ratio in network["snr"]:
        assert set(ratio["false_reject_percent_by_label"]) == {"yes", "no", "up", "down"}
        at_default = next(point for point in ratio["curve"] if point["threshold"] == 0.7)
        assert at_default["false_accepts_per_hour"] == ratio["false_accepts_per_hour"]
        assert at_default["false_reject_percent"] == ratio["false_reject_percent"]
