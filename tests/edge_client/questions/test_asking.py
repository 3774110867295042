"""Which sounds are worth a question: open ones that are new, a few a day, the best of a week."""

import dataclasses

import numpy as np
import pytest

from edge_client.detection.sound_names import Guesser
from edge_client.features.front_end import open_front_end
from edge_client.questions.asking import error_rate, guess_about, is_chosen, novelty, openness
from edge_client.questions.store import NO, WEEK_S, Book, Candidate, Question
from edge_client.storage.ages import DAY_S
from fleet_protocol.bundle.bundle_file import read_bundle
from fleet_protocol.bundle.ready_bundles import find_bundle
from fleet_protocol.ground import sample_sounds

NOW = 1_800_000_000.0
STATISTICS = read_bundle(find_bundle("base")).manifest.embedding_statistics
WORDS = STATISTICS.means


def question(at, embedding=WORDS[0], **more):
    return Question("0" * 16, at, "bell", False, 0.5, embedding, **more)


def test_what_lies_at_the_threshold_and_what_was_never_heard_is_worth_most():
    assert openness(0.0) == 1.0
    assert openness(-2.0) == pytest.approx(openness(2.0)) == pytest.approx(0.42, abs=0.01)
    known = [WORDS[0], WORDS[1]]
    assert novelty(WORDS[0], known, STATISTICS) == pytest.approx(0.0, abs=1e-6)
    assert novelty(WORDS[2], known, STATISTICS) > 0.1
    assert novelty(WORDS[2], [], STATISTICS) == 1.0


def worth(value, *, detected=True, at=NOW):
    return Candidate(at, value, detected)


def test_no_more_than_so_many_are_asked_in_a_day():
    asked = Book(tuple(question(NOW - hours * 3600.0) for hours in (1, 5, 23)))
    assert not is_chosen(worth(1.0), asked, 3, NOW)
    assert is_chosen(worth(1.0), asked, 4, NOW)
    assert is_chosen(worth(1.0), asked, 3, NOW + 2 * 3600.0)


@pytest.mark.parametrize(("value", "chosen"), [(0.05, False), (0.95, True)])
def test_a_sound_is_asked_about_where_it_is_among_the_best_of_the_week(value, chosen):
    rng = np.random.default_rng(1)
    others = tuple(worth(rng.uniform(0, 0.9), at=NOW - rng.uniform(0, WEEK_S)) for _ in range(500))
    assert is_chosen(worth(value), Book(candidates=others), 3, NOW) == chosen


def test_in_the_long_run_about_so_many_are_asked_and_they_are_the_better_ones():
    rng, book, asked = np.random.default_rng(2), Book(), []
    for moment in np.sort(rng.uniform(0, 14 * DAY_S, 1400)):
        candidate = worth(float(rng.uniform()), at=NOW + moment)
        if is_chosen(candidate, book, 3, candidate.at):
            asked.append(candidate.worth)
            book = Book((*book.questions, question(candidate.at)), book.candidates)
        week = (one for one in book.candidates if candidate.at - one.at < WEEK_S)
        book = Book(book.questions, (*week, candidate))
    assert 20 <= len(asked) <= 3 * 15
    assert np.mean(asked[3:]) > 0.9  # the first three are asked about whatever they are


def test_the_device_asks_rather_about_what_it_was_wrong_about():
    said = [question(NOW - 3 * DAY_S, said=NO) for _ in range(8)]  # near misses that were nothing
    said += [dataclasses.replace(question(NOW - 3 * DAY_S, said=NO), detected=True) for _ in range(4)]
    book = Book(tuple(said))
    assert error_rate(Book(), detected=True) == error_rate(Book(), detected=False) == 0.5
    assert error_rate(book, detected=False) == 0.1
    assert error_rate(book, detected=True) == pytest.approx(5 / 6)
    detections = tuple(worth(0.5, at=NOW - 3600.0) for _ in range(5))
    assert not is_chosen(worth(0.9, detected=False), Book(book.questions, detections), 3, NOW)
    assert is_chosen(worth(0.9, detected=True), Book(book.questions, detections), 3, NOW)


def test_a_clock_that_was_set_back_stops_no_questions_for_good():
    ahead = NOW + 400 * DAY_S
    book = Book((question(ahead),) * 3, tuple(worth(1.0, at=ahead) for _ in range(50)))
    assert is_chosen(worth(0.5), book, 3, NOW)


def test_a_question_says_what_else_its_sound_may_be_than_what_it_asks():
    manifest = read_bundle(find_bundle("sounds_2s")).manifest
    settings = manifest.feature_settings
    siren = sample_sounds.takes("siren", 1, settings.clip_samples, np.random.default_rng(1))
    embedding = open_front_end(settings)(siren).ravel()
    guesser = Guesser.of(settings, manifest.embedding_statistics)
    asked = question(NOW, embedding)
    assert guess_about(asked, guesser).split(", ")[0] == "siren"
    assert "siren" not in guess_about(dataclasses.replace(asked, label="siren"), guesser)
    assert guess_about(asked, None) == ""
