"""Run the studies of papers on real recordings; write their results.json, and the tables and
pictures of docs/studies.

A killed command goes on where it stopped; OUTPUT/runs holds what is done. Before anything runs, the command tells how
many runs are left, and how long they took where the studies were measured. At the end it names figures of the texts
that no longer hold.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.command import ROOT
from fleet_protocol.errors import AuricleError
from fleet_simulator.runs.run_folder import available_cores
from studies.fleets import Scale
from studies.processes import run_all
from studies.render import DOCS, path_of, stale, write
from studies.run import Run, RunFiles
from studies.study import HOME, NAMES, load_study, store, stored


class Progress:
    """A line for every run that ends: how many there are, and how long the rest will take at this pace."""

    def __init__(self, studies: Mapping[str, str], left: Sequence[Run], finished: int) -> None:
        """``studies``: which study a run belongs to, by its digest; ``left``: the runs to be done."""
        self._studies = studies
        self._left = {run.digest: run.cost_s for run in left}
        self._done, self._all = finished, finished + len(left)
        self._expected, self._start = 0.0, time.monotonic()

    def done(self, run: Run) -> None:
        """Print a run's line."""
        self._expected += self._left.pop(run.digest)
        self._done += 1
        pace = (time.monotonic() - self._start) / self._expected
        left = round(pace * sum(self._left.values()))
        print(
            f"{self._done}/{self._all}  {self._studies[run.digest]}: {run.name}, seed {run.seed}  "
            f"left {left // 3600}:{left // 60 % 60:02d}:{left % 60:02d}",
            file=sys.stderr,
            flush=True,
        )


def run_studies(
    studies: Mapping[str, Any], scale: Scale, processes: int, home: Path = HOME, docs: Path = DOCS
) -> list[str]:
    """Run what is left of studies; write results, page and pictures of those that have all of their runs.

    Returns what went wrong, run by run.
    """
    files = RunFiles(scale.output)
    runs = {name: study.runs(scale) for name, study in studies.items()}
    owners = {run.digest: name for name in reversed(runs) for run in runs[name]}
    once = {run.digest: run for name in runs for run in runs[name]}
    left = [run for run in once.values() if files.load(run) is None]
    for name in studies if left else ():
        costs = [run.cost_s for run in left if owners[run.digest] == name]
        hours = sum(costs) / 3600
        print(f"{name:<12}{len(costs):>6} runs left{hours:>9.2f} processor hours", file=sys.stderr, flush=True)
    progress = Progress(owners, left, len(once) - len(left))
    problems = run_all(left, scale.output, processes, progress.done) if left else []
    for name, study in studies.items():
        finished = [(run, outcome) for run in runs[name] if (outcome := files.load(run))]
        if len(finished) == len(runs[name]):
            store(name, study, finished, scale, home)
            write(name, home, docs)
            if gone := stale(path_of(name, docs).read_text(encoding="utf-8"), stored(name, home)):
                print(f"docs/studies/{name}.md has figures that were not found again: {', '.join(gone)}")
    return problems


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m studies", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--table", nargs="+", choices=NAMES, default=list(NAMES), metavar="NAME", help="only these")
    parser.add_argument("--full", action="store_true", help="near the papers' sizes: days, or a larger machine")
    parser.add_argument("--processes", type=int, default=available_cores(), metavar="N", help="at once (all cores)")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "experiments", metavar="FOLDER")
    options = parser.parse_args(arguments)
    if options.processes < 1:
        parser.error(f"--processes must be at least 1, not {options.processes}")
    studies = {name: load_study(name) for name in NAMES if name in options.table}
    try:
        problems = run_studies(studies, Scale(options.full, options.output.resolve()), options.processes, HOME, DOCS)
    except (AuricleError, OSError) as error:
        problems = [str(error)]
    except KeyboardInterrupt:
        problems = ["interrupted; the same command goes on with what is left"]
    for problem in problems:
        print(f"studies: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
