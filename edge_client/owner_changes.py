"""What an owner changes, by commands and on the page; ``owner_undo`` takes it back."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from edge_client.clips.embedding_cache import forget_clips
from edge_client.clips.folders import DELETED, Clip, check_label, choose_known, clip_files, folder_of, rejected
from edge_client.clips.importing import Summary, import_folder
from edge_client.clips.store import ClipStore
from edge_client.clips.unknown_clips import DetectedClips, UnknownClip, UnknownClips
from edge_client.config import Config
from edge_client.config.hours import hours_problem
from edge_client.detection.observed_rates import forget_rates
from edge_client.errors import ClipError
from edge_client.events.history import every
from edge_client.events.journal import Chosen, remove_events
from edge_client.learning.forgotten_labels import forget_noted, note_forgotten
from edge_client.owner import Teaching
from edge_client.questions.answers import store_of
from edge_client.questions.store import QuestionStore
from edge_client.storage.device_state import DeviceState
from edge_client.storage.owner_acts import Act, Move, Moving
from edge_client.storage.owner_choices import Listened, add_wrong_detections, read_wrong_detections
from fleet_protocol.bundle.bundle_file import read_bundle

# Seconds for which a slider that is moved again goes on with the same change.
_SAME_S = 600.0


def rename(teaching: Teaching, clips: Sequence[Clip], new_label: str) -> tuple[list[Clip], list[str]]:
    """Give clips of one label another one, of :meth:`Teaching.require_slot`. It can be undone for a week.

    Where no clip of the label is left, what was said not to be it is said of the new label instead. Where the new label
    had clips, it is the other way round: both are one sound now, and what was said not to be the one may be the other,
    so it counts only as far as it resembles no label (``learning.teaching.material``).

    Returns the clips as they are now, and lines for the owner. Raises ClipError if a clip is gone, or another process
    is changing the store.
    """
    store, former = teaching.store, clips[0].label
    if former == new_label:
        return list(clips), []
    with store.changing():
        joined = new_label in store.labels()
        pairs = [(clip, new_label) for clip in clips]
        if whole := len(clips) == len(store.clips(former)):
            source, target = (new_label, former) if joined else (former, new_label)
            if not joined:
                teaching.state.choices.rename_label(former, new_label)
            pairs += [(clip, rejected(target)) for clip in store.clips(rejected(source))]
        moved = move(teaching, pairs, "renamed" if whole else "moved", former, new_label)
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
        at_once = call_class(teaching, label, new_label)
        teaching.state.acts.add(Act("named", label, new_label))
    return at_once


def call_class(teaching: Teaching, label: str, name: str | None) -> bool:
    """Call a class by a name, the fleet's where None, while the store is held; return whether it is done already."""
    class_id = teaching.class_of(label)
    if class_id is None:
        raise ClipError(f"no sound of the fleet is called {label!r} (any more)")
    teaching.state.class_names.choose(class_id, name)
    teaching.state.choices.rename_label(label, teaching.state.class_names.present().get(class_id, label))
    note_forgotten(teaching.state, [label])
    return forget_noted(teaching.config, teaching.state)


def move(
    teaching: Teaching, pairs: Sequence[tuple[Clip, str]], kind: Moving, former: str, label: str = ""
) -> list[Clip]:
    """Move clips to other folders of the store, and note the act; return them as they are now."""
    store = teaching.store
    # Written before anything moves: what a power cut leaves undone is skipped by an undo.
    moves = tuple(
        Move(clip.label, target, clip.path.name, shared=(store.folder / target / clip.path.name).exists())
        for clip, target in pairs
    )
    teaching.state.acts.add(Act(kind, former, label, moves))
    return [store.relabel(clip, target) for clip, target in pairs]


def delete(teaching: Teaching, clips: Sequence[Clip], *, for_good: bool = False) -> list[str]:
    """Delete clips, undoable for a week unless ``for_good``; return lines for the owner. Raises ClipError."""
    store = teaching.store
    with store.changing():
        if for_good:
            for clip in clips:
                store.delete(clip)
        else:
            throw_away(teaching, clips)
        messages = teaching.forget_emptied(clip.label for clip in clips)
        gone = {clip.label for clip in clips} - set(store.labels())
        teaching.state.choices.expect_no_more(gone)
        if for_good:
            teaching.state.choices.forget_labels(gone)
            teaching.state.acts.forget_labels(gone)
            for label in gone:
                store_of(teaching).forget_some(label)
    empty_deleted(store, teaching.state)
    forget_clips(teaching.state.embeddings_path, clip_files(store.folder))
    return messages


def throw_away(teaching: Teaching, clips: Sequence[Clip], kind: Moving | None = None) -> None:
    """Put clips where they are kept for a week, while the store is held; labels that have none then stay known."""
    labels = sorted({clip.label for clip in clips})
    if kind is None:
        kind = "deleted" if len(clips) == sum(len(teaching.store.clips(label)) for label in labels) else "removed"
    move(teaching, [(clip, f"{DELETED}/{clip.label}") for clip in clips], kind, ", ".join(labels))


def empty_deleted(store: ClipStore, state: DeviceState) -> int:
    """Remove for good what can be had back no more; return how many clips these were. Not while the store changes."""
    if not store.is_at_rest():
        return 0
    with store.changing():
        state.acts.forget_old()
        return store.empty_deleted({f"{move.target}/{move.name}" for act in state.acts.all() for move in act.moves})


def purge(teaching: Teaching) -> int:
    """Remove for good what could be had back, counts of the room, and questions; return how many clips went."""
    with teaching.store.changing():
        teaching.state.acts.forget_old(0.0)
        forget_rates(teaching.state.database)
        store_of(teaching).forget()
        return teaching.store.empty_deleted()


def know(teaching: Teaching, sound: str, label: str = "") -> str:
    """Listen for a built-in word or sound, under a label or its own name; return that. Raises ClipError."""
    if sound not in teaching.offered:
        names = ", ".join(teaching.offered)
        raise ClipError(
            f"no {sound[:100]!r} is built into the bundle {teaching.config.bundle.stem}; "
            + (f"there is: {names}" if names else "words, sounds, sounds_2s and words_and_sounds have some")
        )
    with teaching.store.changing():
        label = teaching.require_slot(label or sound)
        teaching.state.acts.add(Act("chosen", label=label, known={label: teaching.chosen.get(label)}))
        choose_known(teaching.store.folder, label, sound)
    return label


def know_no_more(teaching: Teaching, label: str) -> list[str]:
    """Listen no more for a built-in sound; return lines to show. Raises ClipError if the label is none."""
    with teaching.store.changing():
        if label not in teaching.chosen:
            names = ", ".join(teaching.chosen) or "none"
            raise ClipError(f"{label[:100]!r} is no built-in sound that you chose; there is: {names}")
        teaching.state.acts.add(Act("chosen", former=label, known={label: teaching.chosen[label]}))
        choose_known(teaching.store.folder, label, None)
        return teaching.forget_emptied([label])


def tune(teaching: Teaching, label: str, threshold: float | None) -> None:
    """Choose from which score, 0..1, a label counts as heard; None: the device chooses. Raises ClipError."""
    if label not in teaching.known_labels():
        raise ClipError(f"no sound is called {label[:100]!r} (any more)")
    choices, newest = teaching.state.choices, next(iter(teaching.state.acts.all()), None)
    same = newest is not None and (newest.kind, newest.label) == ("tuned", label)
    if newest is None or not same or not 0 <= time.time() - newest.at < _SAME_S:
        teaching.state.acts.add(Act("tuned", label=label, thresholds={label: choices.thresholds().get(label)}))
    choices.set_threshold(label, threshold)


def listen(teaching: Teaching, label: str, on: bool | None = None, hours: Sequence[str] | None = None) -> Listened:
    """Choose whether a label is listened for, and at which hours, none: all day; None: as before. Return what holds.

    Raises ClipError if no sound is called so, or these are no hours.
    """
    known = teaching.known_labels()
    if label not in known:
        raise ClipError(f"no sound is called {label[:100]!r}; known: {', '.join(known) or 'none'}")
    if hours is not None and (problem := hours_problem(hours)):
        raise ClipError(f"the hours of {label!r} {problem}")
    before = teaching.state.choices.of(label)
    found = Listened(before.on if on is None else on, before.hours if hours is None else tuple(hours))
    teaching.state.choices.listen(label, found)
    return found


def say(
    teaching: Teaching,
    folder: str,
    sounds: Sequence[UnknownClip] = (),
    heard_as: str = "",
    events: Sequence[tuple[str, int]] = (),
    wrong: Sequence[tuple[float, str]] = (),
) -> Act:
    """Take an owner's word for what was heard: move the sounds into a folder of the store, and note what was wrong.

    ``folder``: of ``require_slot`` or the like; "" where no sound is kept; ``heard_as``: the label that was detected,
    if one was; ``events``: kind and time, ms since 1970; ``wrong``: time, s since 1970, and label of detections. Raises
    EdgeError as :meth:`ClipStore.take_in`, and as the database does.
    """
    store, state = teaching.store, teaching.state
    with store.changing():
        known = read_wrong_detections(state.database)
        denied = tuple(one for one in wrong if one not in known)
        act = Act("said", heard_as, folder, heard=tuple(events), denied=denied)
        for sound in sounds:
            there = {path.name for path in (store.folder / folder).glob("*.wav")}
            name = store.take_in(sound.path, folder).name
            act = state.acts.extend(
                act, [Move(sound.path.parent.name, folder, name, shared=name in there, was=sound.path.name)]
            )
        if not sounds:
            act = state.acts.add(act)
        if denied:
            add_wrong_detections(state.database, denied)
    return act


def import_recordings(
    teaching: Teaching,
    folder: Path,
    label: str | None,
    check: Callable[[str], str],
    summary: Summary,
    advance: Callable[[float, int], None] = lambda _done, _of: None,
    act: Act | None = None,
) -> Act:
    """Store recordings as :func:`import_folder` does, and note what was stored, as a part of an act or as one."""
    act = Act("added") if act is None else act
    try:
        import_folder(folder, label, teaching.store, teaching.settings, check, summary, advance)
    finally:
        if summary.added:
            moves = [Move("", folder_of(path, teaching.store.folder), path.name) for path in summary.added]
            folders = {one.target for one in (*act.moves, *moves)}
            act = teaching.state.acts.extend(dataclasses.replace(act, label=", ".join(sorted(folders))), moves)
    return act


def forget_heard(config: Config, label: str | None, since: float, until: float) -> int:
    """Remove past events of a period, s since 1970, or of it those of a label; return how many these were.

    Their sounds go too, where these are kept, and what was asked about them. Raises as :class:`Database`, OSError.
    """
    state, chosen = DeviceState(config.device.state), Chosen(since, until, label)
    gone = {event.time for event in every(state.database, chosen)}
    for folder, kept in ((state.detected_folder, DetectedClips), (state.unknown_folder, UnknownClips)):
        sounds = kept(folder, config.clips, 0)  # the rate is that of sounds which are added
        if label is None:  # those too of which the journal knows nothing
            gone |= {sound.heard_at for sound in sounds.sounds() if since <= sound.heard_at < until}
        sounds.forget(gone)
    features = read_bundle(config.bundle).manifest.feature_settings.digest
    QuestionStore(state, features).forget_some(label, since, until)
    return remove_events(state.database, chosen)
