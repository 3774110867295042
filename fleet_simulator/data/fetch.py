"""`auricle-sim fetch`: public data sets, downloaded once, checked and unpacked. Nothing is fetched unless asked."""

from __future__ import annotations

import re
import tarfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from fleet_protocol.atomic_files import whole_folder
from fleet_simulator.errors import FetchError

_TIMEOUT_S = 30
_RETRIES = 3


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
        FetchError: the address or checksum makes no sense, the download fails, there is no space, or the archive is
            another one, is damaged or would write outside the folder.
    """
    import pooch  # type: ignore[import-untyped]
    from requests import RequestException

    if folder.exists():
        return False
    if not re.fullmatch("[0-9a-f]{64}", data.sha256):
        raise FetchError(f"the SHA-256 {data.sha256!r} must be 64 hex digits, as `sha256sum` prints them")
    if not data.url.startswith(("http://", "https://")):
        raise FetchError(f"the address {data.url!r} must start with http:// or https://")
    name = f"{folder.name}-{data.sha256[:12]}.part"
    store = pooch.create(
        folder.parent, "", registry={name: f"sha256:{data.sha256}"}, urls={name: data.url}, retry_if_failed=_RETRIES
    )
    pooch.get_logger().setLevel("ERROR")
    print(f"downloading {data.url}", file=out, flush=True)
    try:
        archive = Path(store.fetch(name, downloader=pooch.HTTPDownloader(timeout=_TIMEOUT_S)))
        print(f"unpacking into {folder}", file=out, flush=True)
        unpack(archive, folder)
    except (RequestException, ValueError) as error:
        raise FetchError(f"{data.url}: {error}; try again, or name a mirror by --url (and its --sha256)") from error
    except OSError as error:
        raise FetchError(f"cannot write {folder} ({error}); make space, or name another folder by --output") from error
    archive.unlink()
    return True


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a tar archive of files and folders into a folder that is there whole or not at all.

    Raises FetchError: the archive is damaged, or a member would lie outside the folder.
    """
    try:
        with whole_folder(folder) as making, tarfile.open(archive) as tar:
            tar.extractall(making, filter="data")
            making.chmod(0o755)
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise FetchError(f"{archive} cannot be unpacked ({error}); remove it and try again") from error
