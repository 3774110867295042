"""What a machine must have to run ARM programs, and the way into a root of such programs.

QEMU's user-mode emulator runs them; the kernel hands them to it (binfmt_misc), so that child processes work too.
"""

import os
import shlex
import shutil
import subprocess
from pathlib import Path

_BINFMT = Path("/proc/sys/fs/binfmt_misc")
_EMULATORS = ("qemu-arm", "qemu-aarch64")
# The emulator shows programs this machine's own /proc/cpuinfo. The library for 64-bit ARM crashes with it, and unless
# it describes each processor that /sys lists.
_CPUINFO_ARM64 = Path(__file__).with_name("cpuinfo-arm64")
_DESCRIBE = """for number in $(seq 0 $(sed 's/.*[-,]//' /sys/devices/system/cpu/possible)); do
    sed "s/^\\(processor.*: \\).*/\\1$number/" {one}; echo
done >{all}"""
_PACKAGES = "qemu-user-static binfmt-support debootstrap mmdebstrap"


class ArmError(Exception):
    """The root cannot be built, or what runs in it failed."""


class MirrorError(ArmError):
    """A mirror does not serve what Debian signed."""


class UnsuitableMachineError(ArmError):
    """This machine cannot run ARM programs, whatever is installed."""


def run(*command: str | Path, **options) -> str:
    """Run a command; return what it printed. Raises ArmError with all that it printed."""
    words = [str(word) for word in command]
    result = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options)
    if result.returncode:
        raise ArmError(f"{' '.join(words)} failed with status {result.returncode}:\n{result.stdout[-6000:]}")
    return result.stdout


def require() -> None:
    """Check that ARM programs can be run in a root, and let the kernel hand them to the emulator."""
    if os.geteuid():
        raise ArmError("building and entering a root of ARM programs needs root's rights; run it with sudo")
    programs = ["debootstrap", "mmdebstrap", "update-binfmts", "unshare", "chroot"]
    programs += [f"{name}-static" for name in _EMULATORS]
    if missing := [program for program in programs if shutil.which(program) is None]:
        raise ArmError(f"not installed: {', '.join(missing)}; on Debian: apt-get install {_PACKAGES}")
    try:
        if not (_BINFMT / "status").exists():
            run("mount", "-t", "binfmt_misc", "binfmt_misc", _BINFMT)
        for name in _EMULATORS:
            if not (_BINFMT / name).exists():
                run("update-binfmts", "--enable", name)
        run("unshare", "--mount", "--pid", "--fork", "true")
    except ArmError as error:
        raise UnsuitableMachineError(
            f"this machine (a container without the rights?) cannot run ARM programs in a root: {error}"
        ) from error
    if missing := [name for name in _EMULATORS if not (_BINFMT / name).exists()]:
        raise UnsuitableMachineError(f"the kernel took no registration for ARM programs: no {_BINFMT / missing[0]}")


def enter(
    root: Path, *command: str, sources: Path | None = None, recordings: Path | None = None, **environment: str
) -> list[str]:
    """Return the command line that runs a command in the root, as a Cortex-A7 or a Cortex-A53 (a Pi 2, a Pi 3).

    With ``sources``, a folder, that is at /mnt to be read, and ``recordings`` at /srv. /proc, /dev and /tmp are there.
    Mounts live in a namespace of their own and end with it: outside, nothing in the root leads to the machine's files.
    """
    steps, arm64 = ["set -e"], (root / "usr/lib/aarch64-linux-gnu").exists()
    steps += [f"mount -t proc proc {_q(root / 'proc')}", f"mount --rbind /dev {_q(root / 'dev')}"]
    steps += [f"mount -t tmpfs tmpfs {_q(root / 'tmp')}"]
    if arm64:
        described = _q(root / "tmp/cpuinfo")
        steps += [_DESCRIBE.format(one=_q(_CPUINFO_ARM64), all=described)]
        steps += [f"mount --bind {described} {_q(root / 'proc/cpuinfo')}"]
        steps += [f"mount -t sysfs -o ro sysfs {_q(root / 'sys')}"]
    for inside, outside in {"mnt": sources, "srv": recordings}.items():
        if outside:
            there = _q(root / inside)
            steps += [f"mount --bind {_q(outside)} {there}", f"mount -o remount,bind,ro {there}"]
    # Not in the place of the shell: the first process of a namespace is not ended by a crash, and hangs.
    steps.append(f'chroot {_q(root)} "$@" || exit $?')
    variables = {
        "PATH": "/opt/auricle/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/root",
        "LANG": "C.UTF-8",
        "QEMU_CPU": "cortex-a53" if arm64 else "cortex-a7",
        **environment,
    }
    apart = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
    with_variables = ["env", "--ignore-environment", *(f"{name}={value}" for name, value in variables.items())]
    return [*apart, *with_variables, "sh", "-c", "\n".join(steps), "enter", *command]


def _q(path: Path) -> str:
    return shlex.quote(str(path))
