"""Which machine was measured, whether it was an emulated one, and whether heat or a weak supply slowed it down."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

# Bits of the firmware's `get_throttled`: now, and 16 bits higher since the board was started.
_THROTTLED = {0: "under-voltage", 1: "frequency capped", 2: "throttled", 3: "soft temperature limit"}
_SINCE_START = 16
_MODEL = ("proc/device-tree/model", "sys/class/dmi/id/product_name")
_X86_VENDORS = ("GenuineIntel", "AuthenticAMD")


@dataclass(frozen=True)
class Machine:
    """What a machine says of itself."""

    model: str  # of the board, or of the processor where there is no device tree
    processor: str  # as /proc/cpuinfo names it
    architecture: str  # e.g. ``armv7l``.
    cores: int  # that this process may use
    kernel: str  # its release
    system: str  # the distribution
    emulator: str | None  # what runs these instructions where that is no processor of this architecture, else None
    virtual: bool  # whether it is a virtual machine, whose processor others may use as well

    @classmethod
    def here(cls, system: Path = Path("/")) -> Machine:
        """Describe the machine that this process runs on; ``system`` is the root of its /proc and /sys."""
        processor = _processor(system)
        return cls(
            model=next(filter(None, (_text(system / path) for path in _MODEL)), processor),
            processor=processor,
            architecture=platform.machine(),
            cores=len(os.sched_getaffinity(0)),
            kernel=platform.release(),
            system=platform.freedesktop_os_release().get("PRETTY_NAME", platform.system()),
            emulator=emulator(system),
            virtual=(
                " hypervisor" in _text(system / "proc/cpuinfo") or any((system / "sys/bus/virtio/devices").glob("*"))
            ),
        )

    def __str__(self) -> str:
        kind = "virtual machine" if self.virtual else "real hardware"
        if self.emulator:
            kind = f"EMULATED by {self.emulator}"
        name = self.model if self.model == self.processor else f"{self.model} ({self.processor})"
        return f"{name}, {self.architecture}, {self.cores} cores, {self.system}, Linux {self.kernel}: {kind}"


def emulator(system: Path = Path("/")) -> str | None:
    """Return what emulates this machine's processor; None for a real one, as far as can be told."""
    # QEMU's user-mode emulator shows its guest a /proc/self of the guest's, but /proc/thread-self as it is.
    running = _elf_machine(system / "proc/thread-self/exe")
    if running is not None and running != _elf_machine(Path(sys.executable)):
        return "QEMU (user mode): another processor's program interprets this one"
    if platform.machine().startswith(("arm", "aarch64")) and _processor(system).startswith(_X86_VENDORS):
        return "QEMU (user mode): the processor is an x86 one"
    names = [system / "proc/device-tree/model", *(system / "proc/device-tree").glob("hypervisor/compatible")]
    names += [*(system / "sys/class/dmi/id").glob("*_name"), *(system / "sys/class/dmi/id").glob("*_vendor")]
    names += (system / "sys/block").glob("*/device/name")  # an emulated Pi has a device tree like a real one's
    for path in names:
        if any(sign in _text(path) for sign in ("QEMU", "dummy-virt")):
            return f"QEMU (whole machine): {path} says {_text(path)!r}"
    return None


def throttling() -> str:
    """Return whether the board slows or slowed itself down; `not available` where nothing tells."""
    if shutil.which("vcgencmd"):
        result = subprocess.run(["vcgencmd", "get_throttled"], capture_output=True, text=True, check=False)
        flags = result.stdout.strip().removeprefix("throttled=")
    else:
        flags = next((_text(path) for path in Path("/sys/devices/platform/soc").glob("*/get_throttled")), "")
    try:
        bits = int(flags, 16)
    except ValueError:
        return "not available"
    now = [name for bit, name in _THROTTLED.items() if bits >> bit & 1]
    before = [f"{name} since it was started" for bit, name in _THROTTLED.items() if bits >> (bit + _SINCE_START) & 1]
    return ", ".join(now + before) or "none"


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip("\0\n ")
    except OSError:
        return ""


def _processor(system: Path) -> str:
    """Return vendor (x86 only) and name of the processor."""
    fields: dict[str, str] = {}
    for line in _text(system / "proc/cpuinfo").splitlines():
        name, _, value = line.partition(":")
        fields.setdefault(name.strip(), value.strip())
    found = [fields[name] for name in ("vendor_id", "model name", "Hardware") if fields.get(name)]
    return " ".join(found) or "unknown processor"


def _elf_machine(path: Path) -> int | None:
    """Return for which processor a program is, by its ELF header; None where it cannot be read."""
    try:
        with path.open("rb") as file:
            header = file.read(20)
    except OSError:
        return None
    return int.from_bytes(header[18:20], "little") if header[:4] == b"\x7fELF" else None
