"""What an owner answers becomes a clip or a negative, at once, and is taken back as easily; the sound goes with it."""

import dataclasses
import time

import pytest

from edge_client.errors import ClipError, QuotaError
from edge_client.owner_changes import purge
from edge_client.questions.answers import answer, answers, in_words, open_questions, store_of
from edge_client.storage.ages import DAY_S
from edge_client.storage.owner_choices import read_wrong_detections
from tests.support.asked_device import Owner, ask, sound


class Answering(Owner):
    """An owner who is asked, and answers."""

    def ask(self, *arguments, **more):
        return ask(self.config, *arguments, **more)

    def says(self, question, *said):
        return answer(self.teaching, question.question_id[:6], *said)

    def count(self, folder):
        return len(list((self.device.clips / folder).glob("*.wav")))

    def sounds(self):
        return len(list(self.device.state.questions_folder.glob("*.wav")))


@pytest.fixture
def owner(tmp_path):
    return Answering(tmp_path)


@pytest.mark.parametrize(
    ("said", "folder"),
    [(("yes",), "kettle"), (("no",), "_not_/kettle"), (("was", "bell"), "bell"), (("was", "cup"), "cup")],
)
def test_an_answer_moves_the_sound_where_it_belongs_and_undo_asks_again(owner, said, folder):
    question = owner.ask(detected=True)
    before = owner.count(folder)
    assert [one.question_id for one in open_questions(owner.teaching)] == [question.question_id]
    owner.says(question, *said)
    assert (owner.count(folder), owner.sounds(), open_questions(owner.teaching)) == (before + 1, 0, [])
    assert bool(read_wrong_detections(owner.device.state.database)) == (said != ("yes",))
    with pytest.raises(ClipError, match="was answered"):
        owner.says(question, "yes")
    assert owner.undo() == 1
    assert (owner.count(folder), owner.sounds()) == (before, 1)
    assert read_wrong_detections(owner.device.state.database) == []
    assert [one.question_id for one in open_questions(owner.teaching)] == [question.question_id]


def test_a_near_miss_that_was_not_is_neither_wrong_nor_learned(owner):
    question, before = owner.ask(detected=False), owner.count("_not_/kettle")
    assert owner.says(question, "no") == "It was not taken for kettle: nothing is to learn."
    assert read_wrong_detections(owner.device.state.database) == []
    assert (owner.count("_not_/kettle"), owner.sounds()) == (before, 0)
    assert [in_words(one) for one in answers(owner.teaching)] == ["not kettle"]
    assert owner.undo() == 0
    assert answers(owner.teaching) == open_questions(owner.teaching) == []


def test_an_answer_about_a_label_that_is_gone_or_no_answer_is_refused(owner):
    question = owner.ask("teapot")
    with pytest.raises(ClipError, match="no sound is called 'teapot' any more; known: bell, kettle"):
        owner.says(question, "yes")
    question = owner.ask(window=sound("down"))
    for said, words in {
        ("perhaps",): "is no answer",
        ("was", "a/b"): "cannot be a label",
        ("was", ""): "empty",
    }.items():
        with pytest.raises(ClipError, match=words):
            owner.says(question, *said)
    assert owner.sounds() == 2


def test_where_the_store_is_full_the_question_stays_open(tmp_path):
    owner = Answering(tmp_path, clips="quota_mb = 0.4")
    question = owner.ask()
    with pytest.raises(QuotaError):
        owner.says(question, "yes")
    assert [one.question_id for one in open_questions(owner.teaching)] == [question.question_id]


def test_a_sound_is_deleted_after_a_day_answered_or_not_and_undo_brings_no_old_one_back(owner):
    old, new = owner.ask(at=time.time() - DAY_S - 1), owner.ask(window=sound("down"))
    assert [one.question_id for one in open_questions(owner.teaching)] == [new.question_id]
    assert owner.sounds() == 1
    with pytest.raises(ClipError):
        owner.says(old, "yes")
    store = store_of(owner.teaching)
    owner.says(new, "yes")
    store.tidy(time.time() + 2 * DAY_S)
    (said,) = [one for one in store.read().questions if one.said]
    store.replace(dataclasses.replace(said, at=said.at - 2 * DAY_S))
    assert owner.undo() == 1
    assert owner.sounds() == 0


def test_purging_and_forgetting_a_label_leave_nothing(owner):
    question = owner.ask()
    owner.says(question, "no")
    owner.ask("bell", sound("down"))
    state = owner.device.state
    store_of(owner.teaching).forget_some("kettle")
    assert {one.label for one in store_of(owner.teaching).read().questions} == {"bell"}
    purge(owner.teaching)
    assert (store_of(owner.teaching).read().questions, owner.sounds()) == ((), 0)
    data = b"".join(path.read_bytes() for path in state.folder.glob("state.sqlite3*"))
    assert question.question_id.encode() not in data  # neither in the database nor in its log
