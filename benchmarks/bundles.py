"""The bundles that a benchmark measures: given, or built by `auricle-export` in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from fleet_protocol.errors import AuricleError

# Named here because a board lacks what model_export imports.
ARCHITECTURES = ("cnn1", "cnn2", "cnn3", "cnn4", "dscnn3", "ann3")
_BASE = ("linear", "--features", "base")
PRETRAINED = {
    "base": _BASE,
    "base-int8": (*_BASE, "--front-end-precision", "int8"),
    "base-last-block": (*_BASE, "--train", "last_block"),
    "base-all": (*_BASE, "--train", "all"),
}
"""What `auricle-export build` takes for bundles on a pretrained front end, by their names."""
MODELS = (*ARCHITECTURES, *PRETRAINED)
ROOT = Path(__file__).resolve().parent.parent


class BenchmarkError(AuricleError):
    """A benchmark cannot be run with what this machine has or what it was given."""


def build_bundles(folder: Path, architectures: Sequence[str], *options: str) -> None:
    """Build FOLDER/ARCHITECTURE.auricle of each, at features `gudur` (20 x 13) unless the options say otherwise.

    Raises:
        BenchmarkError: with what `auricle-export` said.
    """
    folder.mkdir(parents=True, exist_ok=True)
    _export("build", *architectures, *options, "-o", f"{folder}/")


def find_bundles(folder: Path, architectures: Sequence[str]) -> dict[str, Path]:
    """Return the bundle of each architecture in a folder.

    Raises:
        BenchmarkError: naming those that are missing, and how to build them.
    """
    bundles = {name: folder / f"{name}.auricle" for name in architectures}
    if missing := [name for name, path in bundles.items() if not path.is_file()]:
        raise BenchmarkError(
            f"{folder} has no {', '.join(f'{name}.auricle' for name in missing)}; build on a workstation with "
            f"{commands(missing, 'FOLDER')} and copy that folder"
        )
    return bundles


def build_models(folder: Path, models: Sequence[str]) -> dict[str, Path]:
    """Build FOLDER/NAME.auricle of each of MODELS, and the plain inference models of those at features `gudur`.

    Raises:
        BenchmarkError: with what `auricle-export` said.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for command in _builds(models, str(folder)):
        _export("build", *command)
    return find_bundles(folder, models)


def given_bundles(paths: Sequence[Path], models: Sequence[str] | None) -> dict[str, Path]:
    """Return bundles by the names of their files.

    Args:
        paths: bundles, and folders of bundles.
        models: which of a folder; None: all of it.

    Raises:
        BenchmarkError: there is no such file, or none in a folder.
    """
    bundles: dict[str, Path] = {}
    for path in paths:
        if not path.is_dir():
            bundles |= find_bundles(path.parent, [path.stem])
            continue
        found = find_bundles(path, models or sorted(file.stem for file in path.glob("*.auricle")))
        bundles |= found or find_bundles(path, MODELS)
    return bundles


def commands(models: Sequence[str], folder: str) -> str:
    """Return what to type on a workstation to have FOLDER/NAME.auricle of each model."""
    return ", ".join(f"`auricle-export build {' '.join(command)}`" for command in _builds(models, folder))


def _builds(models: Sequence[str], folder: str) -> Iterator[tuple[str, ...]]:
    if plain := [name for name in models if name not in PRETRAINED]:
        yield (*plain, "--features", "gudur", "--tflite", "-o", f"{folder}/")
    for name in models:
        if name in PRETRAINED:
            yield (*PRETRAINED[name], "-o", f"{folder}/{name}.auricle")


def _export(*arguments: str) -> None:
    command = [sys.executable, "-m", "model_export.cli", *arguments]
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
    result = subprocess.run(command, cwd=ROOT, env={**os.environ, **quiet}, capture_output=True, text=True, check=False)
    if result.returncode:
        raise BenchmarkError(f"{' '.join(command)} failed:\n{result.stderr[-4000:]}")
