"""An apt repository of the Debian packages, by Debian's own apt-ftparchive."""

import gzip
import os
import re
import shutil
import subprocess
from email.utils import formatdate
from pathlib import Path

from release import signatures
from release.errors import ReleaseError

SUITE = "stable"
_POOL = "pool/main/a/auricle-edge"


def write(folder: Path, packages: list[Path], architectures: list[str], epoch: int) -> None:
    """Write a repository that is not signed yet.

    Args:
        folder: of the repository, which is not there yet.
        packages: that it offers; they are copied.
        architectures: of the packages.
        epoch: its time, seconds since 1970.

    Raises ReleaseError: apt-ftparchive failed.
    """
    (folder / _POOL).mkdir(parents=True)
    for package in packages:
        shutil.copy(package, folder / _POOL)
    for architecture in architectures:
        index = folder / "dists" / SUITE / "main" / f"binary-{architecture}" / "Packages"
        index.parent.mkdir(parents=True)
        text = _ftparchive(folder, "--arch", architecture, "packages", "pool")
        index.write_bytes(text)
        index.with_suffix(".gz").write_bytes(gzip.compress(text, mtime=0))
    fields = {"Origin": "Auricle", "Label": "Auricle", "Suite": SUITE, "Codename": SUITE, "Components": "main"}
    fields["Architectures"] = " ".join(sorted(architectures))
    given = [word for name, value in fields.items() for word in ("-o", f"APT::FTPArchive::Release::{name}={value}")]
    text = _ftparchive(folder, *given, "release", f"dists/{SUITE}")
    # apt-ftparchive knows no other time than now.
    text = re.sub(rb"(?m)^Date: .*$", f"Date: {formatdate(epoch, usegmt=True)}".encode(), text)
    (folder / "dists" / SUITE / "Release").write_bytes(text)


def sign(folder: Path, key: str) -> None:
    """Sign a repository in both ways that apt knows. Raises ReleaseError: GnuPG failed."""
    released = folder / "dists" / SUITE / "Release"
    signatures.sign_inline(released, released.with_name("InRelease"), key)
    signatures.sign(released, released.with_name("Release.gpg"), key)


def _ftparchive(folder: Path, *words: str) -> bytes:
    digests = ("-o", "APT::FTPArchive::MD5=false", "-o", "APT::FTPArchive::SHA1=false")
    environment = {**os.environ, "LC_ALL": "C.UTF-8", "TZ": "UTC"}
    try:
        done = subprocess.run(
            ["apt-ftparchive", *digests, *words], cwd=folder, env=environment, capture_output=True, check=True
        )
    except FileNotFoundError:
        raise ReleaseError(
            "apt-ftparchive, which makes the repository, is missing: apt-get install apt-utils"
        ) from None
    except subprocess.CalledProcessError as error:
        raise ReleaseError(f"apt-ftparchive failed: {error.stderr.decode().strip()}") from None
    return done.stdout
