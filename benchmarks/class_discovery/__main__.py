"""Class discovery: how much of a word does a device recognise that has no clip of it?

On real Speech Commands words (the log-mel archive), as embeddings of pretrained networks that `stop` and `go` were left
out of.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.class_discovery.trials import NEW, Corpus, build, read
from benchmarks.class_discovery.unheard import run_strategy, run_unheard
from benchmarks.command import ROOT, Command, recordings, said

Row = dict[str, Any]
_loaded: list[Corpus] = []  # the corpus, once a worker process has read it


def _load(archive: Path, bundles: Path) -> None:
    _loaded.append(read(archive, bundles))


def _trial(seed: int) -> list[Row]:
    corpus = _loaded[0]
    return [row for word in NEW for row in (*run_unheard(corpus, word, seed), *run_strategy(corpus, word, seed))]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    parser = Command("benchmarks.class_discovery", __doc__)
    parser.add_argument("--seed", type=int, default=0, help="of the first trial (0)")
    parser.add_argument("--features", nargs="+", required=True, type=Path, metavar="FILE", help="front ends")
    parser.add_argument("--trials", type=int, default=10, help="of each word (10)")

    def work(options: argparse.Namespace) -> object:
        data, seeds = recordings("gsc_v2_logmel_jpg.zip"), range(options.seed, options.seed + options.trials)
        return [row for front_end in options.features for row in _measure(front_end, data, seeds)]

    return parser.run(work, arguments)


def _measure(front_end: Path, data: Path, seeds: range) -> list[Row]:
    """Return the rows of one front end."""
    folder = ROOT / "build" / "class-discovery" / re.sub(r"[^A-Za-z0-9.]", "_", str(front_end))
    build(front_end, folder)
    with multiprocessing.get_context("spawn").Pool(os.cpu_count(), _load, (data, folder)) as workers:
        rows = [row for of_seed in workers.imap(_trial, seeds) for row in of_seed]
    return _means(str(front_end), rows)


def _means(name: str, rows: list[Row]) -> list[Row]:
    """Average over the trials of a description, a word and a number of speakers."""
    groups: dict[tuple[str, str, int], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["description"], row["word"], row["speakers"]), []).append(row)
    means = []
    for (description, word, speakers), members in groups.items():
        mean: Row = {"front_end": name, "description": description, "word": word, "speakers": speakers}
        mean["trials"] = len(members)
        for key in ("recognised", "known", "mistaken"):
            mean[key] = round(float(np.mean([row[key] for row in members])), 1)
        means.append(said(mean))
    return means


if __name__ == "__main__":
    sys.exit(main())
