"""What benchmarks have in common: a command line with ``--json``, recordings, and other programs."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from fleet_protocol.errors import AuricleError

ROOT = Path(__file__).resolve().parent.parent
QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
"""Environment of a program that loads TensorFlow."""


class BenchmarkError(AuricleError):
    """A benchmark cannot be run with what this machine has or what it was given."""


class Command(argparse.ArgumentParser):
    """A benchmark's command line."""

    def __init__(self, module: str, about: str | None, headline: Callable[[Any], str] | None = None) -> None:
        """Prepare for a module behind ``python -m`` and its docstring.

        ``headline`` says in a few words what figures come to, for benchmarks/figures.md.
        """
        form = argparse.RawDescriptionHelpFormatter
        super().__init__(prog=f"python -m {module}", description=about, formatter_class=form)
        self.add_argument("--json", action="store_true", help="end with the figures as JSON, on one line")
        self._headline = headline
        if headline:
            self.add_argument("--keep", action="store_true", help="append a line to benchmarks/figures.md")

    def run(self, work: Callable[[argparse.Namespace], object], arguments: Sequence[str] | None = None) -> int:
        """Do the work, which returns the figures; return the exit status: 0, or 1 after an error message."""
        chosen = self.parse_args(arguments)
        try:
            figures = work(chosen)
        except (AuricleError, OSError) as error:
            print(f"{self.prog}: {error}", file=sys.stderr)
            return 1
        if chosen.json:
            print(json.dumps(figures))
        if self._headline and chosen.keep:
            keep(self.prog.rpartition(".")[2], self._headline(figures))
        return 0


def keep(benchmark: str, headline: str, file: Path = ROOT / "benchmarks" / "figures.md") -> None:
    """Append what a benchmark came to, with date, commit and number of cores, to the table that readers see."""
    commit = _output_of(["git", "describe", "--always", "--dirty", "--exclude", "*"]).strip()
    with file.open("a", encoding="utf-8") as table:
        table.write(f"| {date.today()} | {commit} | {benchmark} | {os.cpu_count()} cores | {headline} |\n")


def said(row: Mapping[str, Any]) -> dict[str, Any]:
    """Print a row of figures, those that are one value each, and return it."""
    cells = {name: value for name, value in row.items() if not isinstance(value, Mapping | list | tuple)}
    texts = (f"{value:.4g}" if isinstance(value, float) else str(value) for value in cells.values())
    print("  ".join(f"{name} {text}" for name, text in zip(cells, texts, strict=True)), flush=True)
    return dict(row)


def add_knows(parser: argparse.ArgumentParser) -> None:
    """Add the option that says which labels are which built-in sounds of a front end."""
    about = "labels that are built-in sounds of the front end, and which"
    parser.add_argument("--knows", nargs="+", type=_label_and_sound, default=[], metavar="LABEL=SOUND", help=about)


def _label_and_sound(text: str) -> tuple[str, str]:
    label, _, sound = text.partition("=")
    return label, sound or label


def data_folder() -> Path:
    """Return the folder of real recordings: AURICLE_DATA of the environment, else `shared/data` beside the checkout."""
    return Path(os.environ.get("AURICLE_DATA", ROOT.parent / "shared" / "data"))


def recordings(name: str, folder: Path | None = None) -> Path:
    """Return a file or folder of the recordings. Raises BenchmarkError: it is not there."""
    path = (folder or data_folder()) / name
    if not path.exists():
        raise BenchmarkError(f"there is no {name} in {path.parent}; let AURICLE_DATA name the folder that holds it")
    return path


def _output_of(command: Sequence[str | Path], **environment: str) -> str:
    """Run a program to its end; return what it printed. Raises BenchmarkError: with what it said when it failed."""
    words = list(map(str, command))
    result = subprocess.run(
        words, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    if result.returncode:
        raise BenchmarkError(f"{' '.join(words)} failed:\n{result.stderr[-4000:]}")
    return result.stdout


def output_of_module(module: str, *arguments: object, **environment: str) -> str:
    """Run a module by this Python; see :func:`_output_of`."""
    return _output_of([sys.executable, "-m", module, *map(str, arguments)], **environment)
