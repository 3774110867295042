"""Counts the instructions of training, inference and front end on ARMv7 (Cortex-A7, one thread), in millions.

A call through ModelRuntime is what a device pays: it checks its input. The bare call of the graph's signature, with its
input at hand, stands beside it. For cnn2 0.9 a training sample and 0.5 an inference are aimed for.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.arm_instructions import history, private
from benchmarks.arm_instructions.counted import MEASUREMENTS, REPETITIONS
from benchmarks.bundles import READY, given_bundles
from benchmarks.command import ROOT, BenchmarkError, Command, said
from fleet_protocol.bundle.bundle_file import read_bundle

ARMV7_ROOT = ROOT / "build" / "armv7-root"
_PYTHON = "usr/bin/python3.11"
# Where Debian's NumPy finds a BLAS: its alternatives are absolute links, which lead out of the root.
_BLAS = ("openblas-pthread", "blas", "lapack")


def _compile_plugin(folder: Path) -> Path:
    """Compile the counting plug-in into a folder; return its path.

    Raises BenchmarkError: there is no compiler, or it fails.
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

    Raises BenchmarkError: what is missing, and where to get it.
    """
    if shutil.which("qemu-arm") is None:
        raise BenchmarkError("qemu-arm is not installed; on Debian: apt-get install qemu-user")
    if not (root / _PYTHON).exists():
        raise BenchmarkError(f"{root} is no ARMv7 root: it has no {_PYTHON}; build one with `make armv7-root`")


def count(module: str, arguments: Sequence[str], names: Sequence[str], root: Path) -> dict[str, float]:
    """Return instructions per call of what a module of this package measures, on a Cortex-A7 with one thread."""
    require(root)
    root = root.resolve()
    with tempfile.TemporaryDirectory() as folder:
        plugin = _compile_plugin(Path(folder))
        packages = [str(root / "opt/auricle/lib/python3.11/site-packages"), str(ROOT)]
        libraries = ":".join(str(root / "usr/lib/arm-linux-gnueabihf" / name) for name in _BLAS)
        guest = {"LD_LIBRARY_PATH": libraries, "PYTHONPATH": ":".join(packages), "PYTHONHASHSEED": "0"}
        command = ["qemu-arm", "-L", str(root), "-plugin", str(plugin)]
        command += [part for name, value in guest.items() for part in ("-E", f"{name}={value}")]
        command += [str(root / _PYTHON), "-m", f"benchmarks.arm_instructions.{module}", *arguments]
        # One thread: the plug-in's additions are not atomic.
        environment = {**os.environ, "QEMU_CPU": "cortex-a7", "OPENBLAS_NUM_THREADS": "1"}
        result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    found = re.findall(r"^MARK (\d+) (\d+)$", result.stderr, re.MULTILINE)
    marks = {int(which): int(total) for which, total in found}
    if result.returncode or len(marks) != 2 * len(names):
        raise BenchmarkError(f"{' '.join(command)} failed with status {result.returncode}:\n{result.stderr[-4000:]}")
    return {name: (marks[2 * number + 1] - marks[2 * number]) / REPETITIONS for number, name in enumerate(names)}


_FIGURES = {
    "train": "train_minstructions_per_sample",
    "train_signature": "train_signature_minstructions_per_sample",
    "inference": "inference_minstructions",
    "inference_signature": "inference_signature_minstructions",
    "clip": "front_end_minstructions_per_clip",
    "hop": "front_end_minstructions_per_hop",
    "network": "network_minstructions",
}


def figures(name: str, bundle: Path, root: Path) -> dict[str, object]:
    """Return million instructions by their names in :data:`_FIGURES`; 0 of a network: the front end has none."""
    batch = read_bundle(bundle).manifest.batch
    counted = {
        _FIGURES[what]: total / 1e6 / (batch if what.startswith("train") else 1)
        for what, total in count("counted", [str(bundle.resolve())], MEASUREMENTS, root).items()
    }
    return {"architecture": name} | {what: round(total, 4) for what, total in counted.items()}


def private_figures(classes: int, group: int, root: Path) -> dict[str, object]:
    """Return million instructions of a device's stages of a private round; of ``import``, each time it is done."""
    counted = count("private", [str(classes), str(group)], private.MEASUREMENTS, root)
    counted["import"] *= REPETITIONS
    known: dict[str, object] = {"classes": classes, "group": group}
    return known | {f"{what}_minstructions": round(total / 1e6, 2) for what, total in counted.items()}


def history_figures(root: Path) -> dict[str, object]:
    """Return million instructions of what the owner's page History reads of a hundred thousand events."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.sqlite3"
        history.write(path)
        counted = count("history", [str(path)], history.MEASUREMENTS, root)
    return {f"{what}_minstructions": round(total / 1e6, 1) for what, total in counted.items()}


def main() -> int:
    """Run the command line; return the exit status."""
    parser = Command("benchmarks.arm_instructions", __doc__)
    parser.add_argument("--architectures", nargs="+", metavar="NAME", help="which of a folder (all)")
    parser.add_argument("--bundles", nargs="+", type=Path, metavar="PATH", help="bundles, or folders (the ready ones)")
    about = "instead a device's part in a private round of so many classes, in a group of so many devices"
    parser.add_argument("--private", nargs=2, type=int, metavar=("CLASSES", "GROUP"), help=about)
    about = "instead what the owner's page History reads of a hundred thousand events"
    parser.add_argument("--history", action="store_true", help=about)
    parser.add_argument("--root", type=Path, default=ARMV7_ROOT, help="ARMv7 root (%(default)s)")

    def work(chosen: argparse.Namespace) -> object:
        require(chosen.root)
        if chosen.private:
            classes, group = chosen.private
            return said(private_figures(classes, group, chosen.root))
        if chosen.history:
            return said(history_figures(chosen.root))
        bundles = given_bundles(chosen.bundles or [READY], chosen.architectures)
        return [said(figures(name, bundle, chosen.root)) for name, bundle in bundles.items()]

    return parser.run(work)


if __name__ == "__main__":
    sys.exit(main())
