"""The device as the page shows it: what it heard lately, what it knows and from whom, and how it is."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from edge_client.clips.folders import Clip, clip_files, clip_id_of, folder_of, rejected, store_digest
from edge_client.clips.unknown_clips import DetectedClips, UnknownClip, UnknownClips
from edge_client.config import Config
from edge_client.daemon.status import read_status, why_forgetful, why_silent
from edge_client.detection.sensitivity import step_at
from edge_client.errors import ClipError, StateError
from edge_client.events import Event
from edge_client.events.history import event_at
from edge_client.events.journal import past_events
from edge_client.owner import Teaching
from edge_client.owner_changes import say
from edge_client.owner_undo import changes
from edge_client.pauses import Pauses
from edge_client.storage.device_state import DeviceState
from edge_client.storage.owner_choices import Listened
from fleet_protocol.bundle.ready_bundles import FOLDER

Kind = Literal["detected", "unknown"]

_SHOWN = 40
# Seconds that an event's sound may take to reach the disk.
_WRITTEN_S = 3.0
_POLL_S = 0.1


class OwnedDevice:
    """A device whose owner has the page open; may be used by several threads."""

    def __init__(self, config_path: Path, config: Config) -> None:
        self.config = config
        self._config_path = config_path
        self.state = DeviceState(config.device.state)
        # Only read from: the rate is that of clips which are added.
        self._detected = DetectedClips(self.state.detected_folder, config.clips, 0)
        self._kept: dict[Kind, UnknownClips] = {
            "unknown": UnknownClips(self.state.unknown_folder, config.clips, 0),
            "detected": self._detected,
        }

    def teaching(self) -> Teaching:
        """Return the device as its owner teaches it now."""
        teaching = Teaching.open(self._config_path)
        self.config = teaching.config
        return teaching

    def plays(self) -> str:
        """Return which recordings it listens to in place of a microphone; "" where it does not."""
        microphone = self.config.microphone
        return str(microphone.file) if microphone is not None and microphone.source == "file" else ""

    def forgets(self) -> str:
        """Return why it can keep nothing now, and what to do; "" where it can."""
        return why_forgetful(self.state.folder)

    def status(self) -> dict[str, Any]:
        """Return the daemon's status; with ``running`` false and ``error`` where it has none."""
        try:
            return read_status(self.state)
        except StateError as error:
            return {"running": False, "error": str(error)}

    def pauses(self) -> Pauses:
        """Return the device's pauses."""
        return Pauses(self.state.database, self.config.hours)

    def paused(self) -> str:
        """Return since when, until when and by what it is paused; "" where it listens, or its state cannot be read."""
        try:
            pause = self.pauses().current()
        except (StateError, OSError):
            return ""
        return "" if pause is None else pause.words

    def silent(self) -> str:
        """Return why it hears nothing now, where that is so; "" where it hears, or nobody knows why not."""
        status = self.status()
        counted = status.get("listening") or {}
        return "" if counted.get("frames") and not counted["trouble"] else why_silent(status)

    def learning(self) -> bool:
        """Return whether there are clips that the model has not learned yet."""
        return store_digest(self.config.clips_folder) not in (None, self.state.model.taught())

    def advice(self, label: str) -> list[str]:
        """Return what would help a label, as its last teaching found."""
        return [line for found in self.state.advice() if found["label"] == label for line in found["lines"]]

    def takes(self, label: str) -> int:
        """Return how many clips the owner taught a label with."""
        folder = self.config.clips_folder
        return sum(folder_of(path, folder) == label for path in clip_files(folder))

    def heard(self) -> list[dict[str, Any]]:
        """Return the newest events and older unknown sounds, newest first. Raises StateError if they cannot be read."""
        found = self.rows(past_events(self.state.database, _SHOWN)[::-1])
        rows = {(row["kind"], row["at_ms"]): row for row in found}
        unknown = self._kept["unknown"].sounds()
        others = [Event(sound.heard_at, "unknown", "unknown", None, sound.score, 0.0) for sound in unknown]
        for row in self.rows(others):  # the journal may have them no more
            rows.setdefault((row["kind"], row["at_ms"]), row | {"level_db": None})
        return list(rows.values())

    def rows(self, events: Sequence[Event], remarks: Sequence[tuple[str, ...]] = ()) -> list[dict[str, Any]]:
        """Return events as the page shows them; ``remarks``: of each, or none at all.

        Each has what its :class:`Event` has, ``at_ms``, ``lasted_s``, whether its sound is ``kept``, its ``remarks``,
        and in ``guess`` what an unknown sound may be, the likeliest first.
        """
        kept = {kind: {_at_ms(sound.heard_at) for sound in ring.sounds()} for kind, ring in self._kept.items()}
        return [
            vars(event)
            | {
                "at_ms": (at_ms := _at_ms(event.time)),
                "lasted_s": event.lasted_s,
                "kept": at_ms in kept[event.kind],
                "remarks": remarked,
                "guess": tuple(filter(None, event.guess.split(", "))),
            }
            for event, remarked in zip(events, remarks or [()] * len(events), strict=True)
        ]

    def detected_kept(self) -> dict[str, Any]:
        """Return whether detected sounds are kept, how many at most, how many there are, for how long, and where."""
        kept = self._detected
        most, now = kept.count or kept.switched_on, len(kept.sounds())
        return {"on": bool(kept.count), "most": most, "now": now, "days": kept.days, "folder": kept.folder}

    def wait_for(self, kind: Kind, at_ms: int) -> None:
        """Wait a moment for an event that was just heard: journal and sound, where it is kept, are written late."""
        wants_sound = bool(self._kept[kind].count)
        give_up = time.monotonic() + _WRITTEN_S
        while time.monotonic() < give_up:
            # A message cuts the time off to milliseconds, a file's name rounds it.
            found = [row for row in self.heard() if row["kind"] == kind and abs(row["at_ms"] - at_ms) <= 1]
            if found and (found[0]["kept"] or not wants_sound):
                return
            time.sleep(_POLL_S)

    def sound(self, kind: Kind, at_ms: int) -> UnknownClip:
        """Return the sound of an event. Raises ClipError if it is not kept (any more)."""
        found = self._kept[kind].heard_at(at_ms / 1e3)
        if found is None:
            raise ClipError("the sound of this event is not kept any more: newer ones took its place, or it was used")
        return found

    def answer(self, kind: Kind, at_ms: int, label: str) -> str:
        """Teach an event's sound as one of a label; return what happens now. Raises EdgeError if that cannot be."""
        sound, teaching = self.sound(kind, at_ms), self.teaching()
        heard_as = self._heard_as(kind, at_ms)
        wrong = [(at_ms / 1e3, heard_as)] if kind == "detected" and heard_as not in ("", label) else []
        heard_as = heard_as if kind == "detected" else ""
        say(teaching, teaching.require_slot(label), [sound], heard_as, [(kind, at_ms)], wrong)
        return teaching.after(terminal=False)

    def deny(self, at_ms: int) -> str:
        """Take a detection for wrong, and learn that from its sound, where it is kept; return what happens now.

        Raises EdgeError if there is none of this time, or the owner said something about it before.
        """
        teaching, label = self.teaching(), self._heard_as("detected", at_ms)
        if not label:
            raise ClipError("this detection is not in the journal any more")
        if any(("detected", at_ms) in act.heard for act in self.state.acts.all()):
            raise ClipError(f"you said already whether that was {label}: undo that first")
        folder, sound = teaching.require_rejectable(label), self._kept["detected"].heard_at(at_ms / 1e3)
        sounds = [] if sound is None else [sound]
        say(teaching, folder if sounds else "", sounds, label, [("detected", at_ms)], [(at_ms / 1e3, label)])
        if sounds:
            return teaching.after(terminal=False)
        return (
            f"It counts as a false alarm of {label}. Let the device keep the sounds that it detects: "
            "then it learns from the next one too."
        )

    def _heard_as(self, kind: Kind, at_ms: int) -> str:
        event = event_at(self.state.database, kind, at_ms)
        return "" if event is None else event.label

    def sounds(self, teaching: Teaching) -> list[dict[str, Any]]:
        """Return, by name, what the device knows, and what it was taught and has yet to learn.

        ``clips`` are names of those that a sound was taught with, ``rejected`` of those that resemble it and are none;
        ``learned`` says whether the model has it, ``heard`` whether the weights that listen do; ``known``: the owner
        chose it of the built-in sounds; ``listened``: when it is listened for, ``off``: that it is therefore not now.
        """
        folder, progress = teaching.store.folder, self.state.model.load(teaching.config.bundle).progress
        label_map = progress.label_map
        clips: dict[str, list[str]] = {}
        for path in clip_files(folder):
            clips.setdefault(folder_of(path, folder), []).append(clip_id_of(path))
        advice = {found["label"]: found for found in self.state.advice()}
        listened, now = self.state.choices.listened(), time.time()
        sensitive, chosen = self.status().get("sensitivity") or {}, self.state.choices.thresholds()
        found = []
        for label in teaching.known_labels():
            learned = label in label_map.labels
            slot = label_map.slot_of(label) if learned else None
            choice = listened.get(label, Listened())
            found.append(
                {
                    "label": label,
                    "clips": clips.get(label, ()),
                    "of_fleet": slot is not None and label_map.class_ids[slot] is not None,
                    "rejected": clips.get(rejected(label), ()),
                    "learned": learned,
                    "heard": slot is not None and slot not in progress.silent,
                    "provisional": label in progress.provisional_labels,
                    "advice": advice.get(label),
                    "sensitivity": _sensitivity(sensitive.get(label), chosen.get(label)),
                    "known": label in teaching.chosen,
                    "listened": choice,
                    "off": not choice.now(now),
                }
            )
        return found

    def clip(self, folder: str, clip_id: str) -> Clip:
        """Return a taught clip of a label or reserved folder. Raises ClipError if there is none of this name."""
        for path in clip_files(self.config.clips_folder):
            if (folder_of(path, self.config.clips_folder), clip_id_of(path)) == (folder, clip_id):
                return Clip(folder, path)
        raise ClipError(f"no clip of {folder[:100]!r} is called {clip_id[:100]!r} any more")

    def bundle_name(self) -> str:
        """Return the bundle's name, for people."""
        path = self.config.bundle
        return f"{path.stem}, which comes with Auricle" if path.parent == FOLDER else path.name


def answers(teaching: Teaching) -> dict[str, Any]:
    """Return what a list of events shows beside them: what their owner may say of one, and what he said."""
    return {
        "labels": (labels := teaching.known_labels()),
        "guesses": (guesser := teaching.guesser) is not None,
        "built_in": sorted({*(guesser.known.names if guesser else ())} - {*labels, *teaching.chosen.values()}),
        "said": {event: one for one in changes(teaching)[::-1] for event in one.heard},
        "rejectable": bool(teaching.label_map.reserved),
        "counted": teaching.config.learning.room,
    }


def _sensitivity(now: dict[str, Any] | None, chosen: float | None) -> dict[str, Any] | None:
    """Return from which score, 0..1, a label counts as heard, the step of a slider next to it, and who chose it.

    None where the daemon has not said (yet) how it hears it. ``heard``: how often in the last ``hours`` at each step.
    """
    if now is None:
        return None
    threshold = now["threshold"] if chosen is None else chosen
    own = {"threshold": threshold, "step": step_at(threshold), "chosen": chosen is not None}
    return own | {"hours": now["hours"], "heard": now["heard"]}


def _at_ms(moment: float) -> int:
    return round(1e3 * moment)
