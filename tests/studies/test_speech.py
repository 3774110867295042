"""Speech recognition: phrases are of known words and speakers, rounds as counted by hand, tables as the runs say."""

import numpy as np
import pytest

from fleet_protocol.bundle.bundle_file import read_bundle
from studies.fleets import StudyError
from studies.speech import data
from studies.speech import runs as study
from studies.speech.calls import draws
from studies.speech.data import DIGITS, FRAMES, Counts, phrases
from studies.speech.fleet import Personal, SpeechFleet
from studies.speech.start import Pretraining, started
from studies.speech.training import Transcriber
from tests.support.checkout import DATA, built, run_python
from tests.support.tiny_study import rows_of, same_as_tracked, summary_of

ARCHIVE = DATA / "gsc_v2_logmel_jpg.zip"
BANDS = 40


def recording(begin, end, frames=98, quiet=1e-3, loud=1.0, zeros=0):
    """A word from one frame to another, noise about it, and zeros at the end as in a recording that was too short."""
    power = np.full((frames, BANDS), quiet, np.float32)
    power[begin:end] = loud
    power[frames - zeros :] = 1e-6
    return power


def test_a_words_silence_is_cut_off_and_pauses_come_from_it():
    word = data.cut("go", recording(30, 60, zeros=20))
    assert 30 <= len(word.power) <= 40
    assert (word.power == 1.0).any(axis=1).sum() == 30
    np.testing.assert_allclose(word.quiet, 1e-3)


@pytest.fixture
def speaker():
    rng = np.random.default_rng(0)
    texts = [*DIGITS[:4], *data.COMMANDS[:4]]
    return [
        data.Word(text, np.full((30 + 5 * n, BANDS), n + 1, np.float32), rng.uniform(0.001, 0.002, (20, BANDS)))
        for n, text in enumerate(texts)
    ]


def test_phrases_hold_each_of_their_words_where_the_spans_say(speaker):
    made = phrases(speaker, 40, np.random.default_rng(1))
    assert made.x.shape == (40, FRAMES, BANDS)
    values = {word.text: np.log(word.power[0, 0]) for word in speaker}
    for x, text, spans in zip(made.x, made.texts, made.spans, strict=True):
        said = text.split()
        assert len(said) == len(set(said)) == len(spans) in (3, 4)
        for word, (begin, end) in zip(said, spans, strict=True):
            np.testing.assert_allclose(x[begin:end], values[word], atol=1e-6)
        between = np.ones(FRAMES, bool)
        for begin, end in spans:
            between[begin:end] = False
        assert (x[between] < -6).all()
    kinds = {tuple(word in DIGITS for word in text.split()) for text in made.texts}
    assert (True,) * 3 in kinds
    assert (False,) * 3 in kinds
    assert made.seconds == pytest.approx(sum(spans[-1][1] for spans in made.spans) / 100)


def test_letters_lie_over_their_words_with_blanks_between_equal_ones():
    utterance = data.Utterances(np.zeros((1, FRAMES, BANDS), np.float32), ("off go",), (((8, 56), (64, 96)),))
    row = data.aligned(utterance, FRAMES // 4, "fgo ")[0].tolist()
    assert row[:2] == [0, 0]
    assert row[2:14] == [3] * 3 + [1] * 3 + [0] * 3 + [1] * 3
    assert row[14] == 4
    assert row[16:24] == [2] * 4 + [3] * 4
    assert not any(row[24:])


def test_dynamic_selection_saves_more_against_a_draw_by_size_and_nothing_where_devices_are_equal():
    equal = draws([60.0] * 10, ((3, 5),), 0.3, {"3/5": 1.0}, 4)["3/5"]
    assert equal == {"mean": 0.0, "spread": 0.0, "share": 0.0, "mean_prox": 0.0, "spread_prox": 0.0}
    found = draws([1.0] * 5 + [20.0] * 5, ((8, 8),), 0.3, {"8/8": 0.0}, 20)["8/8"]
    assert 0 < found["mean"] < found["mean_prox"] < 100
    assert found["share"] == 1.0


def made_up(run, _):
    """Figures of a run: dynamic selection converges sooner, and the smallest devices gain most from their groups."""
    if run.name.startswith("draws"):
        drawn = {"mean": 3.0, "spread": 4.0, "share": 0.1, "mean_prox": 20.0, "spread_prox": 3.0}
        return dict.fromkeys(study.SAVED, drawn)
    dynamic = "dynamic" in run.name
    rates = [*np.linspace(0.5, 0.2, 20), *[0.2] * 30] if dynamic else np.linspace(0.5, 0.2, 50)
    seconds, test = (540.0, 0.25) if dynamic else (600.0, 0.2)
    devices = [
        {
            "device": n,
            "utterances": (60, 120, 180)[(n > 4) + (n > 7)],
            "start": 0.4,
            "alone": 0.3,
            "global": 0.2,
            "local": 0.18,
            "group_balanced": 0.17 if n < 5 else 0.19,
            "listening": 0.31 if n == 9 else 0.17,
            "strangers": 0.22,
            "global_heard": 0.1,
            "group_balanced_heard": 0.05,
        }
        for n in range(10)
    ]
    found = {"server_test": test, "devices": devices, "processor_s": 9.0}
    if run.name in ("alone", "central"):
        return found | {"development": 0.4, "seconds": [60.0] * 10}
    rounds = [{"development": rate, "seconds": seconds, "processor_s": 1.0} for rate in rates]
    return found | {"rounds": rounds}


def test_tables_are_counted_from_the_runs_and_those_of_the_tracked_results(tmp_path):
    found = summary_of(study, tmp_path, made_up)
    by_hand = {"published", "published-errors", "tuning", "tuning-width", "tuning-personal"}
    same_as_tracked("speech", found, by_hand)
    tables = rows_of(found)
    assert tables["errors"]["alone, 15 passes"] == ["", "", "30.0 ± 0.0", "9.0 ± 0.0"]
    name = "FedAvg, dynamic, 30/50"
    assert tables["time"][name] == ["450.0 ± 0.0", "23.0 ± 0.0", "207.0 ± 0.0"]
    cells = "20.0 ± 0.0, 18.0 ± 0.0, 17.0 ± 0.0, 17.0 ± 0.0, 15.0, 15.0 ± 0.0"
    assert ", ".join(tables["devices"]["20 speakers"][2:]) == cells
    assert tables["devices"]["all"][6] == "10.0"
    facts = tables["facts"]
    assert facts["devices worse on their own test than alone"] == ["3"]
    assert facts["devices"] == ["30"]
    assert facts["fewer errors on phrases trained on, %"] == ["50.0"]
    assert facts["group-balanced over traditional, 20 speakers, points"] == ["-1.0 ± 0.0"]
    assert tables["saved"]["FedAvg, 30/50"][0] == tables["saved"]["FedAvg, 30/50"][2] == ""
    assert tables["saved"][name][0] == "10.0 ± 0.0"
    assert tables["saved"][name][-1] == "5.0 ± 0.0"


def test_savings_are_those_of_the_curves():
    base, other = ({"rounds": [{"development": rate, "seconds": at} for rate in rates]} for rates, at in CURVES)
    found = study.saved(base, other)
    assert found["all"] == pytest.approx(10.0)
    assert study.converged(other) == 23
    assert found["stopped"] == pytest.approx(100 * (1 - 207 / 500))
    assert found["same"] == pytest.approx(100 * (1 - 9 * 22 / 500))  # the baseline's end, 0.212, after 22 rounds
    assert found["converged"] == pytest.approx(100 * (1 - 207 / (10 * study.converged(base))))
    assert study.saved(base, base)["converged"] == 0.0


CURVES = ((np.linspace(0.5, 0.2, 50).tolist(), 10.0), ([*np.linspace(0.5, 0.2, 20), *[0.2] * 30], 9.0))


@pytest.fixture(scope="module")
def network():
    """An untrained bundle as narrow as can be."""
    build = ("-m", "studies.speech.network")
    folder = built("speech-recognition-bundles", lambda folder: run_python(*build, str(folder / "narrow"), "0.05", "8"))
    return read_bundle(folder / "narrow")


def small_deal(speaker):
    def some(seed, count):
        return phrases(speaker, count, np.random.default_rng(seed))

    sizes = (8,) * 5 + (16,) * 3 + (24,) * 2
    train = [[speaker] * size for size in sizes]
    held_out, test = ([some(first + n, 2) for n in range(10)] for first in (60, 20))
    return data.Deal(train, held_out, test, some(40, 4), some(41, 4))


@pytest.mark.slow
def test_a_fleet_learns_in_rounds_and_personalises_by_groups_of_equal_size(network, speaker):
    model = Transcriber(network)
    fleet = SpeechFleet(model, small_deal(speaker), 1, 3)
    assert fleet.sizes == [8] * 5 + [16] * 3 + [24] * 2
    assert fleet.recorded()[0] == pytest.approx(8 * sum(len(word.power) for word in speaker) / 100)
    weights, entries = fleet.rounds(study.method_of("FedAvg", 2, 0.002), 4)
    assert [len(entry["devices"]) for entry in entries] == [3] * 4
    assert entries[-1]["loss"] < entries[0]["loss"]
    for entry in entries:
        utterances = sum(fleet.sizes[one] for one in entry["devices"])
        assert 0.5 * utterances < entry["seconds"] < 2.56 * utterances
    assert sum(fleet.sizes[one] for entry in entries[:2] for one in entry["devices"]) < 48 + 48
    twin = SpeechFleet(Transcriber(network), small_deal(speaker), 1, 3)
    again, _ = twin.rounds(study.method_of("FedAvg", 2, 0.002), 4)
    for name, array in weights.items():
        np.testing.assert_array_equal(array, again[name])
    devices = fleet.personal(weights, Personal(0.002, 1, {"groups": 3, "most_rounds": 2, "least_rounds": 0}))
    assert [(one["group"], one["passes"]) for one in devices] == [(0, 3)] * 5 + [(1, 2)] * 3 + [(2, 1)] * 2
    for one in devices[8:]:
        assert one["local"] == one["group_balanced"]  # no rounds in their group: the same passes from the same weights
    for one in devices:
        assert one["listening"] in (one["global"], one["group_balanced"])


@pytest.mark.slow
@pytest.mark.skipif(not ARCHIVE.is_file(), reason=f"there is no {ARCHIVE}; set AURICLE_DATA")
def test_a_start_is_trained_once_and_kept(network, tmp_path):
    how = Pretraining(width=0.05, speakers=8, each=2, aligned=1, passes=1)
    path = started(ARCHIVE, how, tmp_path)
    written = path.stat().st_mtime_ns
    assert started(ARCHIVE, how, tmp_path).stat().st_mtime_ns == written
    after = read_bundle(path)
    assert network.graph == after.graph
    assert any((array != after.weights[name]).any() for name, array in network.weights.items())


@pytest.mark.skipif(not ARCHIVE.is_file(), reason=f"there is no {ARCHIVE}; set AURICLE_DATA")
def test_a_deal_gives_each_speaker_to_one_part_and_says_where_there_are_too_few():
    speakers = data.Speakers(ARCHIVE)
    counts = Counts(devices=(2, 3), train=2, held_out=1, test=1, development=(2, 2), server_test=(1, 3))
    deal = speakers.deal(counts, 5)
    parts = (*deal.train, *deal.held_out, *deal.test, deal.development, deal.server_test)
    assert [len(part) for part in parts] == [2, 3, 2, 3, 2, 3, 4, 3]
    assert all(len(recordings) > data.MANY_CLIPS // 2 for device in deal.train for recordings in device)
    assert speakers.deal(counts, 5).test[1].texts == deal.test[1].texts
    assert speakers.deal(counts, 6).test[1].texts != deal.test[1].texts
    assert max(len(recordings) for recordings in speakers.words_of(speakers.pretrained(20))) < data.MANY_CLIPS
    with pytest.raises(StudyError, match="a deal takes 4060"):
        speakers.deal(Counts(devices=(4000,)), 5)
