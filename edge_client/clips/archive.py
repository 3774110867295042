"""The file in which an owner takes his clips and choices to another device: a zip of WAV files, and a document.

Whoever gives such a file to a device may have made it himself. So it is read whole and checked before anything of it is
taken: nothing in it is compressed, and every clip has the very bytes that a device writes, and their digest as a name.
"""

from __future__ import annotations

import errno
import io
import json
import math
import re
import struct
import wave
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

from edge_client.audio.recordings import content_name, encode_wave
from edge_client.clips.folders import check_label, rejected
from edge_client.config.hours import hours_problem
from edge_client.errors import ClipError
from edge_client.storage.owner_choices import Listened
from fleet_protocol.numbers.arrays import Floats

_DOCUMENT, _FORMAT = "auricle-clips.json", 1
_ENTRY = re.compile(r"(takes|not)/([^/]{1,200})/([0-9a-f]{16}\.wav)")
# Bytes of the document and of a clip; clips; labels; bytes of the zip's own list of files.
_DOCUMENT_BYTES, _CLIP_BYTES, _CLIPS, _LABELS, _LIST_BYTES = 2**18, 6 * 2**20, 20_000, 500, 2**23
_RATES_HZ = range(8_000, 48_001)
# The end of a zip without a comment, the list's size in it, and what stands before it where the zip is a large one.
_END, _END_BYTES, _LARGE, _LARGE_BYTES = b"PK\x05\x06", 22, b"PK\x06\x07", 20


@dataclass(frozen=True)
class Contents:
    """What is in a file beside its clips: by label the built-in sound, the threshold, 0..1, and when it is heard."""

    known: Mapping[str, str]
    thresholds: Mapping[str, float]
    listened: Mapping[str, Listened]


def packed(contents: Contents, clips: Iterator[tuple[str, bytes]]) -> Iterator[bytes]:
    """Yield the parts of a file one by one. ``clips``: folder of the store, and the clip as ``encode_wave`` has it."""
    parts = _Parts()
    with zipfile.ZipFile(parts, "w") as archive:
        document = {
            "format": _FORMAT,
            "known": dict(contents.known),
            "thresholds": dict(contents.thresholds),
            "listened": {label: [one.on, one.hours] for label, one in contents.listened.items()},
        }
        archive.writestr(_entry(_DOCUMENT), json.dumps(document, indent=1, ensure_ascii=False))
        for folder, data in clips:
            label = folder.rpartition("/")[2]
            kind = "takes" if label == folder else "not"
            archive.writestr(_entry(f"{kind}/{label}/{content_name(data)}"), data)
            yield parts.taken()
    yield parts.taken()


class Archive:
    """A file of a person's choice, as far as it is one; every method raises ClipError where it is not."""

    def __init__(self, file: BinaryIO, largest: int) -> None:
        """Look at a file of at most ``largest`` bytes, and at its document; ``file`` can be sought."""
        with _refused():
            self._archive = _opened(file, largest)
            self._entries = _entries(self._archive, largest)
            self.contents = _contents(self._archive.read(_DOCUMENT))

    def clips(self) -> Iterator[tuple[str, Floats, int]]:
        """Yield the clips one by one: folder of the store, float32 [samples], rate in Hz."""
        for info, folder, name in self._entries:
            with _refused():
                samples, rate_hz = _decoded(self._archive.read(info), name)
            yield folder, samples, rate_hz


def _entry(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = 0o600 << 16
    return info


class _Parts(io.RawIOBase):
    """What a zip writes, until it is taken."""

    def __init__(self) -> None:
        self._waiting = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:  # noqa: ANN401  (whatever is a buffer)
        self._waiting += data
        return len(data)

    def taken(self) -> bytes:
        taken = bytes(self._waiting)
        self._waiting.clear()
        return taken


class _refused:  # noqa: N801  (a context manager)
    """Says of whatever fails that the file is none of these."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        broken = (zipfile.BadZipFile, wave.Error, struct.error, EOFError, ValueError, KeyError, OverflowError)
        nowhere = isinstance(error, OSError) and error.errno == errno.EINVAL  # an offset before the file
        if nowhere or isinstance(error, (*broken, RuntimeError)):
            why = f"{error}"[:200] or type(error).__name__
            raise ClipError(f"this is no file of `auricle-edge clips export`, or it is damaged: {why!r}") from error


def _opened(file: BinaryIO, largest: int) -> zipfile.ZipFile:
    size = file.seek(0, io.SEEK_END)
    if size > largest:
        raise ValueError(f"it has {size / 1e6:.1f} MB; at most {largest / 1e6:.1f} MB can be taken in")
    file.seek(max(0, size - _END_BYTES - _LARGE_BYTES))
    end = file.read()
    if end[-_END_BYTES:][:4] != _END or _LARGE in end[: -_END_BYTES or None]:
        raise ValueError("its end is not that of such a file")
    if int.from_bytes(end[-10:-6], "little") > _LIST_BYTES:
        raise ValueError("it lists too many files")
    file.seek(0)
    return zipfile.ZipFile(file)


def _entries(archive: zipfile.ZipFile, largest: int) -> list[tuple[zipfile.ZipInfo, str, str]]:
    """Return every clip with its folder and name, once all of them are what they should be."""
    found, names = [], set()
    infos = archive.infolist()
    if len(infos) > _CLIPS or sum(info.file_size for info in infos) > largest:
        raise ValueError("it holds too much")
    for info in infos:
        bound = _DOCUMENT_BYTES if info.filename == _DOCUMENT else _CLIP_BYTES
        plain = info.compress_type == zipfile.ZIP_STORED and not info.flag_bits & 1
        if not plain or info.file_size != info.compress_size or info.file_size > bound or info.filename in names:
            raise ValueError(f"{info.filename[:100]} is not stored as it should be")
        names.add(info.filename)
        if info.filename == _DOCUMENT:
            continue
        match = _ENTRY.fullmatch(info.filename)
        if match is None or check_label(match[2]) != match[2]:
            raise ValueError(f"{info.filename[:100]} is no name of a clip")
        found.append((info, match[2] if match[1] == "takes" else rejected(match[2]), match[3]))
    return found


def _contents(data: bytes) -> Contents:
    document = json.loads(data)
    if not isinstance(document, dict) or document.get("format") != _FORMAT:
        raise ValueError(f"its format is none that this release knows, which is {_FORMAT}")
    # Files of before have no choices of what is listened for.
    known, thresholds, listened = document["known"], document["thresholds"], document.get("listened", {})
    for part, kinds in ((known, str), (thresholds, (int, float)), (listened, list)):
        if not isinstance(part, dict) or len(part) > _LABELS:
            raise ValueError("its document is none")
        for label, value in part.items():
            if check_label(label) != label or not isinstance(value, kinds) or isinstance(value, bool):
                raise ValueError(f"its document says {str(value)[:50]} of {label[:100]}")
    if not all(math.isfinite(value) and 0 <= value <= 1 for value in thresholds.values()):
        raise ValueError("a threshold is none")
    heard = {label: _listened(label, value) for label, value in listened.items()}
    return Contents(known, {label: float(value) for label, value in thresholds.items()}, heard)


def _listened(label: str, value: list[Any]) -> Listened:
    on, hours = value
    if not isinstance(on, bool) or not isinstance(hours, list) or not all(isinstance(one, str) for one in hours):
        raise ValueError(f"its document does not say when {label[:100]} is listened for")
    if problem := hours_problem(hours):
        raise ValueError(f"the hours of {label[:100]} {problem}")
    return Listened(on, tuple(hours))


def _decoded(data: bytes, name: str) -> tuple[Floats, int]:
    """Return float32 [samples] of a clip, and their rate in Hz."""
    with wave.open(io.BytesIO(data)) as file:
        if (file.getnchannels(), file.getsampwidth()) != (1, 2) or file.getframerate() not in _RATES_HZ:
            raise ValueError(f"{name} is not of one channel, 16 bit, 8 to 48 kHz")
        rate_hz, frames = file.getframerate(), file.readframes(_CLIP_BYTES)
    samples: Floats = np.frombuffer(frames[: len(frames) // 2 * 2], "<i2").astype(np.float32) / 32_768
    if not len(samples) or encode_wave(samples, rate_hz) != data or content_name(data) != name:
        raise ValueError(f"{name} is not what its name says")
    return samples, rate_hz
