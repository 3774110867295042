"""Everything that an owner did within a week, in words, and taking it back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import get_args

from edge_client.clips.embedding_cache import forget_clips
from edge_client.clips.folders import REJECTED, Clip, choose_known, clip_files
from edge_client.clips.store import link_or_copy
from edge_client.errors import ClipError
from edge_client.owner import Teaching
from edge_client.owner_changes import call_class, throw_away
from edge_client.questions.answers import answers, in_words, take_back
from edge_client.storage.owner_acts import Act, Move, Moving
from edge_client.storage.owner_choices import Listened, remove_wrong_detections

_BETWEEN_FOLDERS = get_args(Moving)


@dataclass(frozen=True)
class Change:
    """A change that can be undone; its number names it. ``at``: seconds since 1970.

    ``words``: what was done, for people; ``clips``: how many it moved or brought; ``heard``: kind and time, ms since
    1970, of the events that it says something about, and ``answer`` what it says.
    """

    number: int
    at: float
    kind: str
    label: str
    words: str
    clips: int
    heard: tuple[tuple[str, int], ...] = ()
    answer: str = ""

    @property
    def is_undo(self) -> bool:
        """Whether it took something back itself."""
        return self.kind == "taken back"


def changes(teaching: Teaching) -> list[Change]:
    """Return what can be undone, the newest first."""
    found = []
    for act in teaching.state.acts.all():
        count = sum(_counts(act, move) for move in act.moves)
        words, answer = _words(act, count), _answer(act) if act.kind == "said" else ""
        found.append(Change(act.number, act.at, act.kind, act.former or act.label, words, count, act.heard, answer))
    for said in answers(teaching):
        words = f"{said.label} was asked about; you said: {in_words(said)}"
        found.append(Change(said.number, said.said_at, "answered", said.label, words, int(bool(said.folder))))
    return sorted(found, key=lambda change: -change.number)


def _words(act: Act, count: int) -> str:
    former, label = act.former, _named(act.label)
    clips = f"{count} {'clip' if count == 1 else 'clips'}"
    were = "was" if count == 1 else "were"
    match act.kind:
        case "renamed":
            return f"{_named(former)} was renamed to {label}, {clips}"
        case "named":
            return f"{former}, a sound of the fleet, was renamed to {label}"
        case "moved":
            return f"{clips} of {_named(former)} {were} moved to {label}"
        case "deleted":
            return f"{_named(former)} was deleted, {clips}"
        case "removed":
            return f"{clips} of {_named(former)} {were} deleted"
        case "taken back":
            return f"{clips} of {_named(former)} {were} taken back"
        case "recorded":
            return f"{count} {'take' if count == 1 else 'takes'} of {label} {were} recorded"
        case "added":
            return f"{count} {'recording' if count == 1 else 'recordings'} of {label} {were} added"
        case "imported":
            return f"{clips} {were} imported with what belongs to them"
        case "chosen":
            return f"{label or former} is {'' if label else 'no longer '}listened for as built-in"
        case "tuned":
            return f"the sensitivity to {label} was changed"
        case "said":
            if act.former:
                return f"{former} was heard; you said: {_answer(act)}"
            return f"{f'{count} unknown sounds were' if count > 1 else 'an unknown sound was'} named {label}"


def _answer(act: Act) -> str:
    if act.former and act.label in ("", f"{REJECTED}/{act.former}"):
        return "that was wrong"
    return "yes" if act.label == act.former else _named(act.label)


def _counts(act: Act, move: Move) -> bool:
    """Return whether a clip is one of what was renamed, and not of what is not it."""
    return act.kind != "renamed" or move.source == act.former


def _named(folders: str) -> str:
    """Return folders of the store for people: the labels, or what is not one."""
    kinds = [(PurePosixPath(one).name, one.startswith(f"{REJECTED}/")) for one in folders.split(", ")]
    return ", ".join(f"what is not {label}" if is_none else label for label, is_none in kinds)


def undo(teaching: Teaching, change: Change) -> int:
    """Take a change back; return how many clips went back or away. What moved on meanwhile stays.

    Raises ClipError if it cannot be undone (any more), no slot is free, or another process is changing the store;
    QuotaError if there is no room.
    """
    with teaching.store.changing():
        for said in answers(teaching):
            if change.kind == "answered" and said.number == change.number:
                return take_back(teaching, said)
        for act in teaching.state.acts.all():
            if change.kind == act.kind and act.number == change.number:
                count = _undo_act(teaching, act)
                forget_clips(teaching.state.embeddings_path, clip_files(teaching.store.folder))
                return count
    raise ClipError("this cannot be undone any more: it was undone already, or a week has passed")


def _undo_act(teaching: Teaching, act: Act) -> int:
    if act.kind == "named":
        return _name_back(teaching, act)
    return _move_back(teaching, act) if act.kind in _BETWEEN_FOLDERS else _take_away(teaching, act)


def _name_back(teaching: Teaching, act: Act) -> int:
    """Call a class of the fleet as before: by the owner's former word, or the fleet's."""
    acts = teaching.state.acts
    chosen_before = any(one.kind == "named" and one.label == act.former for one in acts.all())
    call_class(teaching, act.label, act.former if chosen_before else None)
    acts.forget(act.number)
    return 0


def _move_back(teaching: Teaching, act: Act) -> int:
    """Put clips back where they were; return how many of the label's are."""
    store, back = teaching.store, 0
    for label in sorted({move.source for move in act.moves}):
        teaching.require_folder(label)
    for move in act.moves:
        path = store.folder / move.target / move.name
        if not path.exists():
            continue
        if move.shared:
            store.put_back(path, move.source)
        else:
            store.relabel(Clip(move.target, path), move.source)
        back += _counts(act, move)
    teaching.state.acts.forget(act.number)
    if act.kind == "renamed" and act.label not in store.labels():
        teaching.state.choices.rename_label(act.label, act.former)
    if act.label:
        teaching.forget_emptied([act.label])
    return back


def _take_away(teaching: Teaching, act: Act) -> int:
    """Undo what came: sounds that were heard wait again, other clips are kept a week; and restore what was chosen."""
    store, state = teaching.store, teaching.state
    for label, sound in act.known.items():
        if sound is not None:
            teaching.require_slot(label)
    came = [move for move in act.moves if (store.folder / move.target / move.name).exists()]
    waiting = [move for move in came if _waits_again(teaching, move)]
    _throw_away(teaching, [move for move in came if move not in waiting and not move.shared])
    for move in waiting:
        if not move.shared:
            store.delete(Clip(move.target, store.folder / move.target / move.name))
    for label, sound in act.known.items():
        choose_known(store.folder, label, sound)
    for label, threshold in act.thresholds.items():
        state.choices.set_threshold(label, threshold)
    for label in act.listened:
        state.choices.listen(label, Listened())
    if act.denied:
        remove_wrong_detections(state.database, act.denied)
    state.acts.forget(act.number)
    labels = {*(move.target for move in act.moves), *act.known}
    teaching.forget_emptied(labels)
    state.choices.expect_no_more(labels - set(teaching.known_labels()))
    return len(came)


def _throw_away(teaching: Teaching, moves: Sequence[Move]) -> None:
    if moves:
        clips = [Clip(move.target, teaching.store.folder / move.target / move.name) for move in moves]
        throw_away(teaching, clips, "taken back")


def _waits_again(teaching: Teaching, move: Move) -> bool:
    """Put a sound that was heard where it waited for a word, if it would still be there; return whether it is."""
    if not move.was:
        return False
    kept = teaching.unknown if move.source == teaching.unknown.folder.name else teaching.detected
    if not kept.would_keep(move.was):
        return False
    link_or_copy(teaching.store.folder / move.target / move.name, kept.folder / move.was)
    return True
