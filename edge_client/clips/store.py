"""The clips that the device was taught with: ``<label>/<digest>.wav``, 16 bit, one channel, at the model's rate.

A clip's name is the digest of its content, so that the same sound never counts twice. Clips appear, move and go by
one rename each; those who change the store hold a lock meanwhile, those who read it need none.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import time
from collections.abc import Container, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from edge_client.audio.recordings import content_name, encode_wave, require_whole
from edge_client.audio.resampling import resample
from edge_client.clips import folders
from edge_client.config.sections import ClipsConfig
from edge_client.errors import ClipError, QuotaError
from edge_client.storage.ages import DAY_S, is_likely
from edge_client.storage.locks import is_locked, take_lock
from fleet_protocol.ground.atomic_files import flush_folder, leftovers, make_folder, remove_durably, write_durably
from fleet_protocol.numbers.arrays import Floats

# How long a command waits for another one that is changing the store, in seconds.
_PATIENCE_S = 5.0
_LOCK = ".lock"
# Pieces of the room's own sound that are kept.
_MAX_BACKGROUND = 30
_MB = 1_000_000


class ClipStore:
    """A folder of taught clips. One object is not for several threads at once; processes may share the folder."""

    def __init__(self, folder: Path, config: ClipsConfig, sample_rate_hz: int) -> None:
        self.folder = folder
        self._config = config
        self._rate_hz = sample_rate_hz
        self._depth = 0
        self._used = 0

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Hold the store, for many changes at once; may be nested. Raises ClipError if another process holds it."""
        if self._depth == 0:
            descriptor = self._lock()
        self._depth += 1
        try:
            if self._depth == 1:
                self._used = self.size_bytes()
            yield
        finally:
            self._depth -= 1
            if self._depth == 0:
                os.close(descriptor)

    def add(self, label: str, samples: Floats, rate_hz: int) -> tuple[Path, bool]:
        """Store float32 [samples] in -1..1; return the clip's path, and whether the label did not have it already.

        Raises ClipError if it cannot be stored or another process changes the store, QuotaError if there is no room.
        """
        label = folders.check_folder(label)
        if samples.ndim != 1 or not len(samples) or not np.isfinite(samples).all():
            raise ClipError(f"a clip must be one channel of finite samples, not an array of shape {samples.shape}")
        data = encode_wave(resample(np.asarray(samples, np.float32), rate_hz, self._rate_hz), self._rate_hz)
        return self._put(label, data)

    def add_background(self, samples: Floats, rate_hz: int, clip_s: float) -> None:
        """Keep the room's own sound in pieces as long as a clip; the newest few stay. Raises as :meth:`add`."""
        length = round(clip_s * rate_hz)
        with self.changing():
            for start in range(0, len(samples) - length + 1, length):
                self.add(folders.BACKGROUND, samples[start : start + length], rate_hz)
            kept = sorted((self.folder / folders.BACKGROUND).glob("*.wav"), key=_likely_time)
            for path in kept[:-_MAX_BACKGROUND]:
                self.delete(folders.Clip(folders.BACKGROUND, path))

    def take_in(self, source: Path, label: str) -> Path:
        """Move a file of the store's own format in, safe at any power cut. Raises as :meth:`add`, or RecordingError."""
        require_whole(source)
        with self.changing():
            path, _ = self._put(folders.check_folder(label), source.read_bytes())
            remove_durably(source)
        return path

    def relabel(self, clip: folders.Clip, label: str) -> folders.Clip:
        """Move a clip to another label, or a reserved folder. Raises ClipError if that cannot be, or it is gone."""
        target = self.folder / folders.check_folder(label) / clip.path.name
        with self.changing():
            self._require_present(clip)
            make_folder(target.parent)
            clip.path.replace(target)
            flush_folder(target.parent)
            self._forget_folder(clip.path.parent)
        return folders.Clip(folders.folder_of(target, self.folder), target)

    def delete(self, clip: folders.Clip) -> None:
        """Remove a clip for good. Raises ClipError if it is gone, or another process is changing the store."""
        with self.changing():
            self._require_present(clip)
            self._used -= clip.path.stat().st_size
            remove_durably(clip.path)
            self._forget_folder(clip.path.parent)

    def put_back(self, source: Path, label: str) -> None:
        """Give a folder a clip of another one, under its name; ``source`` stays. Raises as :meth:`add`."""
        target = self.folder / folders.check_folder(label) / source.name
        with self.changing():
            if not target.exists():
                size = source.stat().st_size
                self._require_room(size)
                link_or_copy(source, target)
                self._used += size

    def empty_deleted(self, kept: Container[str] = ()) -> int:
        """Remove for good what was deleted, but for paths ``kept``; return how many clips went. Raises ClipError."""
        folder, removed = self.folder / folders.DELETED, 0
        with self.changing():
            for path in sorted(folder.rglob("*"), reverse=True):  # a folder comes after what is in it
                if path.is_dir():
                    with contextlib.suppress(OSError):  # it is not empty
                        path.rmdir()
                elif path.relative_to(self.folder).as_posix() not in kept:
                    remove_durably(path)
                    removed += 1
        return removed

    def labels(self) -> tuple[str, ...]:
        """Return the labels that have clips, in alphabetical order."""
        return folders.labels_with_clips(self.folder)

    def rejected_folders(self) -> tuple[str, ...]:
        """Return the folders of what is not a label, in alphabetical order."""
        return tuple(sorted({clip.label for clip in self._all() if clip.label.startswith(f"{folders.REJECTED}/")}))

    def clips(self, label: str | None = None) -> list[folders.Clip]:
        """Return all clips of labels, or those of one label or reserved folder, in the order of their names."""
        return [
            clip for clip in self._all() if (folders.is_label(clip.label) if label is None else clip.label == label)
        ]

    def find(self, given: str) -> folders.Clip:
        """Return the clip whose identifier begins like this, case ignored; ``LABEL/`` narrows it. Raises ClipError."""
        label, _, start = given.rpartition("/")
        start = start.lower()
        found = [clip for clip in self.clips(label or None) if clip.clip_id.startswith(start)]
        exact = [clip for clip in found if clip.clip_id == start]
        found = exact or found
        if not start or not found:
            raise ClipError(f"no clip is called {given!r}; `auricle-edge clips --label LABEL` lists a label's clips")
        if len(found) > 1:
            names = ", ".join(f"{clip.label}/{clip.clip_id}" for clip in found[:5])
            raise ClipError(f"{given!r} may be any of {len(found)} clips ({names}); give more of its identifier")
        return found[0]

    def size_bytes(self) -> int:
        """Return what all clips together take."""
        return sum(size_of(path) for path in folders.clip_files(self.folder))

    def tidy(self, now: float | None = None) -> bool:
        """Remove what a power cut left half-written or empty; False: not now, as another process changes the store.

        A label's folder that stayed empty for a day goes: a process was killed before it wrote the first clip into it.
        """
        if not self.is_at_rest():
            return not self.folder.is_dir()
        now = time.time() if now is None else now
        with self.changing():
            for folder in folders.label_folders(self.folder):
                empty_s = now - folder.stat().st_mtime
                for path in leftovers(folder):
                    path.unlink()
                if empty_s > DAY_S:  # before, somebody may be about to put recordings into it
                    self._forget_folder(folder)
        return True

    def is_at_rest(self) -> bool:
        """Return whether the folder is there, whose disk may be mounted later, and no process is changing it."""
        return self.folder.is_dir() and not is_changing(self.folder)

    def _all(self) -> list[folders.Clip]:
        return [folders.Clip(folders.folder_of(path, self.folder), path) for path in folders.clip_files(self.folder)]

    def _lock(self) -> int:
        try:
            descriptor = take_lock(self.folder / _LOCK, _PATIENCE_S)
        except PermissionError as error:
            raise ClipError(
                f"not allowed to change {self.folder}: run this as the daemon's user (sudo -u auricle ...)"
            ) from error
        if descriptor is None:
            raise ClipError(f"another command is changing the clips in {self.folder}; wait for it to end")
        return descriptor

    def _put(self, label: str, data: bytes) -> tuple[Path, bool]:
        path = self.folder / label / content_name(data)
        with self.changing():
            if is_new := not path.exists():
                self._require_room(len(data))
                write_durably(path, data)
                self._used += len(data)
        return path, is_new

    def _require_room(self, size: int) -> None:
        if self._used + size > self._config.quota_mb * _MB:
            raise QuotaError(
                f"the clips in {self.folder} take {self._used / _MB:.1f} MB of the {self._config.quota_mb:g} MB that "
                "[clips] quota_mb allows; delete some (`auricle-edge clips delete --label LABEL`), or raise the quota"
            )

    def _require_present(self, clip: folders.Clip) -> None:
        if not clip.path.exists():
            raise ClipError(f"clip {clip.clip_id} of {clip.label!r} is gone: another command moved or deleted it")

    def _forget_folder(self, folder: Path) -> None:
        """Make a removal last; a folder that has become empty goes too, since its name is the owner's word."""
        flush_folder(folder)
        if not any(folder.iterdir()):
            folder.rmdir()
            flush_folder(self.folder)


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


def is_changing(folder: Path) -> bool:
    """Return whether a process is changing the clips at this moment."""
    return is_locked(folder / _LOCK)


def _likely_time(path: Path) -> float:
    """Return when a file was written, s since 1970; 0 where the clock was wrong then."""
    written = path.stat().st_mtime
    return written if is_likely(written, time.time()) else 0.0


def size_of(path: Path) -> int:
    """Return a file's size in bytes; 0 of one that is gone."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
