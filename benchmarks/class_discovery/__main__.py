"""Class discovery: do reports of new sounds from different devices and architectures find each other?

On real Speech Commands words (the log-mel archive), for several front ends: cepstra with networks trained from scratch,
300 clips of each word as in Gudur & Perepu 2021, table 1, and embeddings of a pretrained network, with 20 clips.
A figure for words never heard needs a network that `stop` and `go` were left out of.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.class_discovery import worker
from benchmarks.class_discovery.trials import CEPSTRA, build, front_end
from benchmarks.command import ROOT, Command, recordings

# Returns the rows of a seed.
Run = Callable[[int], list[dict[str, Any]]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    parser = Command("benchmarks.class_discovery", __doc__)
    parser.add_argument("--trials", type=int, default=30, help="of each case (30)")
    parser.add_argument("--seed", type=int, default=0, help="of the first trial (0); 100 to 299 were used to choose")
    parser.add_argument(
        "--features", nargs="+", default=[CEPSTRA, "base"], metavar="NAME", help="front ends (gudur base); or a file"
    )
    parser.add_argument("--unheard", type=int, default=10, help="trials of a word that a device never heard (10)")
    parser.add_argument("--strategy", type=int, default=10, help="the same by the strategy prototypes (10)")

    def work(options: argparse.Namespace) -> object:
        data = recordings("gsc_v2_logmel_jpg.zip")
        seeds = range(options.seed, options.seed + options.trials)
        unheard: dict[Run, int] = {worker.unheard: options.unheard, worker.strategy: options.strategy}
        others = {run: range(options.seed, options.seed + count) for run, count in unheard.items()}
        found = [_measure(name, data, seeds, others) for name in options.features]
        return {key: [row for part in found for row in part[key]] for key in ("cases", "unheard")}

    return parser.run(work, arguments)


def _measure(name: str, data: Path, seeds: range, others: dict[Run, range]) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of one front end; ``others`` are the seeds of what measures a word that a device never heard."""
    folder = ROOT / "build" / "class-discovery" / re.sub(r"[^A-Za-z0-9.]", "_", name)
    build(front_end(name), folder)
    context = multiprocessing.get_context("spawn")
    trials: dict[str, list[tuple[bool, float]]] = {}
    unheard: list[dict[str, Any]] = []
    with context.Pool(os.cpu_count(), worker.load, (data, front_end(name), folder)) as workers:
        for seed, results in zip(seeds, workers.imap(worker.trials, seeds), strict=True):
            for case, result in results.items():
                trials.setdefault(case, []).append(result)
            print(
                f"{name} trial {seed}: " + "; ".join(f"{case} {row[1]:+.2f}" for case, row in results.items()),
                flush=True,
            )
        for run, run_seeds in others.items():
            for rows in workers.imap(run, run_seeds):
                unheard += rows
    summary = [
        {
            "front_end": name,
            "case": case,
            "trials": len(rows),
            "exact": sum(exact for exact, _ in rows),
            "adjusted_rand_index": [index for _, index in rows],
        }
        for case, rows in trials.items()
    ]
    for row in summary:
        print(f"{name:12s} {row['case']:32s} exact {row['exact']:2d} of {row['trials']}")
    return {"cases": summary, "unheard": _means(name, unheard)}


def _means(name: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Average over the trials of a description, a word and a number of speakers."""
    groups: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["description"], row["word"], row["speakers"]), []).append(row)
    means = []
    for (description, word, speakers), members in groups.items():
        shares = {
            key: round(float(np.mean([row[key] for row in members])), 1) for key in ("recognised", "known", "mistaken")
        }
        means.append(
            {
                "front_end": name,
                "description": description,
                "word": word,
                "speakers": speakers,
                "trials": len(members),
                **shares,
            }
        )
        figures = "  ".join(f"{key} {value:5.1f}" for key, value in shares.items())
        print(f"{name:12s} {description:24s} {word:5s} from {speakers} speakers: {figures}")
    return means


if __name__ == "__main__":
    sys.exit(main())
