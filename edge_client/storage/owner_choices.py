"""What an owner decided beside the clips: whether detected sounds are kept, which sounds differ, what was renamed.

One small file, which commands and the owner's page write, and the daemon reads whenever it matters.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from edge_client.errors import DamagedError, StateError
from edge_client.storage.checked_files import read_twice, write_twice
from edge_client.storage.locks import take_lock

FILE = "choices.json"
# Renamings that can be undone, and pairs that are remembered: the newest.
_RENAMINGS, _PAIRS = 50, 1000
_PATIENCE_S = 5.0


class Move(NamedTuple):
    """A clip that moved between folders of the store; ``shared``: the target had the very same clip before."""

    source: str
    target: str
    name: str
    shared: bool


@dataclass(frozen=True)
class Renaming:
    """Clips, counter-examples included, that got another label than the ``former`` one together."""

    at_ms: int
    former: str
    label: str
    moves: tuple[Move, ...]


@dataclass(frozen=True)
class OwnerChoices:
    """All that is in the file. ``keeps_detected`` None: as the configuration says; ``renamings``: the newest first."""

    keeps_detected: bool | None = None
    different: tuple[tuple[str, str], ...] = ()
    renamings: tuple[Renaming, ...] = ()


def read_choices(path: Path) -> OwnerChoices:
    """Return what the owner decided; nothing where there is no file, or where it and its copy are damaged."""
    try:
        found = json.loads(read_twice(path))
        return OwnerChoices(
            found["keeps_detected"],
            tuple((first, second) for first, second in found["different"]),
            tuple(
                Renaming(one["at_ms"], one["former"], one["label"], tuple(Move(*move) for move in one["moves"]))
                for one in found["renamings"]
            ),
        )
    except (FileNotFoundError, DamagedError):
        return OwnerChoices()


def same_sounds(choices: OwnerChoices, expected: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Return pairs of labels expected to sound the same, of which the owner did not say that they differ."""
    known = {found["label"] for found in expected}
    pairs = [(found["label"], other) for found in expected for other in found.get("same", ())]
    return [pair for pair in pairs if pair[0] < pair[1] and pair[1] in known and pair not in choices.different]


def forget(path: Path, *, older_than_ms: int = 0, labels: Collection[str] = ()) -> None:
    """Drop renamings of before a time, and whatever names one of some labels.

    Raises StateError, OSError as :func:`change_choices`.
    """
    gone = set(labels)
    if path.exists():
        change_choices(
            path,
            lambda choices: OwnerChoices(
                choices.keeps_detected,
                tuple(pair for pair in choices.different if not gone & set(pair)),
                tuple(
                    one for one in choices.renamings if one.at_ms > older_than_ms and not gone & {one.former, one.label}
                ),
            ),
        )


def change_choices(path: Path, change: Callable[[OwnerChoices], OwnerChoices]) -> None:
    """Replace the file by what a function makes of it; no other process changes it meanwhile.

    Raises StateError if another process does not let go of it.
    """
    lock = take_lock(path.with_suffix(".lock"), _PATIENCE_S)
    if lock is None:
        raise StateError(f"another program is changing {path}; try again")
    try:
        before = read_choices(path)
        after = change(before)
        if after != before:
            _write(path, after)
    finally:
        os.close(lock)


def _write(path: Path, choices: OwnerChoices) -> None:
    kept = asdict(choices) | {"different": choices.different[-_PAIRS:]}
    kept["renamings"] = [asdict(renaming) for renaming in choices.renamings[:_RENAMINGS]]
    write_twice(path, json.dumps(kept).encode())
