"""Installs the `edge` extra in the root as on a Pi: NumPy, cffi and soundfile from Debian, wheels for the rest.

Wheels are fetched outside, for an ARM machine but by this machine's own pip, and installed inside without a network:
pip inside decides whether what is there is what the extra asks for.
"""

import hashlib
import importlib.metadata
import json
import shutil
import sys
import tempfile
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

from tests.armv7.machine import enter, run

# What the root's own distribution brings (debian.py), by the names of pip.
_FROM_DEBIAN = {"numpy", "soundfile", "cffi", "pycparser"}
_WANTED = ("auricle[edge,mqtt]", "pytest", "pytest-timeout", "hypothesis")
_PI = {
    "implementation_name": "cpython",
    "os_name": "posix",
    "platform_machine": "armv7l",
    "platform_python_implementation": "CPython",
    "platform_system": "Linux",
    "python_full_version": "3.11.2",
    "python_version": "3.11",
    "sys_platform": "linux",
}
_WHEELS_FOR_A_PI = (
    "--no-deps", "--only-binary=:all:", "--implementation=cp", "--python-version=3.11",
    "--platform=manylinux_2_34_armv7l", "--platform=manylinux2014_armv7l", "--platform=linux_armv7l",
)  # fmt: skip
_METADATA = ("pyproject.toml", "README.md", "LICENSE")
_ENVIRONMENT = "opt/auricle"


def needed(*wanted: str) -> list[str]:
    """Return what a Pi needs of the wanted packages, `name==version` as installed here, where the tests run as well."""
    found: dict[str, set[str]] = {}
    todo = [Requirement(package) for package in wanted]
    while todo:
        requirement = todo.pop()
        name, extras = requirement.name.lower().replace("_", "-"), {"", *requirement.extras}
        if name in _FROM_DEBIAN or extras <= found.get(name, set()):
            continue
        found[name] = found.get(name, set()) | extras
        for text in importlib.metadata.requires(name) or []:
            further = Requirement(text)
            if further.marker is None or any(further.marker.evaluate({**_PI, "extra": extra}) for extra in extras):
                todo.append(further)
    return sorted(f"{name}=={importlib.metadata.version(name)}" for name in found if name != "auricle")


def download(folder: Path, packages: list[str]) -> None:
    """Fetch wheels for a Pi."""
    run(sys.executable, "-m", "pip", "download", "--quiet", *_WHEELS_FOR_A_PI, "--dest", folder, *packages)


def install(root: Path, checkout: Path) -> None:
    """Bring the root's environment up to date with what the checkout asks for; quick where it is already."""
    packages = needed(*_WANTED)
    project = tomllib.loads((checkout / "pyproject.toml").read_text())["project"]
    constraints = (checkout / "constraints.txt").read_text()
    asked = hashlib.sha256(json.dumps([packages, project, constraints]).encode()).hexdigest()
    stamp = root / _ENVIRONMENT / ".complete"
    if stamp.exists() and stamp.read_text() == asked:
        return
    shutil.rmtree(root / _ENVIRONMENT, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        wheels = Path(folder)
        download(wheels, packages)
        _metadata_wheel(checkout, wheels)
        python = f"/{_ENVIRONMENT}/bin/python"
        run(*enter(root, "python3", "-m", "venv", "--system-site-packages", f"/{_ENVIRONMENT}"))
        shutil.copy(checkout / "constraints.txt", wheels)
        pip = [python, "-m", "pip", "--quiet", "--disable-pip-version-check"]
        offline = ["--no-index", "--find-links=/mnt", "--constraint=/mnt/constraints.txt"]
        run(*enter(root, *pip, "install", *offline, *_WANTED, sources=wheels))
        run(*enter(root, *pip, "check"))
    stamp.write_text(asked)


def _metadata_wheel(checkout: Path, wheels: Path) -> None:
    """Build a wheel of the project's metadata and commands alone: its code is read from the checkout."""
    with tempfile.TemporaryDirectory() as folder:
        for name in _METADATA:
            shutil.copy(checkout / name, folder)
        run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", wheels, folder)
