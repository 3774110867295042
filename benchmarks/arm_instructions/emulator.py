"""Counts under Debian's dynamically linked `qemu-arm` (package qemu-user): the static one takes no plug-ins."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from benchmarks.arm_instructions.counted import MEASUREMENTS, REPETITIONS
from benchmarks.bundles import ROOT, BenchmarkError

ARMV7_ROOT = ROOT / "build" / "armv7-root"
_PYTHON = "usr/bin/python3.11"
# Where Debian's NumPy finds a BLAS: its alternatives are absolute links, which lead out of the root.
_BLAS = ("openblas-pthread", "blas", "lapack")


def compile_plugin(folder: Path) -> Path:
    """Compile the counting plug-in into a folder; return its path.

    Raises:
        BenchmarkError: there is no compiler, or it fails.
    """
    if shutil.which("gcc") is None:
        raise BenchmarkError("gcc is not installed; on Debian: apt-get install gcc libc6-dev")
    source, plugin = Path(__file__).with_name("count.c"), folder / "count.so"
    command = ["gcc", "-O2", "-Wall", "-shared", "-fPIC", "-o", str(plugin), str(source)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise BenchmarkError(f"{' '.join(command)} failed (on Debian: apt-get install libc6-dev):\n{result.stderr}")
    return plugin


def require(root: Path) -> None:
    """Check that there is an emulator, and a root for it.

    Raises:
        BenchmarkError: what is missing, and where to get it.
    """
    if shutil.which("qemu-arm") is None:
        raise BenchmarkError("qemu-arm is not installed; on Debian: apt-get install qemu-user")
    if not (root / _PYTHON).exists():
        raise BenchmarkError(f"{root} is no ARMv7 root: it has no {_PYTHON}; build one with `make armv7-root`")


def count(bundle: Path, root: Path = ARMV7_ROOT) -> dict[str, float]:
    """Return instructions per call of each of MEASUREMENTS, on a Cortex-A7 with one thread.

    Raises:
        BenchmarkError: something is missing, or the counted program failed.
    """
    require(root)
    root = root.resolve()
    with tempfile.TemporaryDirectory() as folder:
        plugin = compile_plugin(Path(folder))
        packages = [str(root / "opt/auricle/lib/python3.11/site-packages"), str(ROOT)]
        libraries = ":".join(str(root / "usr/lib/arm-linux-gnueabihf" / name) for name in _BLAS)
        guest = {"LD_LIBRARY_PATH": libraries, "PYTHONPATH": ":".join(packages), "PYTHONHASHSEED": "0"}
        command = ["qemu-arm", "-L", str(root), "-plugin", str(plugin)]
        command += [part for name, value in guest.items() for part in ("-E", f"{name}={value}")]
        command += [str(root / _PYTHON), "-m", "benchmarks.arm_instructions.counted", str(bundle.resolve())]
        # One thread: the plug-in's additions are not atomic.
        environment = {**os.environ, "QEMU_CPU": "cortex-a7", "OPENBLAS_NUM_THREADS": "1"}
        result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    found = re.findall(r"^MARK (\d+) (\d+)$", result.stderr, re.MULTILINE)
    marks = {int(number): int(total) for number, total in found}
    if result.returncode or len(marks) != 2 * len(MEASUREMENTS):
        raise BenchmarkError(f"{' '.join(command)} failed with status {result.returncode}:\n{result.stderr[-4000:]}")
    return {name: (marks[2 * number + 1] - marks[2 * number]) / REPETITIONS for number, name in enumerate(MEASUREMENTS)}
