"""`auricle-sim fetch`: public data sets, downloaded once, checked and unpacked. Nothing is fetched unless asked."""

from __future__ import annotations

import os
import re
import shutil
import tarfile
import time
import zlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TextIO

from edge_client.storage.locks import take_lock
from fleet_protocol.atomic_files import whole_folder
from fleet_simulator.data.download import download, full_disk_named
from fleet_simulator.errors import FetchError

_TOLD_EVERY_S = 2.0


@dataclass(frozen=True)
class DataSet:
    """A public archive.

    Attributes:
        url: where it is.
        sha256: of the archive, 64 hex digits.
    """

    url: str
    sha256: str


# Warden 2018, version 2; the checksum is the one that TensorFlow Datasets and torchaudio record.
DATA_SETS = {
    "speech_commands": DataSet(
        "http://download.tensorflow.org/data/speech_commands_v0.02.tar.gz",
        "af14739ee7dc311471de98f5f9d2c9191b18aedfe957f4a6ff791c709868ff58",
    )
}


def fetch(data: DataSet, folder: Path, out: TextIO) -> bool:
    """Download an archive beside a folder and unpack it there; the folder is there whole or not at all.

    Args:
        data: what.
        folder: to be made; one that is there already is left as it is.
        out: told how it goes.

    Returns:
        Whether anything was to be done.

    Raises:
        FetchError: the address or checksum makes no sense, the download fails (what came is kept for the next try), it
            is already going on, there is no space, or the archive is damaged or would write outside the folder.
    """
    if folder.exists():
        return False
    if not re.fullmatch("[0-9a-f]{64}", data.sha256):
        raise FetchError(f"the SHA-256 {data.sha256!r} must be 64 hex digits, as `sha256sum` prints them")
    if not data.url.startswith(("http://", "https://")):
        raise FetchError(f"the address {data.url!r} must start with http:// or https://")
    folder.parent.mkdir(parents=True, exist_ok=True)
    part = folder.parent / f"{folder.name}-{data.sha256[:12]}.part"
    lock = take_lock(part)
    if lock is None:
        raise FetchError(f"another process is fetching {part} already; wait for it, or name another --output")
    try:
        download(data.url, part, data.sha256, _Meter(out).tell)
        print(f"unpacking into {folder}", file=out, flush=True)
        with full_disk_named(folder):
            unpack(part, folder)
        part.unlink()
    finally:
        if part.exists() and not part.stat().st_size:
            part.unlink()
        os.close(lock)
    return True


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a tar archive of files and folders into a folder that is there whole or not at all.

    Raises:
        FetchError: the archive is damaged, or a member is a link or a device or would lie outside the folder.
    """
    try:
        with whole_folder(folder) as making:
            with tarfile.open(archive) as tar:
                for member in tar:
                    _unpack_member(tar, member, making)
            making.chmod(0o755)
            os.sync()  # a hundred thousand files: one by one would take minutes
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise FetchError(f"{archive} is no tar archive or a damaged one ({error}); remove it and try again") from error


def _unpack_member(tar: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    name = PurePosixPath(member.name)
    if name.is_absolute() or ".." in name.parts or not (member.isfile() or member.isdir()):
        raise FetchError(f"the archive's member {member.name!r} is no plain file inside it; nothing was unpacked")
    source = tar.extractfile(member)
    if source is None:
        return
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with source, path.open("wb") as file:
        shutil.copyfileobj(source, file)


class _Meter:
    """Says now and then how much has come."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._told = time.monotonic()

    def tell(self, have: int, total: int) -> None:
        """Print a line if the last one is some time ago."""
        now = time.monotonic()
        if now - self._told >= _TOLD_EVERY_S:
            self._told = now
            print(f"{have / 1e6:,.0f} of {total / 1e6:,.0f} MB", file=self._out, flush=True)
