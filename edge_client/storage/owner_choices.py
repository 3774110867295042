"""What an owner decided beside the clips, and called wrong: as private as the clips, it never leaves.

Thresholds, what is listened for and when, whether sounds are kept. All raise StateError, OSError as :class:`Database`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from edge_client.config.hours import Hours
from edge_client.storage.ages import FIRST_CLOCK_S
from edge_client.storage.database import Database
from edge_client.storage.label_keys import Renamings, label_key

_KEEPS_DETECTED, _THRESHOLDS, _LISTENED = "keeps_detected", "thresholds", "listened"
# Wrong detections that are remembered.
_NEWEST = 500
_OLDER = """
DELETE FROM wrong_detections WHERE id <= (SELECT id FROM wrong_detections ORDER BY id DESC LIMIT 1 OFFSET ?)
"""


@dataclass(frozen=True)
class Listened:
    """Whether a label is listened for, and at which hours (``edge_client.config.hours``); none: all day."""

    on: bool = True
    hours: tuple[str, ...] = ()

    def now(self, moment: float) -> bool:
        """Return whether it is listened for at a time, s since 1970; a clock that is not set yet silences nothing."""
        return self.on and (moment < FIRST_CLOCK_S or Hours.read(self.hours).include(moment))

    @property
    def words(self) -> str:
        """Whether and when it is listened for, as its owner reads it."""
        if not self.on:
            return "you switched it off"
        return f"its hours are {', '.join(self.hours)}" if self.hours else "it is listened for at all hours"


class OwnerChoices:
    """A device's owner's choices."""

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

    def listened(self) -> dict[str, Listened]:
        """Return by label what the owner chose; a label that is not there is listened for at all hours."""
        found = dict(self._database.note(_LISTENED) or {})
        return {label: Listened(bool(on), tuple(hours)) for label, (on, hours) in found.items()}

    def of(self, label: str) -> Listened:
        """Return what the owner chose of a label."""
        return self.listened().get(label, Listened())

    def off(self, moment: float) -> frozenset[str]:
        """Return the labels that are not listened for at a time, s since 1970."""
        return frozenset(label for label, one in self.listened().items() if not one.now(moment))

    def switched_off(self) -> frozenset[str]:
        """Return the labels that the owner switched off, whatever their hours."""
        return frozenset(label for label, one in self.listened().items() if not one.on)

    def listen(self, label: str, chosen: Listened) -> None:
        """Choose whether and when a label is listened for."""
        found = {name: one for name, one in self.listened().items() if name != label}
        found |= {} if chosen == Listened() else {label: chosen}
        self._database.set_note(_LISTENED, {name: (one.on, one.hours) for name, one in found.items()} or None)

    def rename_label(self, former: str, label: str) -> None:
        """Let what belongs to a label follow its new name, which has none of its own: choices, and key outside."""
        self._label_names.add(former, label)
        chosen = self.thresholds()
        if former in chosen:
            self.set_threshold(former, None)
            self.set_threshold(label, chosen[former])
        if (listened := self.listened().get(former)) is not None:
            self.listen(former, Listened())
            self.listen(label, listened)

    def expect_no_more(self, labels: Collection[str]) -> None:
        """Note that labels are gone, which therefore need no key outside that they had under another name."""
        self._label_names.settle({label_key(label) for label in labels})

    def forget_labels(self, labels: Collection[str]) -> None:
        """Forget whatever names one of some labels."""
        for label in self.thresholds().keys() & set(labels):
            self.set_threshold(label, None)
        for label in self.listened().keys() & set(labels):
            self.listen(label, Listened())


def read_wrong_detections(database: Database) -> list[tuple[float, str]]:
    """Return time, s since 1970, and label of detections that the owner called wrong."""
    return database.rows("SELECT at, label FROM wrong_detections ORDER BY id")


def add_wrong_detections(database: Database, found: Iterable[tuple[float, str]]) -> None:
    """Remember more of them, the newest alone where there are many."""
    with database.changing() as connection:
        connection.executemany("INSERT OR IGNORE INTO wrong_detections (at, label) VALUES (?, ?)", found)
        connection.execute(_OLDER, (_NEWEST,))


def remove_wrong_detections(database: Database, found: Iterable[tuple[float, str]]) -> None:
    """Forget some of them: the owner took back what he said."""
    with database.changing() as connection:
        connection.executemany("DELETE FROM wrong_detections WHERE at = ? AND label = ?", found)


def forget_wrong_detections(database: Database) -> None:
    """Forget all of them."""
    with database.changing() as connection:
        connection.execute("DELETE FROM wrong_detections")
