"""`auricle-sim fetch`: public data sets, downloaded once, checked and unpacked. Nothing is fetched unless asked.

A download that was cut goes on where it stopped (RFC 9110, Range).
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import tarfile
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, TextIO

from edge_client.storage.locks import take_lock
from fleet_protocol.atomic_files import whole_folder
from fleet_simulator.errors import FetchError

if TYPE_CHECKING:
    import httpx

Tell = Callable[[int, int], None]  # bytes that are there, and bytes in all
_TIMEOUT_S = 30.0
_TRIES = 5  # in a row that bring no byte
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class _CutError(Exception):
    """The transfer ended early; another try may do."""


def download(url: str, target: Path, sha256: str, tell: Tell, pause_s: float = 1.0) -> None:
    """Download a file, or what is missing of it, and check it.

    What came is kept, if the download fails for any reason but a wrong checksum. The first pause is before a second try
    that follows one without a byte; later ones are longer.

    Raises:
        FetchError: the server does not give the file, the connection failed again and again, there is no space, or the
            file is another one.
    """
    import httpx

    fruitless = 0
    with httpx.Client(follow_redirects=True, timeout=_TIMEOUT_S) as client:
        while True:
            before = _size(target)
            try:
                _transfer(client, url, target, tell)
                break
            except (_CutError, httpx.TransportError) as error:
                fruitless = 0 if _size(target) > before else fruitless + 1
                if fruitless == _TRIES:
                    cause = error or type(error).__name__
                    raise FetchError(
                        f"{url}: {cause}; {_size(target):,} bytes are in {target}, the same command goes on from there"
                    ) from error
                time.sleep(pause_s * fruitless)
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                raise FetchError(f"{url}: {error}; name another address by --url") from error
    _check(url, target, sha256)


def _transfer(client: httpx.Client, url: str, target: Path, tell: Tell) -> None:
    have = _size(target)
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
    with client.stream("GET", url, headers=headers) as response:
        if response.status_code == 416:  # nothing is beyond what is there: the checksum tells whether that is all
            return
        if response.status_code >= 500:
            raise _CutError(f"the server answers {response.status_code} {response.reason_phrase}")
        if response.status_code not in (200, 206):
            answer = f"{response.status_code} {response.reason_phrase}"
            raise FetchError(f"{url}: the server answers {answer}; name another address by --url")
        goes_on = response.status_code == 206
        if goes_on and not response.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
            raise FetchError(
                f"{url}: asked for bytes from {have} on, the server sends others; remove {target}, try again"
            )
        have = have if goes_on else 0  # a server without ranges starts anew
        total = have + int(response.headers.get("Content-Length", 0))
        free = shutil.disk_usage(target.parent).free
        if total - have > free:
            raise FetchError(
                f"{target} needs {total - have:,} bytes more and {target.parent} has {free:,} free; make space, or "
                "name another folder by --output"
            )
        with target.open("ab" if goes_on else "wb") as file, full_disk_named(target):
            for chunk in response.iter_raw():
                file.write(chunk)
                have += len(chunk)
                tell(have, max(have, total))
            file.flush()
            os.fsync(file.fileno())


def _check(url: str, target: Path, sha256: str) -> None:
    with target.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != sha256:
        size = _size(target)
        target.unlink()
        raise FetchError(
            f"{url}: the file of {size:,} bytes has the SHA-256 {found} instead of {sha256}, so it is another or a "
            "damaged one and was removed; try again, or name a mirror by --url (and another version by --sha256)"
        )


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


@contextmanager
def full_disk_named(path: Path) -> Iterator[None]:
    """Turn the error of a full disk into one that names what was to be written. Raises FetchError: the disk is full."""
    try:
        yield
    except OSError as error:
        if error.errno not in _NO_SPACE:
            raise
        raise FetchError(
            f"no space is left for {path} ({error.strerror}); what is downloaded is kept: make space, and the same "
            "command goes on from there"
        ) from error


_TOLD_EVERY_S = 2.0


@dataclass(frozen=True)
class DataSet:
    """A public archive."""

    url: str  # where it is
    sha256: str  # of the archive, 64 hex digits


# Warden 2018, version 2; the checksum is the one that TensorFlow Datasets and torchaudio record.
DATA_SETS = {
    "speech_commands": DataSet(
        "http://download.tensorflow.org/data/speech_commands_v0.02.tar.gz",
        "af14739ee7dc311471de98f5f9d2c9191b18aedfe957f4a6ff791c709868ff58",
    )
}


def fetch(data: DataSet, folder: Path, out: TextIO) -> bool:
    """Download an archive beside a folder and unpack it there; the folder is there whole or not at all.

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
        download(data.url, part, data.sha256, _meter(out))
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

    Raises FetchError: the archive is damaged, or a member is a link or a device or would lie outside the folder.
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


def _meter(out: TextIO) -> Tell:
    """Return what says now and then how much has come."""
    told = time.monotonic()

    def tell(have: int, total: int) -> None:
        nonlocal told
        if time.monotonic() - told >= _TOLD_EVERY_S:
            told = time.monotonic()
            print(f"{have / 1e6:,.0f} of {total / 1e6:,.0f} MB", file=out, flush=True)

    return tell
