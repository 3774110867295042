"""The benchmark of what prototypes tell, on made-up voices of which the truth is known."""

import json
import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant
from sklearn.metrics import roc_auc_score

from benchmarks.command import BenchmarkError
from benchmarks.prototype_privacy import __main__ as program
from benchmarks.prototype_privacy import identification, membership, picture, recognition
from benchmarks.prototype_privacy.attacker import DELTA, Attacker, closeness, epsilon, found_at, greatest_area
from benchmarks.prototype_privacy.corpus import WORDS, Corpus, read
from benchmarks.prototype_privacy.membership import CLIP, OTHER_WORDS, SAME_WORD, Case, Sender
from fleet_protocol.bundle import read_bundle
from fleet_protocol.ready_bundles import FOLDER

BUNDLE = FOLDER / "base.auricle"
PEOPLE, TAKES = 150, 6
# Standard deviations, whitened, of what a clip, a speaker's word and a voice add.
CLIP_SPREAD, WORD_SPREAD, VOICE_SPREAD = 0.7, 0.6, 0.3


def spoken(voice_spread=VOICE_SPREAD):
    """Return ten words and an eleventh by 150 people, a fifth of whom are victims."""
    rng = np.random.default_rng(0)
    statistics = read_bundle(BUNDLE).manifest.embedding_statistics
    words, speakers, z = [], [], []
    voices = voice_spread * rng.normal(size=(PEOPLE, 64))
    for word in (*WORDS, "tree"):
        centre = 2 * rng.normal(size=64)
        for who, voice in enumerate(voices):
            own = centre + voice + WORD_SPREAD * rng.normal(size=64)
            z.append(own + CLIP_SPREAD * rng.normal(size=(TAKES, 64)))
            words += [word] * TAKES
            speakers += [f"{who:08x}"] * TAKES
    embeddings = statistics.means.mean(axis=0) + np.linalg.solve(statistics.whitening.T, np.concatenate(z).T).T
    victims = np.array([int(who, 16) % 5 == 1 for who in speakers])
    return Corpus(embeddings.astype(np.float32), np.array(words), np.array(speakers), victims, statistics)


@pytest.fixture(scope="module")
def corpus():
    return spoken()


@pytest.fixture(scope="module")
def senders(corpus):
    return {noise: Sender(corpus, 16.0, noise) for noise in (0.0, 4.0)}


def test_epsilon_is_the_published_one_and_that_of_a_numerical_accountant():
    # The smallest noise for epsilon 1 and delta 1e-5, as the program of Balle & Wang (2018) prints it.
    assert epsilon(3.730631634815942) == pytest.approx(1.0, abs=1e-6)
    accountant = PLDAccountant().compose(dp_accounting.SelfComposedDpEvent(dp_accounting.GaussianDpEvent(2.0), 10))
    assert epsilon(2.0, releases=10) == pytest.approx(accountant.get_epsilon(DELTA), rel=1e-3)
    assert (epsilon(0.0), greatest_area(0.0)) == (math.inf, 1.0)


def test_no_attack_exceeds_the_area_of_two_normal_distributions():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=40_000)
    inside = np.arange(40_000) < 20_000
    scores[inside] += 1 / 0.8
    assert roc_auc_score(inside, scores) == pytest.approx(greatest_area(0.8), abs=0.01)


def test_found_needs_more_than_the_false_alarms_and_the_distance_is_that_of_the_means():
    inside = np.array([True, True, False, False])
    assert found_at(np.array([3.0, 0.5, 1.0, 0.0]), inside, 0.01) == 0.5
    assert closeness(np.array([[3.0, 4.0]]), np.zeros((1, 2))).tolist() == [-5.0]


def test_the_attacker_measures_what_the_voices_were_made_of(corpus):
    found = Attacker.learn(corpus.whitened(corpus.embeddings), corpus.words, corpus.speakers)
    spreads = [np.sqrt(np.trace(part) / 64) for part in (found.clip, found.word, found.voice)]
    expected = [CLIP_SPREAD, np.hypot(WORD_SPREAD, VOICE_SPREAD), VOICE_SPREAD]
    assert spreads == pytest.approx(expected, rel=0.1)
    np.testing.assert_allclose(found.of_mean(1, 1, 1), found.clip + found.word)
    np.testing.assert_allclose(found.of_mean(2, 4, 1), (found.clip / 4 + found.word) / 2)


@pytest.mark.parametrize(
    "case",
    [Case(CLIP, 1, 4, stranger=False), Case(CLIP, 10, 1), Case(SAME_WORD, 1, 2), Case(OTHER_WORDS, 1, 4)],
    ids=str,
)
def test_attacks_succeed_without_noise_and_hardly_with_much_of_it(senders, case, monkeypatch):
    monkeypatch.setattr(membership, "CASES", (case,))
    plain, noisy = (membership.measure(sender, case, 40, range(2)) for sender in senders.values())
    assert plain["auc"] > 0.75
    assert noisy["auc"] < plain["auc"] - 0.1
    assert plain["clips"] == case.speakers * case.takes
    assert 0 <= noisy["found"] <= 1


def test_a_clip_is_found_less_easily_among_more(senders):
    sender = senders[0.0]
    cases = [case for case in membership.CASES if case.known == CLIP and case.stranger and case.speakers <= 20]
    areas = [membership.measure(sender, case, 60, range(2))["auc"] for case in cases]
    assert areas[0] > 0.99
    assert areas[-1] < areas[0]


def test_nobody_outside_a_mean_is_drawn_from_inside(senders):
    sender = senders[0.0]
    rng = np.random.default_rng(0)
    for case in [one for one in membership.CASES if one.speakers <= 20]:
        rows, inside, outside = membership._draw(sender, case, rng)
        people = sender.corpus.speakers
        assert len(set(rows)) == len(rows) == case.speakers * case.takes
        assert sender.corpus.victims[[*rows, *inside, *outside]].all()
        assert set(people[inside]) <= set(people[rows])
        assert not set(outside) & set(rows)
        assert bool(set(people[outside]) & set(people[rows])) is not case.stranger
        assert (case.known == CLIP) is bool(set(inside) & set(rows))


def test_voices_are_recognised_and_without_a_voice_it_is_chance(senders):
    case = identification.Case(4, 4)
    assert identification.measure(senders[0.0], case, range(3))["right"] > 60
    voiceless = Sender(spoken(voice_spread=0.0), 16.0, 0.0)
    assert identification.measure(voiceless, case, range(10))["right"] < 15  # chance is 5


def test_noise_costs_recognition(corpus, monkeypatch):
    monkeypatch.setattr(recognition, "FLEETS", ((1, 4),))
    monkeypatch.setattr(recognition, "HEAD_FLEETS", ((1, 4),))
    rows = recognition.measure(corpus, BUNDLE, 16.0, [0.0, 4.0], range(1))
    by_key = {(row["rule"], row["noise"]): row for row in rows}
    assert set(by_key) == {(rule, noise) for rule in ("nearest", "head") for noise in (0.0, 4.0)}
    assert by_key["nearest", 0.0]["recognised"] > 90
    assert by_key["head", 0.0]["recognised"] > 90
    assert by_key["nearest", 4.0]["recognised"] < 75
    assert {row["trials"] for row in rows} == {2}


@pytest.mark.slow
def test_the_program_prints_what_the_picture_draws(corpus, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(program, "read", lambda data, bundle: corpus)
    monkeypatch.setattr(program, "front_ends", lambda names, build, bundles: [type("F", (), {"bundle": BUNDLE})])
    kept = tuple(case for case in membership.CASES if case.speakers <= 20 and case.known != OTHER_WORDS)
    monkeypatch.setattr(membership, "CASES", kept)
    monkeypatch.setattr(recognition, "FLEETS", ((1, 8),))
    monkeypatch.setattr(recognition, "HEAD_FLEETS", ())
    wanted = ["--noise", "0", "1", "--seeds", "1", "--trials", "10", "--fleets", "1", "--clip-norm", "16", "--json"]
    assert program.main(wanted) == 0
    result = tmp_path / "result"
    result.write_text(capsys.readouterr().out)
    report = json.loads(result.read_text().splitlines()[-1])
    assert report["accounts"][0]["epsilon"] == pytest.approx(4.38)
    assert len(report["membership"]) == 2 * len(kept)
    found = picture.read([result])
    assert [len(points) for _, points in picture.recognised(found)] == [2]
    assert {len(points) for name, points in picture.attacked(found)[:-1]} == {2}
    picture.draw([result], tmp_path / "picture.svg")
    assert "no noise" in (tmp_path / "picture.svg").read_text()


def test_a_folder_without_the_archive_is_named(tmp_path):
    with pytest.raises(BenchmarkError, match="gsc_v2_logmel_jpg"):
        read(tmp_path, BUNDLE)
