"""What an owner decided beside the clips: thresholds, what was renamed or deleted, whether detected sounds are kept."""

from __future__ import annotations

import json
import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

from edge_client.storage.ages import DAY_S, FIRST_CLOCK_S
from edge_client.storage.database import Database
from edge_client.storage.label_keys import Renamings, label_key

_KEEPS_DETECTED, _THRESHOLDS = "keeps_detected", "thresholds"
# Renamings that can be undone: the newest. Days for which they, and what was deleted, can be.
_RENAMINGS, KEEP_DAYS = 50, 7.0


class Move(NamedTuple):
    """A clip that moved between folders of the store; ``shared``: the target had the very same clip before."""

    source: str
    target: str
    name: str
    shared: bool


@dataclass(frozen=True)
class Renaming:
    """Clips, counter-examples included, that got another label than the ``former`` one together; "": were deleted.

    ``number``: of the owner's change; ``at``: seconds since 1970.
    """

    number: int
    at: float
    former: str
    label: str
    moves: tuple[Move, ...]


class OwnerChoices:
    """A device's owner's choices. All raise StateError, OSError as :class:`Database` does."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._label_names = Renamings(database)

    def keeps_detected(self) -> bool | None:
        """Return whether detected sounds are kept; None: as the configuration says."""
        found = self._database.note(_KEEPS_DETECTED)
        return None if found is None else bool(found)

    def keep_detected(self, *, on: bool) -> None:
        """Keep detected sounds from now on, or none."""
        self._database.set_note(_KEEPS_DETECTED, on)

    def thresholds(self) -> dict[str, float]:
        """Return by label from which score, 0..1, it counts as heard, where the owner chose it."""
        return {str(label): float(value) for label, value in (self._database.note(_THRESHOLDS) or {}).items()}

    def set_threshold(self, label: str, threshold: float | None) -> None:
        """Choose from which score a label counts as heard; None: the device chooses."""
        others = {name: value for name, value in self.thresholds().items() if name != label}
        self._database.set_note(_THRESHOLDS, others if threshold is None else others | {label: threshold})

    def rename_label(self, former: str, label: str) -> None:
        """Let what belongs to a label follow its new name, which has none of its own: threshold, and key outside."""
        self._label_names.add(former, label)
        chosen = self.thresholds()
        if former in chosen:
            self.set_threshold(former, None)
            self.set_threshold(label, chosen[former])

    def expect_no_more(self, labels: Collection[str]) -> None:
        """Note that labels are gone, which therefore need no key outside that they had under another name."""
        self._label_names.settle({label_key(label) for label in labels})

    def renamings(self) -> list[Renaming]:
        """Return what was renamed, the newest first."""
        rows = self._database.rows("SELECT number, at, former, label, moves FROM renamings ORDER BY id DESC")
        return [
            Renaming(number, at, former, label, tuple(Move(*move) for move in json.loads(moves)))
            for number, at, former, label, moves in rows
        ]

    def add_renaming(self, one: Renaming) -> None:
        """Remember a renaming."""
        with self._database.changing() as connection:
            connection.execute(
                "INSERT INTO renamings (number, at, former, label, moves) VALUES (?, ?, ?, ?, ?)",
                (one.number, one.at, one.former, one.label, json.dumps(one.moves)),
            )
            connection.execute("DELETE FROM renamings WHERE id <= (SELECT MAX(id) FROM renamings) - ?", (_RENAMINGS,))

    def forget_renaming(self, number: int) -> None:
        """Forget a renaming."""
        with self._database.changing() as connection:
            connection.execute("DELETE FROM renamings WHERE number = ?", (number,))

    def forget_old(self, days: float = KEEP_DAYS) -> None:
        """Forget renamings of a certain age; one of a clock that was wrong begins to age now."""
        now = time.time()
        wrong, old = "FROM renamings WHERE at < ? OR at > ?", "FROM renamings WHERE at <= ?"
        unlikely, before = (FIRST_CLOCK_S, now + DAY_S), (now - days * DAY_S,)
        if self._database.rows(f"SELECT 1 {wrong} LIMIT 1", unlikely) or self._database.rows(f"SELECT 1 {old}", before):
            with self._database.changing(durable=False) as connection:
                connection.execute("UPDATE renamings SET at = ? WHERE at < ? OR at > ?", (now, *unlikely))
                connection.execute(f"DELETE {old}", before)

    def forget_labels(self, labels: Collection[str]) -> None:
        """Forget whatever names one of some labels."""
        for label in self.thresholds().keys() & set(labels):
            self.set_threshold(label, None)
        for one in self.renamings():
            folders = {folder for move in one.moves for folder in (move.source, move.target)}
            if {one.former, one.label, *(folder.rpartition("/")[2] for folder in folders)} & set(labels):
                self.forget_renaming(one.number)
