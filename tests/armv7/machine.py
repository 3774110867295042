"""What a machine must have to run 32-bit ARM programs, and the way into a root of such programs.

QEMU's user-mode emulator runs them; the kernel hands them to it (binfmt_misc), so that child processes work too.
"""

import os
import shlex
import shutil
import subprocess
from pathlib import Path

_BINFMT = Path("/proc/sys/fs/binfmt_misc")
_PACKAGES = "qemu-user-static binfmt-support debootstrap"


class Armv7Error(Exception):
    """The root cannot be built, or what runs in it failed."""


class MirrorError(Armv7Error):
    """A mirror does not serve what Debian signed."""


class UnsuitableMachineError(Armv7Error):
    """This machine cannot run ARM programs, whatever is installed."""


def run(*command: str | Path, **options) -> str:
    """Run a command; return what it printed. Raises Armv7Error with all that it printed."""
    words = [str(word) for word in command]
    result = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options)
    if result.returncode:
        raise Armv7Error(f"{' '.join(words)} failed with status {result.returncode}:\n{result.stdout[-6000:]}")
    return result.stdout


def require() -> None:
    """Check that ARM programs can be run in a root, and let the kernel hand them to the emulator."""
    if os.geteuid():
        raise Armv7Error("building and entering an ARMv7 root needs root's rights; run it with sudo")
    programs = ("debootstrap", "qemu-arm-static", "update-binfmts", "unshare", "chroot")
    if missing := [program for program in programs if shutil.which(program) is None]:
        raise Armv7Error(f"not installed: {', '.join(missing)}; on Debian: apt-get install {_PACKAGES}")
    try:
        if not (_BINFMT / "status").exists():
            run("mount", "-t", "binfmt_misc", "binfmt_misc", _BINFMT)
        if not (_BINFMT / "qemu-arm").exists():
            run("update-binfmts", "--enable", "qemu-arm")
        run("unshare", "--mount", "--pid", "--fork", "true")
    except Armv7Error as error:
        raise UnsuitableMachineError(
            f"this machine (a container without the rights?) cannot run ARM programs in a root: {error}"
        ) from error
    if not (_BINFMT / "qemu-arm").exists():
        raise UnsuitableMachineError(f"the kernel took no registration for ARM programs: no {_BINFMT}/qemu-arm")


def enter(
    root: Path, *command: str, sources: Path | None = None, recordings: Path | None = None, **environment: str
) -> list[str]:
    """Return the command line that runs a command in the root, as a Cortex-A7.

    With ``sources``, a folder, that is at /mnt to be read, ``recordings`` at /srv, and /proc, /dev, /tmp are there too.
    Mounts live in a namespace of their own and end with it: outside, nothing in the root leads to the machine's files.
    """
    steps = ["set -e"]
    if sources:
        steps += [f"mount -t proc proc {_q(root / 'proc')}", f"mount --rbind /dev {_q(root / 'dev')}"]
        steps += [f"mount -t tmpfs tmpfs {_q(root / 'tmp')}"]
    for inside, outside in {"mnt": sources, "srv": recordings}.items():
        if outside:
            there = _q(root / inside)
            steps += [f"mount --bind {_q(outside)} {there}", f"mount -o remount,bind,ro {there}"]
    steps.append(f'exec chroot {_q(root)} "$@"')
    variables = {
        "PATH": "/opt/auricle/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/root",
        "LANG": "C.UTF-8",
        "QEMU_CPU": "cortex-a7",
        **environment,
    }
    return [
        "unshare",
        "--mount",
        "--pid",
        "--fork",
        "--kill-child",
        "env",
        "--ignore-environment",
        *(f"{name}={value}" for name, value in variables.items()),
        "sh",
        "-c",
        "\n".join(steps),
        "enter",
        *command,
    ]


def _q(path: Path) -> str:
    return shlex.quote(str(path))
