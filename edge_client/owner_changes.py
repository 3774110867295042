"""Changes of what was taught, which commands and the owner's page make: rename, delete, and undo; answers too."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from edge_client.clips.folders import DELETED, Clip, check_label, choose_known, clip_files, is_label, rejected
from edge_client.clips.store import ClipStore
from edge_client.errors import ClipError
from edge_client.learning.forgotten_labels import forget_noted, note_forgotten
from edge_client.owner import Teaching
from edge_client.questions.answers import answers, in_words, store_of, take_back
from edge_client.room.store import forget_room
from edge_client.storage.device_state import DeviceState
from edge_client.storage.embedding_cache import forget_clips
from edge_client.storage.owner_choices import Move, Renaming


@dataclass(frozen=True)
class Change:
    """A change that can be undone; its kind and number name it. ``at``: seconds since 1970.

    ``new_label``: "" for a deletion; of an answer to a question what was said, in words.
    """

    kind: Literal["renamed", "deleted", "answered"]
    number: int
    at: float
    label: str
    new_label: str
    clips: int


def rename(teaching: Teaching, clips: Sequence[Clip], new_label: str) -> tuple[list[Clip], list[str]]:
    """Give clips of one label another one, of :meth:`Teaching.require_slot`. It can be undone for a week.

    Where no clip of the label is left, what was said not to be it is said of the new label instead. Where the new label
    had clips, it is the other way round: both are one sound now, and what was said not to be the one may be the other,
    so it counts only as far as it resembles no label (``head_material``).

    Returns the clips as they are now, and lines for the owner. Raises ClipError if a clip is gone, or another process
    is changing the store.
    """
    store, former = teaching.store, clips[0].label
    if former == new_label:
        return list(clips), []
    with store.changing():
        joined = new_label in store.labels()
        pairs = [(clip, new_label) for clip in clips]
        if len(clips) == len(store.clips(former)):
            source, target = (new_label, former) if joined else (former, new_label)
            if not joined:
                teaching.state.choices.rename_label(former, new_label)
            pairs += [(clip, rejected(target)) for clip in store.clips(rejected(source))]
        moved = _move(teaching, pairs, former, new_label)
        return moved[: len(clips)], teaching.forget_emptied([former])


def rename_class(teaching: Teaching, label: str, new_label: str) -> bool:
    """Call a class of the fleet, which the owner did not teach, by the owner's word, whatever the fleet calls it.

    It can be undone for a week. Returns whether it is done; else it is once the present training has ended. Raises
    ClipError if the label is none, or another sound has that name, or another process is changing the store.
    """
    new_label = check_label(new_label)
    if new_label in teaching.known_labels():
        raise ClipError(f"there is a sound called {new_label!r} already; a sound of the fleet needs a name of its own")
    with teaching.store.changing():
        at_once = _call_class(teaching, label, new_label)
        teaching.state.choices.add_renaming(Renaming(teaching.next_number(), time.time(), label, new_label, ()))
    return at_once


def _call_class(teaching: Teaching, label: str, name: str | None) -> bool:
    class_id = teaching.class_of(label)
    if class_id is None:
        raise ClipError(f"no sound of the fleet is called {label!r} (any more)")
    teaching.state.class_names.choose(class_id, name)
    teaching.state.choices.rename_threshold(label, teaching.state.class_names.present().get(class_id, label))
    note_forgotten(teaching.state, [label])
    return forget_noted(teaching.config, teaching.state)


def _move(teaching: Teaching, pairs: Sequence[tuple[Clip, str]], former: str, label: str) -> list[Clip]:
    """Move clips to other folders of the store, and remember it; return them as they are now."""
    store = teaching.store
    # Written before anything moves: what a power cut leaves undone is skipped by an undo.
    moves = tuple(
        Move(clip.label, target, clip.path.name, shared=(store.folder / target / clip.path.name).exists())
        for clip, target in pairs
    )
    teaching.state.choices.add_renaming(Renaming(teaching.next_number(), time.time(), former, label, moves))
    return [store.relabel(clip, target) for clip, target in pairs]


def delete(teaching: Teaching, clips: Sequence[Clip], *, for_good: bool = False) -> list[str]:
    """Delete clips, undoable for a week unless ``for_good``; return lines for the owner. Raises ClipError."""
    store = teaching.store
    with store.changing():
        if for_good:
            for clip in clips:
                store.delete(clip)
        else:
            former = ", ".join(sorted({clip.label for clip in clips}))
            _move(teaching, [(clip, f"{DELETED}/{clip.label}") for clip in clips], former, "")
        messages = teaching.forget_emptied(clip.label for clip in clips)
        gone = {clip.label for clip in clips} - set(store.labels())
        teaching.state.choices.expect_no_more(gone)
        if for_good:
            teaching.state.choices.forget_labels(gone)
            for label in gone:
                store_of(teaching).forget_label(label)
    empty_deleted(store, teaching.state)
    forget_clips(teaching.state.embeddings_path, clip_files(store.folder))
    return messages


def empty_deleted(store: ClipStore, state: DeviceState) -> int:
    """Remove for good what can be had back no more; return how many clips these were. Not while the store changes."""
    if not store.is_at_rest():
        return 0
    with store.changing():
        state.choices.forget_old()
        known = state.choices.renamings()
        return store.empty_deleted({f"{move.target}/{move.name}" for one in known for move in one.moves})


def purge(teaching: Teaching) -> int:
    """Remove for good what could be had back, what the room is like, and questions; return how many clips went."""
    with teaching.store.changing():
        teaching.state.choices.forget_old(0.0)
        forget_room(teaching.state)
        store_of(teaching).forget()
        return teaching.store.empty_deleted()


def changes(teaching: Teaching) -> list[Change]:
    """Return what can be undone, the newest first."""
    found = []
    for one in teaching.state.choices.renamings():
        count = sum(is_label(move.source) or not one.label for move in one.moves)
        found.append(Change("renamed" if one.label else "deleted", one.number, one.at, one.former, one.label, count))
    for said in answers(teaching):
        count = int(bool(said.folder))
        found.append(Change("answered", said.number, said.said_at, said.label, in_words(said), count))
    return sorted(found, key=lambda change: -change.number)


def undo(teaching: Teaching, change: Change) -> int:
    """Take a change back; return how many of the label's clips are where they were. What moved on meanwhile stays.

    Raises ClipError if it cannot be undone (any more), no slot is free, or another process is changing the store;
    QuotaError if there is no room.
    """
    with teaching.store.changing():
        for said in answers(teaching):
            if change.kind == "answered" and said.number == change.number:
                return take_back(teaching, said)
        for renaming in teaching.state.choices.renamings():
            if change.kind != "answered" and renaming.number == change.number:
                return _undo_renaming(teaching, renaming)
    raise ClipError("this cannot be undone any more: it was undone already, or a week has passed")


def _undo_renaming(teaching: Teaching, renaming: Renaming) -> int:
    store, back = teaching.store, 0
    if not renaming.moves:
        chosen_before = any(
            not one.moves and one.label == renaming.former for one in teaching.state.choices.renamings()
        )
        _call_class(teaching, renaming.label, renaming.former if chosen_before else None)
        teaching.state.choices.forget_renaming(renaming.number)
        return 0
    for label in sorted({move.source for move in renaming.moves}):
        teaching.require_folder(label)
    for move in renaming.moves:
        path = store.folder / move.target / move.name
        if not path.exists():
            continue
        if move.shared:
            store.put_back(path, move.source)
        else:
            store.relabel(Clip(move.target, path), move.source)
        back += is_label(move.source) or not renaming.label
    teaching.state.choices.forget_renaming(renaming.number)
    if renaming.label:
        if renaming.label not in store.labels():
            teaching.state.choices.rename_label(renaming.label, renaming.former)
        teaching.forget_emptied([renaming.label])
    return back


def know(teaching: Teaching, sound: str, label: str = "") -> str:
    """Listen for what is known from the start, under a label or its own name; return that. Raises ClipError."""
    if sound not in teaching.offered:
        names = ", ".join(teaching.offered)
        raise ClipError(
            f"the bundle {teaching.config.bundle.stem} knows no {sound[:100]!r} from the start; "
            + (f"it knows: {names}" if names else "words, sounds, sounds_2s and words_and_sounds know some")
        )
    with teaching.store.changing():
        label = teaching.require_slot(label or sound)
        choose_known(teaching.store.folder, label, sound)
    return label


def know_no_more(teaching: Teaching, label: str) -> list[str]:
    """Listen no more for a sound known from the start; return lines to show. Raises ClipError if the label is none."""
    with teaching.store.changing():
        if label not in teaching.chosen:
            names = ", ".join(teaching.chosen) or "none"
            raise ClipError(
                f"{label[:100]!r} is no sound that you chose of those known from the start; there is: {names}"
            )
        choose_known(teaching.store.folder, label, None)
        return teaching.forget_emptied([label])
