"""TensorFlow Lite's C library on this machine: where it is, and what is wrong with it.

The package `pymicro-wakeword` carries it; AURICLE_TFLITE_LIBRARY names another one.
"""

import hashlib
import os
import platform
import sys
from functools import cache
from importlib import metadata
from pathlib import Path

from edge_client.errors import ModelError

PACKAGE = "pymicro-wakeword"
PACKAGE_VERSION = "2.5.0"
VARIABLE = "AURICLE_TFLITE_LIBRARY"
_FILE = "pymicro_wakeword/lib/libtensorflowlite_c.so"
# SHA-256 of the package's libraries that the tests ran with.
_TESTED = {
    "25465edb5cd7aadd00249d4d28f1d922ce5cc90195ad4403458111dd63493bae": "x86-64",
    "12062437bfde367b1be592ebc4a9fe64b8453f90b3b7dc21fade002c38e1ac1a": "aarch64",
    "fcb6ef6f3f9c68889868fb55aba544d43d0fe9703c1efeb2756e82b553d032ab": "ARM (32-bit)",
}
# The package's other dependency, which Auricle does not need, has no wheel for 32-bit ARM.
_WAY_OUT = f"pip install --no-deps {PACKAGE}=={PACKAGE_VERSION}"
_CPUINFO = Path("/proc/cpuinfo")
_PROCESSORS_LIST = Path("/sys/devices/system/cpu/possible")
# What an ELF file's header calls processors.
_ARM, _AARCH64 = 40, 183


def library_path() -> Path:
    """Return where the library is; the package's after checking that it is the one that the tests ran with.

    Raises ModelError: there is none, or the package's is damaged, was never tested, or is too new for this processor.
    """
    _check_cpuinfo()
    named = os.environ.get(VARIABLE, "")
    if named:
        path = Path(named)
        if not path.is_file():
            raise ModelError(f"{VARIABLE} names {named}, which is no file; unset it, or name a libtensorflowlite_c.so")
        return path
    try:
        path = Path(str(metadata.distribution(PACKAGE).locate_file(_FILE)))
    except metadata.PackageNotFoundError:
        raise ModelError(
            f"TensorFlow Lite's C library is missing: {PACKAGE} is not installed; {_WAY_OUT}, or name a "
            f"libtensorflowlite_c.so in {VARIABLE}"
        ) from None
    _check_instructions()
    again = f"{_WAY_OUT} --force-reinstall"
    if not path.is_file():
        raise ModelError(f"{path} is missing; {again}")
    if digest_of(path) not in _TESTED:
        raise ModelError(
            f"{path} ({PACKAGE} {metadata.version(PACKAGE)}, SHA-256 {digest_of(path)[:12]}) is damaged, or no library "
            f"that Auricle was tested with; {again}, or name the file in {VARIABLE} if you trust it"
        )
    return path


@cache
def digest_of(path: Path) -> str:
    """Return the SHA-256 of a library."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def why_not_loaded(path: Path, error: Exception) -> ModelError:
    """Return what to tell of a library that the system's loader refused."""
    return ModelError(
        f"{path} cannot be loaded: {error}; {_WAY_OUT} --force-reinstall, take Debian 12, Ubuntu 22.04 or a later "
        f"system, or name another one in {VARIABLE}"
    )


def _check_cpuinfo(cpuinfo: Path = _CPUINFO, processors: Path = _PROCESSORS_LIST) -> None:
    """Refuse to go on where the kernel does not describe the processor: the library then crashes."""
    if not os.access(cpuinfo, os.R_OK):
        raise ModelError(
            f"{cpuinfo} cannot be read, without which TensorFlow Lite crashes; mount /proc, and in a unit of systemd "
            "do without ProcSubset=pid"
        )
    if _own_processor() == _AARCH64 and not os.access(processors, os.R_OK):
        raise ModelError(f"{processors} cannot be read, without which TensorFlow Lite crashes; mount /sys")


def _check_instructions(cpuinfo: Path = _CPUINFO) -> None:
    """Refuse a 32-bit ARM processor without the instructions of the package's library: NEON and VFPv4."""
    if _own_processor() != _ARM:
        return
    lines = cpuinfo.read_text(errors="replace").splitlines()
    # A processor of 64 bits calls them asimd.
    for has in [set(line.partition(":")[2].split()) for line in lines if line.startswith("Features")]:
        if "asimd" not in has and not {"neon", "vfpv4"} <= has:
            raise ModelError(
                f"this processor ({platform.machine()}) has no {' and no '.join(sorted({'neon', 'vfpv4'} - has))}, "
                f"which {PACKAGE}'s library needs; take a Pi 2 or later, or name a library built for this processor in "
                f"{VARIABLE}"
            )


def _own_processor() -> int:
    """Return what programs such as this one are made for: a 64-bit kernel under 32-bit programs names another."""
    with Path(sys.executable).open("rb") as file:
        return int.from_bytes(file.read(20)[18:], "little")
