"""Under which key other programs know a label, as Home Assistant its sensor: a label keeps it when it is renamed."""

from __future__ import annotations

import hashlib
import itertools
import logging
from collections.abc import Collection, Sequence

from edge_client.errors import StateError
from edge_client.storage.database import Database

log = logging.getLogger(__name__)

_KEYS, _RENAMED = "announced", "renamed_labels"
_MOST_KEYS, _MOST_RENAMED = 256, 100


def label_key(label: str) -> str:
    """Return what stands for a label in topics, which take fewer characters than an owner's word: 12 hex digits."""
    return hashlib.sha256(label.encode()).hexdigest()[:12]


class Renamings:
    """Labels that have another name, and were not announced under it yet; notes hold no names but their keys.

    All raise StateError, OSError as :class:`Database` does.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def read(self) -> dict[str, str]:
        """Return by the key of each former name that of the one that it has now."""
        return dict(self._database.note(_RENAMED) or {})

    def add(self, former: str, label: str) -> None:
        """Note that a label has another name."""
        old, new = label_key(former), label_key(label)
        followed = {first: new if last == old else last for first, last in self.read().items()}
        self._write({first: last for first, last in followed.items() if first not in (last, old)} | {old: new})

    def settle(self, keys: Collection[str]) -> None:
        """Forget what is known of names, by their keys: they were announced, or there are no such labels any more."""
        known = self.read()
        left = {first: last for first, last in known.items() if last not in keys}
        if left != known:
            self._write(left)

    def _write(self, known: dict[str, str]) -> None:
        self._database.set_note(_RENAMED, dict([*known.items()][-_MOST_RENAMED:]) or None)


class LabelKeys:
    """The keys of all labels that ever were announced; used by one thread.

    What is noted holds no names: each label stands there as :func:`label_key` has it, which is also its first key.
    """

    def __init__(self, database: Database | None) -> None:
        """Read what an earlier process noted in the device's database; None: nothing is noted."""
        self._database = database
        self._renamings = None if database is None else Renamings(database)
        self._keys: dict[str, str] = {}
        self._current: set[str] = set()
        # Labels with another name that was not announced yet: they are not gone.
        self._awaited: set[str] = set()
        if database is not None:
            try:
                noted = database.note(_KEYS) or {}
            except (StateError, OSError) as error:
                log.warning("%s; sounds that are gone may stay in Home Assistant", error)
            else:  # a list is of a release in which a renamed label got another key
                self._keys = dict(noted) if isinstance(noted, dict) else {key: key for key in noted}

    def announce(self, labels: Sequence[str]) -> dict[str, str]:
        """Return the key of each label, and note it. A renamed one has the key that it had under its former name."""
        before, renamed = dict(self._keys), self._renamed()
        self._current = {label_key(label) for label in labels}
        taken_over: set[str] = set()
        for former, name in reversed(renamed.items()):
            if name in self._current - taken_over and former not in self._current and former in self._keys:
                if name in self._keys:  # a label of that name was here once; its key is another one's, and is gone
                    self._keys[f"gone {self._keys[name]}"] = self._keys.pop(name)
                self._keys[name] = self._keys.pop(former)
                taken_over.add(name)
        for name in sorted(self._current - self._keys.keys()):
            self._keys[name] = self._fresh(name)
        spare = [name for name in self._keys if name not in self._current]
        for name in spare[: max(0, len(self._keys) - _MOST_KEYS)]:
            del self._keys[name]
        self._awaited = {end for pair in renamed.items() if pair[1] not in self._current for end in pair}
        self._note(before, settled=bool(self._current.intersection(renamed.values())))
        return {label: self._keys[label_key(label)] for label in labels}

    @property
    def gone(self) -> set[str]:
        """The keys of labels that were announced once, and last were not."""
        return {key for name, key in self._keys.items() if name not in self._current | self._awaited}

    def _fresh(self, name: str) -> str:
        tried = (name if not number else label_key(f"{name}/{number}") for number in itertools.count())
        taken = set(self._keys.values())
        return next(key for key in tried if key not in taken)

    def _renamed(self) -> dict[str, str]:
        try:
            return {} if self._renamings is None else self._renamings.read()
        except (StateError, OSError) as error:
            log.warning("cannot read which sounds were renamed: %s", error)
            return {}

    def _note(self, before: dict[str, str], *, settled: bool) -> None:
        """Note the keys, first, so that after a power cut a label has its former key at least."""
        try:
            if self._database is not None and self._keys != before:
                self._database.set_note(_KEYS, self._keys)
            if self._renamings is not None and settled:
                self._renamings.settle(self._current)
        except (StateError, OSError) as error:
            log.warning("cannot note which sounds were announced: %s", error)
