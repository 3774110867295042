"""A device's state as one file, and back: who it is, what it learned, and what it was taught.

The file is a tar archive of files of the state folder, with ``backup.json`` at its end: a digest for each. Caches, and
what belongs to a running process, are left out.

A restore puts the files into ``.restore`` in the state folder, checks them, and names them in ``complete.json``. From
then on :func:`finish_restore` puts each into its place; whoever is interrupted meanwhile does the rest later.
"""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from edge_client.errors import StateError
from edge_client.storage.checked_files import copy_of, read_file_or_copy
from edge_client.storage.database import FILE as DATABASE
from edge_client.storage.database import Database
from edge_client.storage.device_state import KEPT_TWICE
from fleet_protocol.atomic_files import flush_folder, make_folder, remove_durably, write_durably
from fleet_protocol.backup_archive import BackupArchive, open_backup, written_backup
from fleet_protocol.command_line import version
from fleet_protocol.errors import BackupFormatError

_FILES = (*KEPT_TWICE, "embeddings.safetensors", DATABASE)
_FOLDERS = ("clips", "unknown", "detected", "outbox")
_BESIDE = (*(copy_of(Path(name)).name for name in KEPT_TWICE), f"{DATABASE}-wal", f"{DATABASE}-shm")
# What was heard in a room stays in no backup, and says nothing of the labels that come back.
_ROOM = ("room.safetensors",)
_MANIFEST, _FORMAT = "backup.json", 1
_RESTORE, _COMPLETE = ".restore", "complete.json"
# The store's lock stays where processes hold it.
_LOCK = ".lock"


def write_backup(state: Path, target: Path) -> int:
    """Write a state folder to a file, which only its owner can read, and return how many files are in it.

    A daemon may run meanwhile; the caller holds the clip store. Raises DamagedError if a file of the state and its copy
    are damaged.
    """

    def describe(digests: dict[str, str]) -> object:
        return {"format": _FORMAT, "version": version(), "made_at": time.time(), "files": digests}

    with written_backup(target, _MANIFEST, describe) as backup:
        for name, data in _contents(state):
            backup.add(name, io.BytesIO(data), len(data))
        return len(backup.digests)


def unpack_backup(source: Path, state: Path) -> Path:
    """Put the files of a backup into ``.restore``, laid out as a state folder, and return it; nothing else changes.

    Raises StateError if this is no backup, or it is damaged.
    """
    folder = state / _RESTORE
    shutil.rmtree(folder, ignore_errors=True)
    make_folder(folder)
    try:
        with open_backup(source, _MANIFEST) as backup:
            backup.unpack(folder, _digests(backup))
    except BaseException as error:
        discard_restore(state)
        if isinstance(error, BackupFormatError):
            raise StateError(f"{source} is no backup of a device, or is damaged: {error}") from error
        raise
    return folder


def _digests(backup: BackupArchive) -> dict[str, object]:
    """Return the digests of a device's files, once it is sure that they are such ones."""
    manifest = backup.manifest
    files = manifest.get("files") if isinstance(manifest, dict) else None
    if not isinstance(files, dict) or manifest.get("format") != _FORMAT:
        raise BackupFormatError(f"its {_MANIFEST} is of another release")
    for name in sorted(backup.names):
        if not _is_allowed(name):
            raise BackupFormatError(f"it holds {name!r}")
    return files


def commit_restore(state: Path) -> None:
    """Replace the state by what :func:`unpack_backup` unpacked; one that is killed meanwhile is finished later."""
    folder = state / _RESTORE
    for name in _FOLDERS:
        if (folder / name).is_dir():
            _flush_all(folder / name)
    names = sorted(path.name for path in folder.iterdir() if path.name in (*_FILES, *_FOLDERS))
    write_durably(folder / _COMPLETE, json.dumps(names).encode())
    finish_restore(state)


def finish_restore(state: Path) -> bool:
    """Put the rest of a restored state into its place; return whether there was something to do.

    What was never committed is removed. Only for the process that holds the locks.
    """
    folder = state / _RESTORE
    if not (folder / _COMPLETE).exists():
        discard_restore(state)
        return False
    restored = json.loads((folder / _COMPLETE).read_bytes())
    for name in (*_BESIDE, *_ROOM):
        remove_durably(state / name)
    for name in (*_FILES, *_FOLDERS):
        if (folder / name).exists():
            _remove(state / name)
            (folder / name).rename(state / name)
        elif name not in restored:
            _remove(state / name)
    flush_folder(state)
    remove_durably(folder / _COMPLETE)
    shutil.rmtree(folder)
    flush_folder(state)
    return True


def discard_restore(state: Path) -> None:
    """Remove what was unpacked, without restoring it."""
    shutil.rmtree(state / _RESTORE, ignore_errors=True)


def _contents(state: Path) -> Iterator[tuple[str, bytes]]:
    for name in _FILES:
        if (state / name).exists():
            yield name, _whole(state / name)
    for folder in _FOLDERS:
        for path in sorted((state / folder).rglob("*")):
            if path.is_file() and not path.name.startswith("."):
                with contextlib.suppress(FileNotFoundError):  # it expired, or was sent, meanwhile
                    yield path.relative_to(state).as_posix(), path.read_bytes()


def _whole(path: Path) -> bytes:
    """Return a file's content; that of its copy where it is damaged."""
    if path.name in KEPT_TWICE:
        _, from_copy = read_file_or_copy(path)
        return (copy_of(path) if from_copy else path).read_bytes()
    if path.name == DATABASE:
        return Database(path).copy()
    return path.read_bytes()


def _is_allowed(name: str) -> bool:
    """Return whether a name may become a file of the state."""
    parts = name.split("/")
    if any(part.startswith(".") for part in parts):
        return False
    return name in _FILES if len(parts) == 1 else parts[0] in _FOLDERS and len(parts) <= 5


def _flush_all(folder: Path) -> None:
    for place in (folder, *(path for path in folder.rglob("*") if path.is_dir())):
        flush_folder(place)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
