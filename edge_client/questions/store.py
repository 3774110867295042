"""A device's questions, in its database, and the sounds of those that are open; several processes may use both.

A sound is written before the question that names it, and goes with the answer or after a day. The answer is written
before the sound moves: what a power cut leaves undone is done by :func:`edge_client.questions.answers.finish`.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from edge_client.audio.recordings import content_name, encode_wave
from edge_client.errors import ClipError
from edge_client.storage.ages import DAY_S
from edge_client.storage.device_state import DeviceState
from fleet_protocol.ground.atomic_files import leftovers, remove_durably, write_durably
from fleet_protocol.numbers.arrays import Floats

WEEK_S = 7 * DAY_S
YES, NO, WAS = "yes", "no", "was"
SAYINGS = (YES, NO, WAS)
"""What an owner says: it was; it was not; it was something else, which he names."""
# Questions and candidates that are remembered, the newest.
_QUESTIONS, _CANDIDATES = 100, 1000
_LONGEST = 200  # characters of a label
_NAMES = (
    *("question_id", "at", "label", "detected", "score", "embedding"),
    *("said", "said_at", "number", "folder", "shared"),
)
_COLUMNS = ", ".join(_NAMES)


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
        number: Of the answer among the owner's changes (``OwnerActs.next_number``).
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
    number: int = 0
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
    """A doubtful sound of which no more is kept. ``worth``: how open the question is times how new the sound, 0..1."""

    at: float
    worth: float
    detected: bool


@dataclass(frozen=True)
class Book:
    """All that is in the file, the newest last; ``candidates`` are those of a week."""

    questions: tuple[Question, ...] = ()
    candidates: tuple[Candidate, ...] = ()


class QuestionStore:
    """The questions of one device. All that reads or writes raises StateError, OSError as :class:`Database` does."""

    def __init__(self, state: DeviceState, features: str) -> None:
        """``features``: digest of the front end; embeddings by another one are worth nothing."""
        self.folder, self._database = state.questions_folder, state.database
        self.features = features

    def read(self) -> Book:
        """Return what there is of this front end."""
        of_mine = (self.features,)
        found = self._database.rows(f"SELECT {_COLUMNS} FROM questions WHERE features = ? ORDER BY id", of_mine)
        candidates = self._database.rows(
            "SELECT at, worth, detected FROM candidates WHERE features = ? ORDER BY id", of_mine
        )
        questions = tuple(one for row in found if (one := _question(row)) is not None)
        return Book(questions, tuple(Candidate(at, worth, bool(detected)) for at, worth, detected in candidates))

    def add(self, question: Question, sound: bytes) -> None:
        """Ask a question, with its sound: a file's bytes, from :func:`sound_of`."""
        write_durably(self.sound(question), sound)
        with self._database.changing() as connection:
            columns = f"features, {_COLUMNS}"
            marks = ", ".join("?" * len(columns.split(",")))
            values = (self.features, *_row(question))
            connection.execute(f"INSERT OR REPLACE INTO questions ({columns}) VALUES ({marks})", values)
            connection.execute("DELETE FROM questions WHERE features != ?", (self.features,))
            newest = "SELECT id FROM questions ORDER BY id DESC LIMIT ?"
            connection.execute(f"DELETE FROM questions WHERE id NOT IN ({newest})", (_QUESTIONS,))

    def add_candidate(self, one: Candidate) -> None:
        """Note a doubtful sound's worth, by which others are judged; those of another week go."""
        with self._database.changing(durable=False) as connection:
            values = (self.features, one.at, float(one.worth), int(one.detected))
            connection.execute("INSERT INTO candidates (features, at, worth, detected) VALUES (?, ?, ?, ?)", values)
            old = "features != ? OR ABS(at - ?) >= ? OR id <= (SELECT MAX(id) FROM candidates) - ?"
            limits = (self.features, one.at, WEEK_S, _CANDIDATES)
            connection.execute(f"DELETE FROM candidates WHERE {old}", limits)

    def replace(self, question: Question) -> None:
        """Write a question anew, by its identifier."""
        with self._database.changing() as connection:
            columns = _COLUMNS.replace(",", " = ?,")
            values = (*_row(question), question.question_id)
            connection.execute(f"UPDATE questions SET {columns} = ? WHERE question_id = ?", values)

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
        """Return the one open question whose identifier begins like this, case ignored. Raises ClipError."""
        found = [one for one in self.open_questions() if given and one.question_id.startswith(given.lower())]
        if not found:
            raise ClipError(
                f"no question is called {given[:100]!r} (any more): it was answered, or a day has passed; "
                "the owner's page shows those that are open"
            )
        if len(found) > 1:
            names = ", ".join(one.question_id for one in found[:5])
            raise ClipError(f"{given!r} may be any of {names}; give more of its identifier")
        return found[0]

    def tidy(self, now: float | None = None) -> None:
        """Remove sounds of questions that are too old or unknown, and leftovers; not what waits for the clip store."""
        if not self.folder.is_dir():
            return
        now = time.time() if now is None else now
        kept = {one.file_name for one in self.read().questions if one.folder or one.is_fresh(now)}
        for path in (*leftovers(self.folder), *self.folder.glob("*.wav")):
            if path.name not in kept:
                remove_durably(path)

    def forget_some(self, label: str | None, since: float = 0.0, until: float = math.inf) -> None:
        """Remove what was asked about sounds of a period, s since 1970; of a ``label`` alone, or of all."""
        found = self._database.rows("SELECT id, label, folder FROM questions WHERE at >= ? AND at < ?", (since, until))
        gone = [(number,) for number, *about, folder in found if label in (None, *about, Path(folder).name)]
        if gone:
            with self._database.changing() as connection:
                connection.executemany("DELETE FROM questions WHERE id = ?", gone)
            self._database.erase()
            self.tidy()

    def forget(self) -> None:
        """Remove all: sounds, questions and answers."""
        if self._database.path.exists():
            with self._database.changing() as connection:
                connection.execute("DELETE FROM questions")
                connection.execute("DELETE FROM candidates")
            self._database.erase()
        for path in self.folder.glob("*.wav"):
            remove_durably(path)


def sound_of(window: Floats, rate_hz: int) -> tuple[str, bytes]:
    """Return the identifier and the file of a question's sound, float32 [samples]."""
    data = encode_wave(window, rate_hz)
    return Path(content_name(data)).stem, data


def _row(one: Question) -> tuple[Any, ...]:
    embedding = np.clip(one.embedding, -6e4, 6e4).astype(np.float16).tobytes()
    heard = (one.question_id, one.at, one.label, int(one.detected), float(one.score), embedding)
    return (*heard, one.said, one.said_at, one.number, one.folder, int(one.shared))


def _question(row: tuple[Any, ...]) -> Question | None:
    """Return a row's question; None where it is damaged."""
    found = dict(zip(_NAMES, row, strict=True))
    embedding = np.frombuffer(found["embedding"][: len(found["embedding"]) // 2 * 2], np.float16).astype(np.float32)
    hexadecimal = len(found["question_id"]) == 16 and set(found["question_id"]) <= set("0123456789abcdef")
    whole = len(embedding) > 0 and bool(np.isfinite(embedding).all())
    if not (hexadecimal and whole and found["said"] in ("", *SAYINGS) and 0 < len(found["label"]) <= _LONGEST):
        return None
    flags = {name: bool(found[name]) for name in ("detected", "shared")}
    return Question(**found | flags | {"embedding": embedding})
