"""Downloads one large file of a known checksum; a download that was cut goes on where it stopped (RFC 9110, Range)."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

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

    Args:
        url: where from.
        target: what is there of it is kept, if the download fails for any reason but a wrong checksum.
        sha256: of the whole file, 64 hex digits.
        tell: told now and then how far it is.
        pause_s: before a second try that follows one without a byte; later ones wait longer.

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
        _require_space(target, total - have)
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


def _require_space(target: Path, needed: int) -> None:
    free = shutil.disk_usage(target.parent).free
    if needed > free:
        raise FetchError(
            f"{target} needs {needed:,} bytes more and {target.parent} has {free:,} free; make space, or name another "
            "folder by --output"
        )


@contextmanager
def full_disk_named(path: Path) -> Iterator[None]:
    """Turn the error of a full disk into one that names what was to be written.

    Raises:
        FetchError: the disk is full.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in _NO_SPACE:
            raise
        raise FetchError(
            f"no space is left for {path} ({error.strerror}); what is downloaded is kept: make space, and the same "
            "command goes on from there"
        ) from error
