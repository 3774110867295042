"""Installs the `edge` extra in the root as on a Pi: wheels, and on 32 bits NumPy, cffi and soundfile from Debian.

Wheels are fetched outside, for an ARM machine but by this machine's own pip, and installed inside without a network:
pip inside decides whether what is there is what the extra asks for.
"""

import hashlib
import json
import shutil
import sys
import tempfile
import tomllib
from pathlib import Path

from deb.wheels import ARM64, ARMHF, Target, download, needed
from tests.arm.debian import SUITES, System
from tests.arm.machine import enter, run

_WANTED = ("auricle[edge,mqtt,private]", "pytest", "pytest-timeout", "hypothesis")
_METADATA = ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "constraints.txt")
_DATA = ("examples", "systemd")  # a wheel holds their files, which pyproject.toml names one by one
_ENVIRONMENT = "opt/auricle"


def install(system: System, checkout: Path) -> None:
    """Bring the environment of a root up to date with what the checkout asks for; quick where it is already."""
    root, target = system.folder, _target(system)
    packages = needed(target, *_WANTED)
    project = tomllib.loads((checkout / "pyproject.toml").read_text())["project"]
    constraints = (checkout / "constraints.txt").read_text()
    asked = hashlib.sha256(json.dumps([packages, project, constraints]).encode()).hexdigest()
    stamp = root / _ENVIRONMENT / ".complete"
    if stamp.exists() and stamp.read_text() == asked:
        return
    shutil.rmtree(root / _ENVIRONMENT, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        wheels = Path(folder)
        download(target, packages, wheels)
        _metadata_wheel(checkout, wheels)
        python = f"/{_ENVIRONMENT}/bin/python"
        run(*enter(root, "python3", "-m", "venv", "--system-site-packages", f"/{_ENVIRONMENT}"))
        shutil.copy(checkout / "constraints.txt", wheels)
        pip = [python, "-m", "pip", "--quiet", "--disable-pip-version-check"]
        offline = ["--no-index", "--find-links=/mnt", "--constraint=/mnt/constraints.txt"]
        run(*enter(root, *pip, "install", *offline, *_WANTED, sources=wheels))
        run(*enter(root, *pip, "check"))
        if target.alone:
            run(*enter(root, *pip, "install", *offline, "--no-deps", *target.alone, sources=wheels))
    stamp.write_text(asked)


def _target(system: System) -> Target:
    wanted = system.architecture, SUITES[system.suite]
    return next(target for target in ARMHF + ARM64 if (target.architecture, target.python) == wanted)


def _metadata_wheel(checkout: Path, wheels: Path) -> None:
    """Build a wheel of the project's metadata and commands alone: its code is read from the checkout."""
    with tempfile.TemporaryDirectory() as folder:
        for name in _METADATA:
            shutil.copy(checkout / name, folder)
        for name in _DATA:
            shutil.copytree(checkout / name, Path(folder, name), ignore=shutil.ignore_patterns("*.egg-info", "build"))
        run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", wheels, folder)
