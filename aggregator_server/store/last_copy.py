"""The note of a data folder's newest copy: where it is. Its age is the note's."""

from datetime import UTC, datetime
from pathlib import Path

from fleet_protocol.atomic_files import write_durably

_NOTE = ".backed-up"  # in no copy: a folder that was restored has none of its own yet


def note_copy(folder: Path, file: Path) -> None:
    """Note a copy that is whole. Raises OSError: the disk refuses."""
    write_durably(folder / _NOTE, str(file.resolve()).encode("utf-8", "surrogateescape"))


def copied_at(folder: Path) -> float:
    """Return when a data folder was last copied, in seconds since 1970; 0 where it never was."""
    try:
        return (folder / _NOTE).stat().st_mtime
    except FileNotFoundError:
        return 0.0


def way_back(folder: Path) -> str:
    """Return what to do where a data folder is damaged, for people: which copy of it is the last good one."""
    at = copied_at(folder)
    if not at:
        return "no copy of it was ever made here; restore one that you have (`auricle-aggregator restore`)"
    file = (folder / _NOTE).read_bytes().decode("utf-8", "surrogateescape")
    return (
        f"the last good copy is {file}, of {datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M} UTC: "
        f"auricle-aggregator restore {file} --data NEW_FOLDER"
    )
