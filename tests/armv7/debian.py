"""Builds roots of Debian for armhf: the same Python and NumPy as in Raspberry Pi OS (32 bit)."""

import os
import shutil
import tempfile
from pathlib import Path

from tests.armv7.machine import Armv7Error, MirrorError, enter, run

SUITES = {"bookworm": "3.11", "trixie": "3.13"}
"""Debian 12 and 13, and the Python of each."""
# What a Pi takes from its distribution: Python, and what has no wheel for it (docs/pi.md).
PACKAGES = (
    "libopenblas0-pthread",  # without it NumPy multiplies matrices with the reference BLAS, ten times slower
    "libportaudio2",
    "python3",
    "python3-cffi",
    "python3-numpy",
    "python3-ply",  # pycparser asks for it by a virtual name, which debootstrap cannot follow
    "python3-soundfile",
    "python3-venv",
    "systemd",  # makes the user of the Debian package
)
# Nothing is read at leisure in this root, and a root that is half written is built anew.
_DPKG = """\
force-unsafe-io
path-exclude=/usr/share/doc/*
path-exclude=/usr/share/man/*
path-exclude=/usr/share/locale/*
path-exclude=/usr/bin/py3compile
"""
_STAMP = ".recipe"


def mirror() -> str:
    """Return the address of a Debian mirror: DEBIAN_MIRROR, or the one that this machine's apt uses for Debian."""
    if chosen := os.environ.get("DEBIAN_MIRROR"):
        return chosen
    fields = "$(REPO_URI) $(RELEASE) $(COMPONENT)"
    for line in run("apt-get", "indextargets", "--format", fields, "Created-By: Packages").splitlines():
        address, release, component = line.split()
        if release in SUITES and component == "main":
            return address
    raise Armv7Error(
        f"this machine's apt has no Debian {' or '.join(SUITES)}; name a mirror of it: make armv7-root "
        "DEBIAN_MIRROR=..."
    )


def build(root: Path, suite: str = "bookworm") -> None:
    """Build the root of a suite, unless it is there; it appears under its name when it is complete."""
    stamp = root / _STAMP
    if stamp.exists() and stamp.read_text() == _recipe(suite):
        return
    root.parent.mkdir(parents=True, exist_ok=True)
    making = Path(tempfile.mkdtemp(dir=root.parent, prefix=f".{root.name}-"))
    try:
        making.chmod(0o755)
        _bootstrap(making, suite)
        (making / _STAMP).write_text(_recipe(suite))
        shutil.rmtree(root, ignore_errors=True)
        making.rename(root)
    finally:
        shutil.rmtree(making, ignore_errors=True)


def _recipe(suite: str) -> str:
    return "\n".join([suite, *PACKAGES, _DPKG])


def _bootstrap(root: Path, suite: str) -> None:
    proxy = run("apt-config", "shell", "proxy", "Acquire::http::Proxy").strip().removeprefix("proxy=").strip("'")
    environment = {**os.environ, **({"http_proxy": proxy} if proxy else {})}
    address, options = mirror(), ["--arch=armhf", "--foreign", "--variant=minbase", f"--include={','.join(PACKAGES)}"]
    try:
        run("debootstrap", *options, suite, root, address, env=environment)
    except Armv7Error as error:
        raise MirrorError(
            f"{address} does not serve Debian {suite} for armhf as it was signed; try again later, or name "
            f"another mirror in DEBIAN_MIRROR:\n{error}"
        ) from error
    (root / "etc/dpkg/dpkg.cfg.d").mkdir(parents=True, exist_ok=True)
    (root / "etc/dpkg/dpkg.cfg.d/quick").write_text(_DPKG)
    run(*enter(root, "/debootstrap/debootstrap", "--second-stage"))
    run(*enter(root, "apt-get", "clean"))
