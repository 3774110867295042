"""TensorFlow Lite's C library on this machine: where it is, and what is wrong with it.

The package `pymicro-wakeword` carries it; AURICLE_TFLITE_LIBRARY names another one.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import struct
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
# Of an ELF file's header: its size and the layout of its fields up to the last, by its class (32 or 64 bit).
_HEADERS = {1: struct.Struct("<16sHHIIIIIHHHHHH"), 2: struct.Struct("<16sHHIQQQIHHHHHH")}
_ARM, _AARCH64 = 40, 183
_PROCESSORS = {3: "x86 (32-bit)", _ARM: "ARM (32-bit)", 62: "x86-64", _AARCH64: "aarch64", 243: "RISC-V"}


def library_path() -> Path:
    """Return where the library is, after checking that it is whole and for this processor.

    Raises ModelError: there is none, it is damaged or for another processor, or the package's was never tested.
    """
    _check_cpuinfo()
    named = os.environ.get(VARIABLE, "")
    if named:
        path = Path(named)
        if not path.is_file():
            raise ModelError(f"{VARIABLE} names {named}, which is no file; unset it, or name a libtensorflowlite_c.so")
        _check_elf(path, f"name a whole one for this processor in {VARIABLE}, or unset it and take the package's")
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
    _check_elf(path, again)
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
    if wanted := re.search(r"version `(GLIBC\w*_[\d.]+)' not found", str(error)):
        here = " ".join(platform.libc_ver()) or "another C library"
        return ModelError(
            f"{path} needs {wanted[1]}, and this system has {here}; take Debian 12, Ubuntu 22.04 or a later system, or "
            f"name a library that was built for this one in {VARIABLE}"
        )
    return ModelError(
        f"{path} cannot be loaded: {error}; {_WAY_OUT} --force-reinstall, or name another one in {VARIABLE}"
    )


def _check_elf(path: Path, way_out: str) -> None:
    """Refuse what the loader would refuse without a reason, or crash on: no library, a part of one, a foreign one."""
    with path.open("rb") as file:
        start = file.read(64)
    size = path.stat().st_size
    layout = _HEADERS.get(start[4]) if start[:4] == b"\x7fELF" and len(start) == 64 else None
    if layout is None:
        raise ModelError(f"{path} ({size} bytes) is no library; {way_out}")
    fields = layout.unpack_from(start)
    processor, sections_at, section_size, sections = fields[2], fields[6], fields[11], fields[12]
    # The table of sections is a file's last part.
    if size < (whole := sections_at + section_size * sections):
        raise ModelError(f"{path} is damaged: it has {size} of its {whole} bytes; {way_out}")
    if processor != (own := _own_processor()):
        raise ModelError(
            f"{path} is a library for {_PROCESSORS.get(processor, f'processor {processor}')}, and this Python is a "
            f"program for {_PROCESSORS.get(own, f'processor {own}')}; {way_out}"
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
