"""What the commands that draw pictures of benchmarks' results have in common."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLE: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": "auricle", "font.size": 9}
"""Settings of matplotlib: text stays text, and equal figures get equal names for their parts."""


def save(figure: Figure, output: Path) -> None:
    """Write a picture; equal figures give equal bytes in an .svg file."""
    output.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(output, metadata={"Date": None} if output.suffix == ".svg" else None)


def run(module: str, about: str | None, draw: Callable[[list[Path], Path], None]) -> None:
    """Run the command line of a module that draws a picture of files with results."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=about)
    parser.add_argument("results", nargs="+", type=Path, metavar="RESULT")
    parser.add_argument("-o", "--output", type=Path, required=True, help="an .svg or .png file")
    options = parser.parse_args()
    draw(options.results, options.output)
