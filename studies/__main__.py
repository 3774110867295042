"""Run the papers' tables on real data; write OUTPUT/results.json, OUTPUT/TABLE.md and docs/results.md.

Some of the tables replace their own sections and pictures of docs/results.md, if that is of the same scale, and renew
its table of all claims. A killed command goes on where it stopped; OUTPUT/runs holds what is done. Before anything
runs, the command tells how long it will take, and refuses what cannot end in time.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.bundles import ROOT
from fleet_protocol.atomic_files import write_durably
from fleet_protocol.errors import AuricleError
from fleet_simulator.runs.cores import available_cores
from studies.document import Finished, put_sections, replaceable, results, section, write_json
from studies.drawn import pictures_of
from studies.estimate import estimate
from studies.pictures import draw_all, folder_of
from studies.processes import run_all
from studies.run import Run, RunFiles
from studies.scale import Scale
from studies.tables import NAMES, Table, load_table, papers


class Progress:
    """A line for every run that ends: how many there are, and how long the rest will take at this pace."""

    def __init__(self, tables: Mapping[str, str], left: Sequence[Run], finished: int, processes: int) -> None:
        """``tables``: which table a run belongs to, by its digest; ``left``: the runs to be done."""
        self._tables = tables
        self._left = {run.digest: run.cost_s for run in left}
        self._done, self._all = finished, finished + len(left)
        self._processes = processes
        self._expected, self._start = 0.0, time.monotonic()

    def done(self, run: Run) -> None:
        """Print a run's line."""
        self._expected += self._left.pop(run.digest)
        self._done += 1
        pace = (time.monotonic() - self._start) / self._expected
        left = round(pace * sum(self._left.values()))
        print(
            f"{self._done}/{self._all}  {self._tables[run.digest]}: {run.name}, seed {run.seed}  "
            f"left {left // 3600}:{left // 60 % 60:02d}:{left % 60:02d}",
            file=sys.stderr,
            flush=True,
        )


def run_tables(
    tables: Mapping[str, Table], scale: Scale, processes: int, document: Path, within_hours: float | None = None
) -> list[str]:
    """Run what is left of tables, and write what is asked of them.

    Args:
        tables: by name.
        scale: of the runs.
        processes: that do them.
        document: of all tables; the sections and pictures of tables that have all of their runs are replaced in it.
        within_hours: that the runs may take; None: as long as they like.

    Returns:
        What went wrong, run by run.

    Raises:
        RefusedError: the runs would take longer, or there is too little memory or disk; none was started.
    """
    files = RunFiles(scale.output)
    runs = {name: table.runs(scale) for name, table in tables.items()}
    owners = {run.digest: name for name in reversed(runs) for run in runs[name]}
    once = {run.digest: run for name in runs for run in runs[name]}
    left = [run for run in once.values() if files.load(run) is None]
    if left:
        by_table = {name: [run for run in left if owners[run.digest] == name] for name in tables}
        expected = estimate(by_table, processes, scale.output)
        print(expected, file=sys.stderr, flush=True)
        if within_hours is not None:
            expected.refuse(within_hours)
    progress = Progress(owners, left, len(once) - len(left), processes)
    problems = run_all(left, scale.output, processes, progress.done) if left else []
    outcomes = {name: [(run, outcome) for run in of if (outcome := files.load(run))] for name, of in runs.items()}
    write_json(scale.output / "results.json", tables, outcomes, scale)
    finished = {name: outcomes[name] for name in tables if len(outcomes[name]) == len(runs[name])}
    _write(tables, finished, scale, document)
    return problems


def _write(tables: Mapping[str, Table], finished: Mapping[str, Finished], scale: Scale, document: Path) -> None:
    """Write the sections of tables that have all their runs: each into a file of its own, and into the document."""
    texts = []
    for name, of in finished.items():
        texts.append(section(tables[name], of, scale))
        write_durably(scale.output / f"{name}.md", texts[-1].encode(), 0o644)
        print(texts[-1])
    everything = {name: load_table(name) for name in NAMES} | dict(tables)
    whose = papers(everything.values())
    if texts and replaceable(document, texts, whose, scale):
        for name, of in finished.items():
            draw_all(pictures_of([name]), results(of, scale).all_figures, folder_of(document))
        put_sections(document, texts, whose, pictures_of(everything), scale)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m studies", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--table", nargs="+", choices=NAMES, default=list(NAMES), metavar="NAME", help="only these")
    parser.add_argument("--full", action="store_true", help="near the papers' sizes: days, or a larger machine")
    parser.add_argument("--processes", type=int, default=available_cores(), metavar="N", help="at once (all cores)")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "experiments", metavar="FOLDER")
    parser.add_argument("--within", type=float, default=24.0, metavar="HOURS", help="refuse what takes longer (24)")
    parser.add_argument("--yes", action="store_true", help="start all the same")
    options = parser.parse_args(arguments)
    if options.processes < 1:
        parser.error(f"--processes must be at least 1, not {options.processes}")
    tables = {name: load_table(name) for name in NAMES if name in options.table}
    try:
        problems = run_tables(
            tables,
            Scale(options.full, options.output.resolve()),
            options.processes,
            ROOT / "docs" / "results.md",
            None if options.yes else options.within,
        )
    except (AuricleError, OSError) as error:
        problems = [str(error)]
    except KeyboardInterrupt:
        problems = ["interrupted; the same command goes on with what is left"]
    for problem in problems:
        print(f"studies: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
