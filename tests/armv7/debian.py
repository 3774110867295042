"""Builds a root of Debian 12 for armhf: the same Python and NumPy as in Raspberry Pi OS (32 bit)."""

import os
import shutil
import tempfile
from pathlib import Path

from tests.armv7.machine import Armv7Error, enter, run

SUITE = "bookworm"
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
    """Return the address of a Debian mirror: DEBIAN_MIRROR, or the one that this machine's apt uses."""
    if chosen := os.environ.get("DEBIAN_MIRROR"):
        return chosen
    fields = "$(REPO_URI) $(RELEASE) $(COMPONENT)"
    for line in run("apt-get", "indextargets", "--format", fields, "Created-By: Packages").splitlines():
        address, release, component = line.split()
        if (release, component) == (SUITE, "main"):
            return address
    raise Armv7Error(
        f"this machine's apt has no Debian {SUITE}; name a mirror of it: make armv7-root DEBIAN_MIRROR=..."
    )


def build(root: Path) -> None:
    """Build the root, unless it is there; it appears under its name when it is complete."""
    stamp = root / _STAMP
    if stamp.exists() and stamp.read_text() == _recipe():
        return
    root.parent.mkdir(parents=True, exist_ok=True)
    making = Path(tempfile.mkdtemp(dir=root.parent, prefix=f".{root.name}-"))
    try:
        making.chmod(0o755)
        _bootstrap(making)
        (making / _STAMP).write_text(_recipe())
        shutil.rmtree(root, ignore_errors=True)
        making.rename(root)
    finally:
        shutil.rmtree(making, ignore_errors=True)


def _recipe() -> str:
    return "\n".join([SUITE, *PACKAGES, _DPKG])


def _bootstrap(root: Path) -> None:
    proxy = run("apt-config", "shell", "proxy", "Acquire::http::Proxy").strip().removeprefix("proxy=").strip("'")
    environment = {**os.environ, **({"http_proxy": proxy} if proxy else {})}
    run(
        "debootstrap",
        "--arch=armhf",
        "--foreign",
        "--variant=minbase",
        f"--include={','.join(PACKAGES)}",
        SUITE,
        root,
        mirror(),
        env=environment,
    )
    (root / "etc/dpkg/dpkg.cfg.d").mkdir(parents=True, exist_ok=True)
    (root / "etc/dpkg/dpkg.cfg.d/quick").write_text(_DPKG)
    run(*enter(root, "/debootstrap/debootstrap", "--second-stage"))
    run(*enter(root, "apt-get", "clean"))
