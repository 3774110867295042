"""Runs in processes of their own; what is kept of each lets an interrupted command go on with those that are left."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.bundles import ROOT, BenchmarkError
from benchmarks.papers.processes import run_all
from benchmarks.papers.run import Figures, Run, RunFiles
from fleet_simulator.runs.about import code_digest as packages_digest

# Whose code decides what a run finds, beside the packages' and its settings, which name its file.
_FILES = ("benchmarks/zero_shot.py", "benchmarks/papers/zero_shot_users.py", "benchmarks/papers/simulated.py")


def figures_of(runs: Sequence[Run], folder: Path, processes: int) -> Mapping[str, list[Figures]]:
    """Do what is left of some runs; return the figures of all by their names, in the order of their seeds.

    Args:
        runs: none twice.
        folder: of what is kept; code that changes has a folder of its own in it.
        processes: that do them.

    Raises:
        BenchmarkError: with what went wrong, run by run; the others are kept.
    """
    output = folder / f"code-{code_digest()[:16]}"
    files = RunFiles(output)
    left = [run for run in runs if files.load(run) is None]
    done = len(runs) - len(left)

    def tell(run: Run) -> None:
        nonlocal done
        done += 1
        print(f"{done}/{len(runs)}  {run.name}, seed {run.seed}", file=sys.stderr, flush=True)

    if problems := run_all(left, output, processes, tell):
        raise BenchmarkError("\n".join(problems))
    found: dict[str, list[Figures]] = {}
    for run in sorted(runs, key=lambda run: run.seed):
        outcome = files.load(run)
        assert outcome is not None
        found.setdefault(run.name, []).append(outcome.figures)
    return found


def code_digest() -> str:
    """Return a digest of the sources that a run's figures depend on."""
    digest = hashlib.sha256(packages_digest().encode())
    for path in (ROOT / name for name in _FILES):
        digest.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    return digest.hexdigest()
