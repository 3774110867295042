"""Runs in processes of their own; what is kept of each lets an interrupted command go on with those that are left."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.bundles import BenchmarkError
from studies.processes import run_all
from studies.run import Figures, Run, RunFiles


def figures_of(runs: Sequence[Run], folder: Path, processes: int) -> Mapping[str, list[Figures]]:
    """Do what is left of some runs; return the figures of all by their names, in the order of their seeds.

    Args:
        runs: none twice.
        folder: of what is kept.
        processes: that do them.

    Raises:
        BenchmarkError: with what went wrong, run by run; the others are kept.
    """
    files = RunFiles(folder)
    left = [run for run in runs if files.load(run) is None]
    done = len(runs) - len(left)

    def tell(run: Run) -> None:
        nonlocal done
        done += 1
        print(f"{done}/{len(runs)}  {run.name}, seed {run.seed}", file=sys.stderr, flush=True)

    if problems := run_all(left, folder, processes, tell):
        raise BenchmarkError("\n".join(problems))
    found: dict[str, list[Figures]] = {}
    for run in sorted(runs, key=lambda run: run.seed):
        outcome = files.load(run)
        assert outcome is not None
        found.setdefault(run.name, []).append(outcome.figures)
    return found
