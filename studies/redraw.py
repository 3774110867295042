"""`python -m studies.redraw [FILE ..]`: put kept results into docs/results.md, without a run.

FILE is what `python -m studies` left in its output folder, perhaps on another machine: of `results.json` the
pictures are drawn, and a section such as `attackers.md` takes the place of the document's. Without any, only the head
is written anew, from the sections and the pictures that are there.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.bundles import ROOT
from studies.document import put_sections, scale_of
from studies.drawn import pictures_of
from studies.pictures import ByName, draw_all, folder_of
from studies.tables import NAMES, Table, load_table, papers


def redraw(document: Path, files: Sequence[Path], tables: Mapping[str, Table]) -> None:
    """Draw pictures into the document's folder of images, put sections into the document, and renew its head.

    Args:
        document: of all tables.
        files: with results (``.json``), and sections (``.md``) of the document's scale.
        tables: all that there are, by name.
    """
    texts = [file.read_text(encoding="utf-8") for file in files if file.suffix == ".md"]
    for file in (file for file in files if file.suffix != ".md"):
        for name, found in json.loads(file.read_text(encoding="utf-8"))["tables"].items():
            draw_all(pictures_of([name]), _by_name(found["runs"]), folder_of(document))
    put_sections(document, texts, papers(tables.values()), pictures_of(tables), scale_of(document))


def _by_name(runs: Sequence[dict[str, Any]]) -> ByName:
    found: dict[str, list[dict[str, Any]]] = {}
    for run in sorted(runs, key=lambda run: int(run["seed"])):
        found.setdefault(run["name"], []).append(run["figures"])
    return found


def main() -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m studies.redraw", description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE")
    redraw(ROOT / "docs" / "results.md", parser.parse_args().files, {name: load_table(name) for name in NAMES})
    return 0


if __name__ == "__main__":
    sys.exit(main())
