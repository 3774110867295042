"""sdist and wheel of the same bytes for the same sources, wherever and by whomever they are built."""

import gzip
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from release.errors import ReleaseError

# The build backend of pyproject.toml writes its own version into the wheel, and other versions write other metadata.
SETUPTOOLS = "setuptools==84.2.1"


def install_tools(folder: Path, *options: str | Path) -> Path:
    """Install the build backend into a folder, by pip with further options; return the folder.

    Raises ReleaseError: pip failed.
    """
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
    done = subprocess.run([*pip, "--target", folder, *options, SETUPTOOLS], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ReleaseError(f"{SETUPTOOLS}, which builds the wheel, cannot be installed:\n{done.stderr}")
    return folder


def build(sources: Path, output: Path, tools: Path, epoch: int) -> Path:
    """Build the sdist, and of it the wheel; return the wheel.

    Args:
        sources: what Git knows; the build leaves traces in it.
        output: folder of both.
        tools: what `install_tools` returned.
        epoch: time of all files in both, seconds since 1970.

    Raises ReleaseError: the build backend failed.
    """
    with tempfile.TemporaryDirectory() as scratch:
        raw, unpacked = Path(scratch) / "raw", Path(scratch) / "unpacked"
        raw.mkdir()
        sdist = _call_backend("build_sdist", sources, raw, tools, epoch)
        repack(sdist, output / sdist.name, epoch)
        with tarfile.open(output / sdist.name) as archive:
            archive.extractall(unpacked, filter="data")
        return _call_backend("build_wheel", next(unpacked.iterdir()), output, tools, epoch)


def repack(sdist: Path, target: Path, epoch: int) -> None:
    """Write an sdist anew: sorted, with one time, two modes, no owners, and nothing of the machine in gzip's header.

    Raises ReleaseError: it holds what is neither file nor folder.
    """
    with (
        tarfile.open(sdist) as archive,
        target.open("wb") as raw,
        gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=epoch) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as made,
    ):
        for member in sorted(archive.getmembers(), key=lambda member: member.name):
            if not (member.isfile() or member.isdir()):
                raise ReleaseError(f"{member.name} is no plain file; an sdist holds plain files alone")
            settled = tarfile.TarInfo(member.name)
            settled.type, settled.size, settled.mtime = member.type, member.size, epoch
            settled.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            made.addfile(settled, archive.extractfile(member) if member.isfile() else None)


def _call_backend(hook: str, sources: Path, target: Path, tools: Path, epoch: int) -> Path:
    """Build as any front end does (PEP 517), with nothing else in reach than the tools."""
    code = f"import sys; from setuptools import build_meta; print(build_meta.{hook}(sys.argv[1]))"
    environment = {"PYTHONPATH": str(tools), "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "TZ": "UTC"}
    environment["SOURCE_DATE_EPOCH"] = str(epoch)
    command: list[str | Path] = [sys.executable, "-c", code, target]
    done = subprocess.run(
        command, cwd=sources, env=environment, umask=0o022, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise ReleaseError(f"{hook} failed:\n{done.stdout}{done.stderr}")
    return target / done.stdout.splitlines()[-1]
