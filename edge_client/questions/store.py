"""The file of a device's questions, and the sounds of those that are open; several processes may use both.

A sound is written before the question that names it, and goes with the answer or after a day. The answer is written
before the sound moves: what a power cut leaves undone is done by :func:`edge_client.questions.answers.finish`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from edge_client.audio.recordings import content_name, encode_wave
from edge_client.errors import ClipError, DamagedError, StateError
from edge_client.storage.checked_files import read_checked, write_checked
from edge_client.storage.device_state import DeviceState
from edge_client.storage.locks import take_lock
from fleet_protocol.arrays import Floats
from fleet_protocol.atomic_files import leftovers, remove_durably, write_durably
from fleet_protocol.errors import TensorError
from fleet_protocol.tensors import pack, unpack

DAY_S = 86_400.0
WEEK_S = 7 * DAY_S
YES, NO, WAS, NEVER = "yes", "no", "was", "never"
SAYINGS = (YES, NO, WAS, NEVER)
"""What an owner says: it was; it was not; it was something else, which he names; never ask about such a sound."""
# Questions that are remembered, the newest: those about which never to ask again, and the others. Candidates.
_NEVER, _OTHERS, _CANDIDATES = 100, 100, 1000
_PATIENCE_S = 5.0
_LONGEST = 200  # characters of a label


@dataclass(frozen=True)
class Question:
    """A question, open or not.

    Attributes:
        question_id: 16 hex digits of its sound's content.
        at: When the sound was heard, seconds since 1970.
        label: What the device asks about: was it this?
        detected: Whether the sound was detected; else it nearly was.
        score: Averaged score of the label, 0..1.
        said: One of ``SAYINGS``; "" while there is no answer.
        said_at: When it was answered, seconds since 1970.
        folder: Folder of the clip store that got the sound; "" where none did.
        shared: Whether that folder had the very same clip before.
        embedding: Of the sound, float32 [numbers].
    """

    question_id: str
    at: float
    label: str
    detected: bool
    score: float
    embedding: Floats = field(compare=False)
    said: str = ""
    said_at: float = 0.0
    folder: str = ""
    shared: bool = False

    @property
    def file_name(self) -> str:
        """Name of its sound's file, here and in the clip store."""
        return f"{self.question_id}.wav"

    def is_fresh(self, now: float) -> bool:
        """Return whether its sound may still be kept; a clock that was set back by a day makes it old, too."""
        return abs(now - self.at) < DAY_S


class Candidate(NamedTuple):
    """A doubtful sound, of which nothing else is kept: when it was considered, what it was worth, which kind it was.

    ``worth`` is how open the question is times how new the sound is, 0..1.
    """

    at: float
    worth: float
    detected: bool


@dataclass(frozen=True)
class Book:
    """All that is in the file, the newest last; ``candidates`` are those of a week."""

    questions: tuple[Question, ...] = ()
    candidates: tuple[Candidate, ...] = ()


class QuestionStore:
    """The questions of one device."""

    def __init__(self, state: DeviceState, features: str) -> None:
        """``features``: digest of the front end; embeddings by another one are worth nothing."""
        self.folder, self.path = state.questions_folder, state.questions_path
        self.features = features

    def read(self) -> Book:
        """Return what there is; nothing where the file is missing or damaged, or another front end's."""
        try:
            arrays, document = unpack(read_checked(self.path))
            return _book(arrays, document) if document.get("features") == self.features else Book()
        except (FileNotFoundError, DamagedError, TensorError, KeyError, TypeError, ValueError):
            return Book()

    def change(self, change: Callable[[Book], Book]) -> Book:
        """Replace the file by what a function makes of it; no other process changes it meanwhile. Return what it holds.

        Raises StateError if another process does not let go of it.
        """
        lock = take_lock(self.path.with_suffix(".lock"), _PATIENCE_S)
        if lock is None:
            raise StateError(f"another program is changing {self.path}; try again")
        try:
            before = self.read()
            after = _bounded(change(before))
            if after != before:
                write_checked(self.path, _packed(after, self.features))
            return after
        finally:
            os.close(lock)

    def add(self, question: Question, sound: bytes) -> None:
        """Ask a question, with its sound: a file's bytes, from :func:`sound_of`."""
        write_durably(self.sound(question), sound)
        self.change(lambda book: Book((*book.questions, question), book.candidates))

    def replace(self, question: Question) -> None:
        """Write a question anew, by its identifier."""
        self.change(
            lambda book: Book(
                tuple(question if one.question_id == question.question_id else one for one in book.questions),
                book.candidates,
            )
        )

    def sound(self, question: Question) -> Path:
        """Return where the sound of a question is, while it is kept."""
        return self.folder / question.file_name

    def open_questions(self, now: float | None = None) -> list[Question]:
        """Return the questions without an answer whose sounds are kept, the newest first."""
        now = time.time() if now is None else now
        found = [
            one for one in self.read().questions if not one.said and one.is_fresh(now) and self.sound(one).exists()
        ]
        return found[::-1]

    def find(self, given: str) -> Question:
        """Return the open question whose identifier begins like this, case ignored.

        Raises ClipError if there is none, or more than one.
        """
        found = [one for one in self.open_questions() if given and one.question_id.startswith(given.lower())]
        if not found:
            raise ClipError(
                f"no question is called {given[:100]!r} (any more): it was answered, or a day has passed; "
                "`auricle-edge questions` lists those that are open"
            )
        if len(found) > 1:
            names = ", ".join(one.question_id for one in found[:5])
            raise ClipError(f"{given!r} may be any of {names}; give more of its identifier")
        return found[0]

    def tidy(self, now: float | None = None) -> None:
        """Remove the sounds of questions that are too old or that nobody knows, and what a power cut left.

        What was answered and is on its way to the clip store stays.
        """
        if not self.folder.is_dir():
            return
        now = time.time() if now is None else now
        kept = {one.file_name for one in self.read().questions if one.folder or one.is_fresh(now)}
        for path in (*leftovers(self.folder), *self.folder.glob("*.wav")):
            if path.name not in kept:
                remove_durably(path)

    def forget_label(self, label: str) -> None:
        """Remove all that was asked about a label, and answers that name it.

        Raises StateError as :meth:`change` does.
        """
        if not self.path.exists():
            return
        self.change(
            lambda book: Book(
                tuple(one for one in book.questions if label not in (one.label, Path(one.folder).name)), book.candidates
            )
        )
        self.tidy()

    def forget(self) -> None:
        """Remove all: sounds, questions and answers."""
        remove_durably(self.path)
        for path in self.folder.glob("*.wav"):
            remove_durably(path)


def key_of(path: Path) -> tuple[int, int] | None:
    """Return what changes whenever the file of the questions does, by whatever process; None where there is none."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_mtime_ns, status.st_ino


def sound_of(window: Floats, rate_hz: int) -> tuple[str, bytes]:
    """Return the identifier and the file of a question's sound, float32 [samples]."""
    data = encode_wave(window, rate_hz)
    return Path(content_name(data)).stem, data


def _bounded(book: Book) -> Book:
    """Return a book without what is too much of it."""
    never = [one for one in book.questions if one.said == NEVER][-_NEVER:]
    others = [one for one in book.questions if one.said != NEVER][-_OTHERS:]
    kept = {id(one) for one in (*never, *others)}
    return Book(tuple(one for one in book.questions if id(one) in kept), book.candidates[-_CANDIDATES:])


def _packed(book: Book, features: str) -> bytes:
    names = [part.name for part in fields(Question) if part.name != "embedding"]
    questions = [{name: getattr(one, name) for name in names} for one in book.questions]
    embeddings = np.stack([one.embedding for one in book.questions]) if book.questions else np.zeros((0, 0))
    arrays = {"embeddings": np.clip(embeddings, -6e4, 6e4).astype(np.float16)}
    return pack(arrays, {"features": features, "questions": questions, "candidates": book.candidates})


def _book(arrays: dict[str, Any], document: dict[str, Any]) -> Book:
    """Return a file's book. Raises ValueError, or its like, if it does not hold together."""
    rows = arrays["embeddings"].astype(np.float32)
    if rows.ndim != 2 or len(rows) != len(document["questions"]) or not np.isfinite(rows).all():
        raise ValueError(f"{len(document['questions'])} questions, embeddings {rows.shape}")
    questions = tuple(Question(**one, embedding=row) for one, row in zip(document["questions"], rows, strict=True))
    if not all(_is_sound(one) for one in questions):
        raise ValueError("a question is none")
    candidates = document["candidates"]
    return Book(
        questions, tuple(Candidate(float(at), float(worth), bool(detected)) for at, worth, detected in candidates)
    )


def _is_sound(one: Question) -> bool:
    hexadecimal = len(one.question_id) == 16 and set(one.question_id) <= set("0123456789abcdef")
    return hexadecimal and one.said in ("", *SAYINGS) and 0 < len(one.label) <= _LONGEST
