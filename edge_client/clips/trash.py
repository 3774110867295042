"""Clips that were deleted lately: they are kept for a week, so that a deletion can be undone.

Each deletion has a folder of its own, named by its number and time; in it lies ``<label>/<name>`` as in the clip store.
Nothing learns from what lies here.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from edge_client.clips.files import Clip, clip_files, folder_of
from edge_client.storage.ages import DAY_S, age_s
from fleet_protocol.atomic_files import flush_folder, make_folder, remove_durably, write_durably

KEEP_DAYS = 7.0
_NAME = re.compile(r"(\d{8,})-(\d{13,})")


@dataclass(frozen=True)
class Deletion:
    """Clips that were deleted together. ``number``: of the owner's change; ``deleted_at``: seconds since 1970."""

    number: int
    deleted_at: float
    clips: tuple[Clip, ...]


class Trash:
    """A folder of deletions. Those who change it hold the clip store meanwhile (``ClipStore.changing``)."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def keep(self, clips: Iterable[Clip], number: int, now: float | None = None) -> None:
        """Keep clips that are about to be deleted, as one deletion of a number (``Teaching.next_number``)."""
        folder = self.folder / f"{number:08d}-{round(1e3 * (time.time() if now is None else now)):013d}"
        for clip in clips:
            link_or_copy(clip.path, folder / clip.label / clip.path.name)

    def deletions(self) -> list[Deletion]:
        """Return what can be undone, the newest deletion first."""
        named = ((_clips(path), _NAME.fullmatch(path.name)) for path in self._folders())
        return [Deletion(int(name[1]), int(name[2]) / 1e3, clips) for clips, name in named if clips and name]

    def remove(self, path: Path) -> None:
        """Remove a clip that was put back, and the folders that it leaves empty."""
        remove_durably(path)
        for folder in path.parents[: len(path.relative_to(self.folder).parts) - 1]:
            with contextlib.suppress(OSError):  # it is not empty
                folder.rmdir()

    def empty(self, older_than_days: float = KEEP_DAYS, now: float | None = None) -> int:
        """Remove deletions of a certain age for good; return how many clips these were."""
        now = time.time() if now is None else now
        removed = 0
        for folder in self._folders():
            name = _NAME.fullmatch(folder.name)
            if name is None or age_s(folder, now, int(name[2]) / 1e3) >= older_than_days * DAY_S:
                removed += len(_clips(folder))
                shutil.rmtree(folder)
        if removed:
            flush_folder(self.folder)
        return removed

    def _folders(self) -> list[Path]:
        return sorted(self.folder.iterdir(), reverse=True) if self.folder.is_dir() else []


def link_or_copy(source: Path, target: Path) -> None:
    """Have a file in a second place too, by a link where both are on one disk; one that is there stays."""
    make_folder(target.parent)
    try:
        os.link(source, target)
    except FileExistsError:
        return
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP):
            raise
        write_durably(target, source.read_bytes())
        shutil.copystat(source, target)
    flush_folder(target.parent)


def _clips(folder: Path) -> tuple[Clip, ...]:
    return tuple(Clip(folder_of(path, folder), path) for path in clip_files(folder))
