"""What an owner decided beside the clips: whether detected sounds are kept, which sounds differ, what was renamed.

One small file, which commands and the owner's page write, and the daemon reads whenever it matters.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from edge_client.errors import DamagedError
from edge_client.storage.checked_files import read_twice, write_twice

FILE = "choices.json"
# Renamings that can be undone, and pairs that are remembered: the newest.
_RENAMINGS, _PAIRS = 50, 1000


class Move(NamedTuple):
    """A clip that moved from one folder of the clip store to another.

    Attributes:
        source: Folder in which it was.
        target: Folder in which it is.
        name: Name of its file.
        shared: Whether the target had the very same clip before.
    """

    source: str
    target: str
    name: str
    shared: bool


@dataclass(frozen=True)
class Renaming:
    """Clips that got another label together.

    Attributes:
        at_ms: Time, milliseconds since 1970.
        former: Their label until then.
        label: Their label since.
        moves: What moved, counter-examples included.
    """

    at_ms: int
    former: str
    label: str
    moves: tuple[Move, ...]


@dataclass(frozen=True)
class OwnerChoices:
    """All that is in the file.

    Attributes:
        keeps_detected: Whether sounds that are detected are kept; None: as the configuration says.
        different: Pairs of labels that sound alike and differ all the same, each in alphabetical order.
        renamings: What can be undone, the newest first.
    """

    keeps_detected: bool | None = None
    different: tuple[tuple[str, str], ...] = ()
    renamings: tuple[Renaming, ...] = ()


def read_choices(path: Path) -> OwnerChoices:
    """Return what the owner decided; nothing where there is no file, or where it and its copy are damaged."""
    try:
        found = json.loads(read_twice(path)[0])
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
    """Return the pairs of labels that sound the same, and of which the owner did not say that they differ.

    Args:
        choices: the owner's.
        expected: what is to be expected of each label, ``DeviceState.expectations``.
    """
    known = {found["label"] for found in expected}
    pairs = [(found["label"], other) for found in expected for other in found.get("same", ())]
    return [pair for pair in pairs if pair[0] < pair[1] and pair[1] in known and pair not in choices.different]


def forget(path: Path, *, older_than_ms: int = 0, labels: Collection[str] = ()) -> None:
    """Drop renamings of before a time, and whatever names one of some labels; the caller holds the clip store.

    Raises:
        OSError: the disk refuses.
    """
    choices, gone = read_choices(path), set(labels)
    kept = OwnerChoices(
        choices.keeps_detected,
        tuple(pair for pair in choices.different if not gone & set(pair)),
        tuple(one for one in choices.renamings if one.at_ms > older_than_ms and not gone & {one.former, one.label}),
    )
    if kept != choices:
        write_choices(path, kept)


def write_choices(path: Path, choices: OwnerChoices) -> None:
    """Replace the file; the caller holds the clip store.

    Raises:
        OSError: the disk refuses.
    """
    kept = asdict(choices) | {"different": choices.different[-_PAIRS:]}
    kept["renamings"] = [asdict(renaming) for renaming in choices.renamings[:_RENAMINGS]]
    write_twice(path, json.dumps(kept).encode())
