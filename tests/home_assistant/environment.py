"""Where Home Assistant runs: its newest package on a Python 3.14 of this machine, or else in a root of Debian with one.

The satellite, of another age, has an environment of its own.
"""

import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.arm import debian, machine
from tests.arm.machine import run

BUILD = Path(__file__).resolve().parent.parent.parent / "build" / "home-assistant"
_PYTHON = "python3.14"  # Home Assistant of 2026 takes no older one
_CERTIFICATES = "etc/ssl/certs/ca-certificates.crt"
# What has no wheel is built. Whoever unpacks Debian's packages gets no `cc`.
_COMPILERS = ("g++", "python3-dev")


@dataclass(frozen=True)
class Environment:
    """Home Assistant's; ``root`` is the folder of its system, None for this machine's own.

    Attributes:
        root: The system's folder.
        place: The folder that holds all else, as programs in it see it.
    """

    root: Path | None
    place: Path

    def outside(self, *parts: str) -> Path:
        """Return a path in the folder, as this machine sees it."""
        inside = self.place.joinpath(*parts)
        return inside if self.root is None else self.root / inside.relative_to("/")

    def command(self, *words: str | Path) -> list[str]:
        """Return the command line that runs a program there."""
        given = [str(word) for word in words]
        path = f"{self.place}/bin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        variables = {"PATH": path, "VIRTUAL_ENV": str(self.place), "LANG": "C.UTF-8", "HOME": str(self.place)}
        if self.root is None:
            return ["env", *(f"{name}={value}" for name, value in variables.items()), *given]
        variables |= {"CC": "gcc", "CXX": "g++", "SSL_CERT_FILE": f"/{_CERTIFICATES}"}
        return machine.enter(self.root, *given, **variables)

    def version(self) -> str:
        """Return Home Assistant's."""
        return run(*self.command("python", "-m", "homeassistant", "--version")).strip()


def build() -> Environment:
    """Build what is missing, and fetch what is newer. Raises ArmError."""
    if python := shutil.which(_PYTHON):
        found = Environment(None, BUILD / "environment")
    else:
        found, python = Environment(_root(), Path("/opt/home-assistant")), "python3"
    if not found.outside("bin", "uv").exists():
        run(*found.command(python, "-m", "venv", "--clear", found.place))
        run(*found.command("pip", "install", "--quiet", "--disable-pip-version-check", "uv"))
    install = ("uv", "pip", "install", "--quiet", "--upgrade")
    run(*found.command(*install, "homeassistant"))
    shutil.copy(Path(__file__).with_name("requirements.py"), found.outside("asks.py"))
    asked = run(*found.command("python", found.place / "asks.py"))
    found.outside("asked.txt").write_text(asked)
    (pins,) = found.outside("lib").glob("*/site-packages/homeassistant/package_constraints.txt")
    shutil.copy(pins, found.outside("pins.txt"))
    run(*found.command(*install, "-c", found.place / "pins.txt", "-r", found.place / "asked.txt"))
    return found


def _root() -> Path:
    if os.geteuid():
        raise machine.ArmError(f"{_PYTHON} is not installed; to build a root of Debian with it, run this as root")
    architecture = run("dpkg", "--print-architecture").strip()
    system = debian.System("forky", architecture, BUILD / "root", _COMPILERS)
    debian.build(system.folder, system)
    for name in ("etc/resolv.conf", _CERTIFICATES):  # an owner's network may have certificates of its own
        shutil.copy(Path("/", name), system.folder / name)
    return system.folder


def satellite(wanted: str) -> Path:
    """Return the Python of an environment with the satellite that pip installs by a name, an address or a folder."""
    folder = BUILD / "satellites" / "".join(sign if sign.isalnum() else "-" for sign in wanted)
    python = folder / "bin" / "python"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as making:
            run(sys.executable, "-m", "venv", making)
            run(f"{making}/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wanted)
            Path(making).rename(folder)
            Path(making).mkdir()  # which ends with the block
    return python
