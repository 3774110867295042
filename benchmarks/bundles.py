"""The bundles that a benchmark measures: ready ones, a folder's, or built by `auricle-export`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.command import QUIET, BenchmarkError, output_of_module
from fleet_protocol.bundle.ready_bundles import FOLDER

# Named here because a board lacks what model_export imports.
ARCHITECTURES = ("cnn1", "cnn2", "cnn3", "cnn4", "dscnn3", "ann3")
READY = FOLDER
"""Folder of the ready bundles, which have every architecture at features `gudur`."""


def build_bundles(folder: Path, architectures: Sequence[str], *options: str) -> None:
    """Build FOLDER/ARCHITECTURE.auricle of each, at features `gudur` (20 x 13) unless the options say otherwise."""
    folder.mkdir(parents=True, exist_ok=True)
    output_of_module("model_export.cli", "build", *architectures, *options, "-o", f"{folder}/", **QUIET)


def find_bundles(folder: Path, architectures: Sequence[str]) -> dict[str, Path]:
    """Return the bundle of each architecture in a folder, such as :data:`READY`."""
    bundles = {name: folder / f"{name}.auricle" for name in architectures}
    if missing := [name for name, path in bundles.items() if not path.is_file()]:
        raise BenchmarkError(
            f"{folder} has no {', '.join(f'{name}.auricle' for name in missing)}; build on a workstation with "
            f"`auricle-export build {' '.join(missing)} --features gudur -o FOLDER/` and copy that folder"
        )
    return bundles


def given_bundles(paths: Sequence[Path], names: Sequence[str] | None) -> dict[str, Path]:
    """Return bundles, and those of folders such as :data:`READY`, by the names of their files; None: all of them."""
    bundles: dict[str, Path] = {}
    for path in paths:
        if path.is_dir():
            bundles |= find_bundles(
                path, names or sorted(file.stem for file in path.glob("*.auricle")) or ARCHITECTURES
            )
        else:
            bundles |= find_bundles(path.parent, [path.stem])
    return bundles
