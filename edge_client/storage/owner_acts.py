"""What an owner did lately and can take back: an act for each command or tap, with what was there before it."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any, Literal, NamedTuple, cast

from edge_client.storage.ages import DAY_S, FIRST_CLOCK_S
from edge_client.storage.database import Database

# Acts that can be undone: the newest. Days for which they, and what was deleted, can be.
_ACTS, KEEP_DAYS = 500, 7.0
_COLUMNS = "number, at, kind, former, label, moves, others"
_NUMBERS = "SELECT number FROM questions UNION SELECT number FROM renamings"

Moving = Literal["renamed", "moved", "deleted", "removed", "taken back"]
"""Acts that moved clips between folders of the store."""
Kind = Moving | Literal["recorded", "added", "said", "named", "chosen", "tuned", "imported"]


class Move(NamedTuple):
    """A clip that moved between folders of the store, or came into it.

    Attributes:
        source: Folder that it came from; "" from outside; of a sound that was heard "detected" or "unknown".
        target: Folder that it went to.
        name: Its file there.
        shared: Whether the target had the very same clip before.
        was: Its file before, of a sound that was heard.
    """

    source: str
    target: str
    name: str
    shared: bool = False
    was: str = ""


@dataclass(frozen=True)
class Act:
    """One act, which is undone as a whole.

    Attributes:
        number: Of the owner's change, the highest is the newest; 0 before it is noted.
        at: When, seconds since 1970.
        former: Label before; "" where there was none.
        label: Label after; "" where it has none any more.
        moves: Clips that moved or came.
        heard: Kind and time, ms since 1970, of the events that it says something about.
        denied: Time, s since 1970, and label of detections that it called wrong, and no act before it.
        known: By label which built-in sound it was before, or none.
        thresholds: By label which threshold the owner had chosen before, or none.
        listened: Labels of which it says when they are listened for, and nobody said so before.
    """

    kind: Kind
    former: str = ""
    label: str = ""
    moves: tuple[Move, ...] = ()
    heard: tuple[tuple[str, int], ...] = ()
    denied: tuple[tuple[float, str], ...] = ()
    known: dict[str, str | None] = field(default_factory=dict)
    thresholds: dict[str, float | None] = field(default_factory=dict)
    listened: tuple[str, ...] = ()
    number: int = 0
    at: float = 0.0

    def names(self) -> set[str]:
        """Return every label that it names."""
        folders = {PurePosixPath(folder).name for move in self.moves for folder in (move.source, move.target)}
        chosen = {*(label for _, label in self.denied), *self.known, *self.thresholds, *self.listened}
        return {self.former, self.label, *folders, *chosen} - {""}


class OwnerActs:
    """A device's owner's acts. All raise StateError, OSError as :class:`Database` does."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def all(self) -> list[Act]:
        """Return what can be undone, the newest first."""
        return [_act(*row) for row in self._database.rows(f"SELECT {_COLUMNS} FROM renamings ORDER BY id DESC")]

    def next_number(self) -> int:
        """Return the number of the owner's next change, the highest; the caller holds the store."""
        return 1 + max((number for (number,) in self._database.rows(_NUMBERS)), default=0)

    def add(self, act: Act) -> Act:
        """Note an act that begins now; return it with its number."""
        with self._database.changing() as connection:
            highest = max((number for (number,) in connection.execute(_NUMBERS)), default=0)
            noted = replace(act, number=1 + highest, at=time.time())
            connection.execute(f"INSERT INTO renamings ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)", _row(noted))
            connection.execute("DELETE FROM renamings WHERE id <= (SELECT MAX(id) FROM renamings) - ?", (_ACTS,))
        return noted

    def replace(self, act: Act) -> None:
        """Write an act anew, by its number."""
        with self._database.changing() as connection:
            columns = _COLUMNS.replace(",", " = ?,")
            connection.execute(f"UPDATE renamings SET {columns} = ? WHERE number = ?", (*_row(act), act.number))

    def extend(self, act: Act, moves: Iterable[Move]) -> Act:
        """Note more clips of an act, which is added where it has no number yet."""
        longer = replace(act, moves=(*act.moves, *moves), at=time.time())
        if not act.number:
            return self.add(longer)
        self.replace(longer)
        return longer

    def forget(self, number: int) -> None:
        """Forget an act."""
        with self._database.changing() as connection:
            connection.execute("DELETE FROM renamings WHERE number = ?", (number,))

    def forget_old(self, days: float = KEEP_DAYS) -> None:
        """Forget acts of a certain age; one of a clock that was wrong begins to age now."""
        now = time.time()
        wrong, old = "FROM renamings WHERE at < ? OR at > ?", "FROM renamings WHERE at <= ?"
        unlikely, before = (FIRST_CLOCK_S, now + DAY_S), (now - days * DAY_S,)
        if self._database.rows(f"SELECT 1 {wrong} LIMIT 1", unlikely) or self._database.rows(f"SELECT 1 {old}", before):
            with self._database.changing(durable=False) as connection:
                connection.execute("UPDATE renamings SET at = ? WHERE at < ? OR at > ?", (now, *unlikely))
                connection.execute(f"DELETE {old}", before)

    def forget_labels(self, labels: Collection[str]) -> None:
        """Forget whatever names one of some labels."""
        for act in self.all():
            if act.names() & set(labels):
                self.forget(act.number)


def _row(act: Act) -> tuple[Any, ...]:
    others = {name: getattr(act, name) for name in ("heard", "denied", "known", "thresholds", "listened")}
    return act.number, act.at, act.kind, act.former, act.label, json.dumps(act.moves), json.dumps(others)


def _kind_of_before(label: str, moves: str) -> Kind:
    """Return the kind of an act that was noted before acts had one."""
    if not label:
        return "deleted"
    return "renamed" if json.loads(moves) else "named"


def _act(number: int, at: float, kind: str, former: str, label: str, moves: str, others: str) -> Act:
    found = json.loads(others)
    return Act(
        cast("Kind", kind or _kind_of_before(label, moves)),
        former,
        label,
        tuple(Move(*move) for move in json.loads(moves)),
        tuple((event, at_ms) for event, at_ms in found.get("heard", ())),
        tuple((moment, name) for moment, name in found.get("denied", ())),
        found.get("known", {}),
        found.get("thresholds", {}),
        tuple(found.get("listened", ())),
        number,
        at,
    )
