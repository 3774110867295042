"""An owner's answer to a question: a take by another situation, or a negative; learned at once, and easily undone."""

import dataclasses
import time
from pathlib import Path

from edge_client.clips.folders import Clip, is_label
from edge_client.clips.store import ClipStore, link_or_copy
from edge_client.errors import ClipError, EdgeError
from edge_client.owner import Teaching
from edge_client.questions.store import NO, SAYINGS, WAS, WEEK_S, YES, Question, QuestionStore
from edge_client.storage.device_state import DeviceState
from edge_client.storage.owner_choices import add_wrong_detections, remove_wrong_detections
from fleet_protocol.ground.atomic_files import remove_durably

OFFER = "offer:"
"""What the identifiers of questions about sounds that others teach begin with."""
_UNDO = "undo"


def store_of(teaching: Teaching) -> QuestionStore:
    """Return a device's questions."""
    return QuestionStore(teaching.state, teaching.settings.digest)


def answer(teaching: Teaching, given: str, says: str, label: str = "") -> str:
    """Take an owner's answer, one of ``SAYINGS``; return what happens now, for him.

    ``given``: the beginning of the question's identifier; ``label``: what it was, for ``was``. Raises ClipError if
    there is no such question, the label cannot be one, or another process is changing the store; QuotaError if there is
    no room. A question about a sound of others is answered by yes or no.
    """
    if given.startswith(OFFER):
        return answer_offer(teaching, given.removeprefix(OFFER), says)
    if says not in SAYINGS:
        raise ClipError(f"{says[:100]!r} is no answer; say one of {', '.join(SAYINGS)}")
    store = store_of(teaching)
    with teaching.store.changing():
        question = store.find(given)
        if question.label not in (known := teaching.known_labels()):
            raise ClipError(f"no sound is called {question.label!r} any more; known: {', '.join(known) or 'none'}")
        if says == WAS and teaching.require_slot(label) == question.label:
            says = YES
        folder = _folder(teaching, question, says, label)
        shared = bool(folder) and (teaching.store.folder / folder / question.file_name).exists()
        number = teaching.state.acts.next_number()
        said = dataclasses.replace(
            question, said=says, said_at=time.time(), number=number, folder=folder, shared=shared
        )
        store.replace(said)
        try:
            finish(teaching.store, teaching.state, store, said)
        except EdgeError:  # there is no room for the sound: the question stays open
            store.replace(question)
            raise
    return teaching.after(terminal=False) if folder else f"It was not taken for {question.label}: nothing is to learn."


def answer_offer(teaching: Teaching, given: str, says: str) -> str:
    """Take an owner's answer about a sound that others teach, by its identifier or name; return what happens now.

    ``says``: ``yes``, ``no``, or ``undo``: what the fleet says decides again. Raises ClipError if there is no such
    sound, or this is no answer.
    """
    if says not in (YES, NO, _UNDO):
        raise ClipError(f"{says[:100]!r} is no answer to that; say {YES} or {NO}")
    offers = teaching.offers()
    named = [one for one in offers if one.class_id == given] or [one for one in offers if one.name == given]
    if len(named) != 1:
        names = ", ".join(f"{one.name} ({one.class_id})" for one in offers)
        raise ClipError(f"{given[:100]!r} is no sound that others of the fleet teach; there is: {names or 'none'}")
    teaching.state.offers.say(named[0].class_id, {YES: True, NO: False}.get(says))
    if says == _UNDO:
        return f"What the fleet says decides about {named[0].name} again."
    what = "is listened for, once it was tried" if says == YES else "is not listened for"
    return f"{named[0].name} {what}. {teaching.after(terminal=False)}"


def _folder(teaching: Teaching, question: Question, says: str, label: str) -> str:
    """Return the folder of the clip store that gets the sound; "" for none."""
    # A near miss that was none is no negative: the device was right, and a negative so near silences the label itself.
    if says == NO:
        return teaching.require_rejectable(question.label) if question.detected else ""
    return teaching.require_slot(question.label if says == YES else label)


def finish(clips: ClipStore, state: DeviceState, store: QuestionStore, said: Question) -> None:
    """Do what follows from a written answer, as often as it takes. Raises EdgeError as :func:`answer` does."""
    if said.detected and said.said in (NO, WAS):
        add_wrong_detections(state.database, [(said.at, said.label)])
    sound = store.sound(said)
    if not said.folder:
        remove_durably(sound)
    elif sound.exists():
        clips.take_in(sound, said.folder)


def finish_all(clips: ClipStore, state: DeviceState, store: QuestionStore) -> None:
    """Do what a power cut or a full disk left undone of answers. Raises EdgeError, OSError as :func:`answer` does."""
    if not any(_is_undone(store, said) for said in store.read().questions):
        return
    with clips.changing():  # an answer may be on its way, or be taken back
        for said in store.read().questions:
            if _is_undone(store, said):
                finish(clips, state, store, said)


def _is_undone(store: QuestionStore, said: Question) -> bool:
    return bool(said.said) and store.sound(said).exists()


def open_questions(teaching: Teaching) -> list[Question]:
    """Return the questions that wait for an answer, the newest first; what is a day old is removed."""
    store, known = store_of(teaching), set(teaching.known_labels()) - teaching.state.choices.switched_off()
    store.tidy()
    return [one for one in store.open_questions() if one.label in known]


def answers(teaching: Teaching) -> list[Question]:
    """Return the answers of a week, the newest first; they can be undone."""
    now = time.time()
    found = [one for one in store_of(teaching).read().questions if one.said and abs(now - one.said_at) < WEEK_S]
    return sorted(found, key=lambda one: -one.number)


def in_words(said: Question) -> str:
    """Return what an owner said, for people."""
    return f"not {said.label}" if said.said == NO else Path(said.folder).name


def take_back(teaching: Teaching, said: Question) -> int:
    """Undo an answer: its clip leaves the store, and while the sound may be kept the question is open again.

    Returns how many clips left: none where it moved on meanwhile. The sound waits with the questions until the question
    is written: where a power cut or a full disk ends this before, the answer stands (:func:`finish_all`). Raises
    ClipError if another process is changing the store.
    """
    store, clips = store_of(teaching), teaching.store
    with clips.changing():
        path = clips.folder / said.folder / said.file_name
        leaves = bool(said.folder) and path.exists() and not said.shared
        if leaves:
            link_or_copy(path, store.sound(said))
            clips.delete(Clip(said.folder, path))
        if said.detected and said.said in (NO, WAS):
            remove_wrong_detections(teaching.state.database, [(said.at, said.label)])
        if said.folder and is_label(said.folder):
            teaching.forget_emptied([said.folder])
        store.replace(dataclasses.replace(said, said="", said_at=0.0, number=0, folder="", shared=False))
        if not said.is_fresh(time.time()):
            remove_durably(store.sound(said))
    return int(leaves)
