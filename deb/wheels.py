"""Which wheels a device needs on another system than this one, and where they come from."""

import importlib.metadata
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

CONSTRAINTS = Path(__file__).resolve().parent.parent / "constraints.txt"


class WheelError(Exception):
    """Wheels cannot be had."""


@dataclass(frozen=True)
class Target:
    """A system that wheels are for.

    Attributes:
        architecture: Debian's name of it.
        machine: What its kernel calls the processor.
        python: Version of its Python.
        platforms: Tags of the wheels that it can load.
        own: Names of packages that its distribution brings, as pip calls them.
        alone: Packages of the device that are installed without their dependencies, of which one has no wheel for it.
    """

    architecture: str
    machine: str
    python: str
    platforms: tuple[str, ...]
    own: frozenset[str] = frozenset()
    alone: tuple[str, ...] = ()

    def marker_values(self) -> dict[str, str]:
        """Return what pip on the system would put into a requirement's marker."""
        return {
            "implementation_name": "cpython",
            "os_name": "posix",
            "platform_machine": self.machine,
            "platform_python_implementation": "CPython",
            "platform_system": "Linux",
            "python_full_version": f"{self.python}.2",
            "python_version": self.python,
            "sys_platform": "linux",
        }


# glibc of Debian 12 is 2.36, that of Debian 13 is newer. 32-bit wheels are few, and NumPy's are none.
_ARMV7L = (*(f"manylinux_2_{minor}_armv7l" for minor in (35, 34, 31)), "manylinux2014_armv7l", "linux_armv7l")
_AARCH64 = (*(f"manylinux_2_{minor}_aarch64" for minor in range(36, 16, -1)), "manylinux2014_aarch64")
_PYTHONS = ("3.11", "3.13")  # of Debian 12 and 13
_OWN = frozenset({"numpy", "soundfile", "cffi", "pycparser"})
ARMHF = tuple(Target("armhf", "armv7l", python, _ARMV7L, _OWN, ("pymicro-wakeword",)) for python in _PYTHONS)
ARM64 = tuple(Target("arm64", "aarch64", python, _AARCH64) for python in _PYTHONS)


def needed(target: Target, *wanted: str) -> list[str]:
    """Return what a target needs of the wanted packages, `name==version` by constraints.txt, without Auricle itself.

    Which packages need which is read from what is installed here, where the tests run as well.

    Raises WheelError: constraints.txt lacks one of them.
    """
    found: dict[str, set[str]] = {}
    todo = [Requirement(package) for package in wanted]
    while todo:
        requirement = todo.pop()
        name, extras = canonicalize_name(requirement.name), {"", *requirement.extras}
        if name in target.own or extras <= found.get(name, set()):
            continue
        found[name] = found.get(name, set()) | extras
        for text in importlib.metadata.requires(name) or []:
            further = Requirement(text)
            values = [target.marker_values() | {"extra": extra} for extra in extras]
            if further.marker is None or any(further.marker.evaluate(value) for value in values):
                todo.append(further)
    for alone in target.alone:
        found.setdefault(canonicalize_name(alone), set())
    pinned = _pinned(target)
    if unpinned := sorted(found.keys() - pinned.keys() - {"auricle"}):
        raise WheelError(f"constraints.txt has no version of {', '.join(unpinned)} for {target}; add it")
    return sorted(f"{name}=={pinned[name]}" for name in found if name != "auricle")


def download(target: Target, packages: list[str], folder: Path) -> None:
    """Fetch wheels for a target. Raises WheelError: pip finds none for one of them."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    system = ["--only-binary=:all:", "--implementation=cp", f"--python-version={target.python}"]
    system += [f"--platform={name}" for name in target.platforms]
    command = [*pip, *system, "--dest", str(folder), *packages]
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        raise WheelError(f"pip finds no wheels for {target.architecture}, Python {target.python}:\n{done.stdout}")


def _pinned(target: Target) -> dict[str, str]:
    """Return the versions of constraints.txt that hold for a target."""
    lines = [line.partition("#")[0].strip() for line in CONSTRAINTS.read_text().splitlines()]
    pins = [Requirement(line) for line in lines if line]
    return {
        canonicalize_name(pin.name): str(pin.specifier).removeprefix("==")
        for pin in pins
        if pin.marker is None or pin.marker.evaluate(target.marker_values())
    }
