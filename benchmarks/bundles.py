"""What a benchmark measures: bundles (ready ones, a folder's, or built by `auricle-export`), and real recordings."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from fleet_protocol.errors import AuricleError
from fleet_protocol.ready_bundles import FOLDER

# Named here because a board lacks what model_export imports.
ARCHITECTURES = ("cnn1", "cnn2", "cnn3", "cnn4", "dscnn3", "ann3")
READY = FOLDER
"""Folder of the ready bundles, which have every architecture at features `gudur`."""
ROOT = Path(__file__).resolve().parent.parent


def data_folder() -> Path:
    """Return the folder of real recordings: AURICLE_DATA of the environment, else `shared/data` beside the checkout."""
    return Path(os.environ.get("AURICLE_DATA", ROOT.parent / "shared" / "data"))


class BenchmarkError(AuricleError):
    """A benchmark cannot be run with what this machine has or what it was given."""


def build_bundles(folder: Path, architectures: Sequence[str], *options: str) -> None:
    """Build FOLDER/ARCHITECTURE.auricle of each, at features `gudur` (20 x 13) unless the options say otherwise.

    Raises:
        BenchmarkError: with what `auricle-export` said.
    """
    command = [sys.executable, "-m", "model_export.cli", "build", *architectures, *options, "-o", f"{folder}/"]
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
    folder.mkdir(parents=True, exist_ok=True)
    result = subprocess.run(command, cwd=ROOT, env={**os.environ, **quiet}, capture_output=True, text=True, check=False)
    if result.returncode:
        raise BenchmarkError(f"{' '.join(command)} failed:\n{result.stderr[-4000:]}")


def find_bundles(folder: Path, architectures: Sequence[str]) -> dict[str, Path]:
    """Return the bundle of each architecture in a folder, such as :data:`READY`.

    Raises:
        BenchmarkError: naming those that are missing, and how to build them.
    """
    bundles = {name: folder / f"{name}.auricle" for name in architectures}
    if missing := [name for name, path in bundles.items() if not path.is_file()]:
        raise BenchmarkError(
            f"{folder} has no {', '.join(f'{name}.auricle' for name in missing)}; build on a workstation with "
            f"`auricle-export build {' '.join(missing)} --features gudur --tflite -o FOLDER/` and copy that folder"
        )
    return bundles


def given_bundles(paths: Sequence[Path], names: Sequence[str] | None) -> dict[str, Path]:
    """Return bundles by the names of their files.

    Args:
        paths: bundles, and folders of bundles, such as :data:`READY`.
        names: which of a folder; None: all of it.

    Raises:
        BenchmarkError: there is no such file, or none in a folder.
    """
    bundles: dict[str, Path] = {}
    for path in paths:
        if path.is_dir():
            bundles |= find_bundles(
                path, names or sorted(file.stem for file in path.glob("*.auricle")) or ARCHITECTURES
            )
        else:
            bundles |= find_bundles(path.parent, [path.stem])
    return bundles
