"""Writes results.json and docs/results.md from the outcomes on the disk alone."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.papers.report import Results
from benchmarks.papers.run import Outcome, Run
from benchmarks.papers.scale import Scale
from benchmarks.papers.tables import Table
from fleet_protocol.atomic_files import write_durably

Finished = Sequence[tuple[Run, Outcome]]
_WHAT = """Ours are means over seeds and,
behind ±, the standard deviation over them. A figure behind the published one stays here as it is, with what was tried.
[methods.md](methods.md) says what the methods do, [simulator.md](simulator.md) how a fleet is run."""


def section(table: Table, finished: Finished, scale: Scale) -> str:
    """Return a table's part of the document.

    Args:
        table: what the runs belong to.
        finished: all of its runs, with their outcomes.
        scale: which they were made for.
    """
    by_name: dict[str, list[tuple[Run, Outcome]]] = {}
    for run, outcome in sorted(finished, key=lambda pair: pair[0].seed):
        by_name.setdefault(run.name, []).append((run, outcome))
    minutes = sum(outcome.seconds for outcome in _once(finished)) / 60
    text = table.section(Results(scale.full, by_name)).strip()
    ended = f"{_ended(finished):%d %B %Y}"
    return f"## {table.TITLE}\n{text}\n\n{len(finished)} runs, {minutes:.1f} minutes of one process, {ended}.\n"


def write_json(path: Path, tables: Mapping[str, Table], finished: Mapping[str, Finished], scale: Scale) -> None:
    """Write every outcome that there is, by table, with the machine and the time taken."""
    everything = [pair for pairs in finished.values() for pair in pairs]
    document = {
        "scale": scale.name,
        "command": scale.command,
        "machines": _machines(everything),
        "minutes": round(_minutes(everything), 2),
        "tables": {
            name: {"title": tables[name].TITLE, "runs": [_entry(run, outcome) for run, outcome in pairs]}
            for name, pairs in finished.items()
        },
    }
    write_durably(path, (json.dumps(document, indent=1) + "\n").encode(), 0o644)


def write_document(path: Path, tables: Mapping[str, Table], finished: Mapping[str, Finished], scale: Scale) -> None:
    """Write the document of all tables."""
    everything = [pair for pairs in finished.values() for pair in pairs]
    machines = "; ".join(
        f"{found['processor']}, {found['cores']} cores, {found['system']}, Python {found['python']}, {found['runtime']}"
        for found in _machines(everything)
    )
    lines = [
        "# The papers' tables on real data",
        f"Written by `{scale.command}`; what is changed here by hand is lost with its next run. {_WHAT}",
        "",
        f"Scale: {scale.name}. {len({run.digest for run, _ in everything})} runs in {_minutes(everything):.0f} minutes"
        f" ({_ended(everything):%d %B %Y}) on: {machines}.",
        "",
    ]
    sections = [section(tables[name], pairs, scale) for name, pairs in finished.items()]
    write_durably(path, ("\n".join(lines) + "\n" + "\n".join(sections)).encode(), 0o644)


def put_section(path: Path, text: str, scale: Scale) -> None:
    """Put one table's part into the document of all, in place of its former one, else at the end.

    A document that is not there, or of another scale, stays as it is.
    """
    document = path.read_text(encoding="utf-8") if path.is_file() else ""
    if f"\nScale: {scale.name}. " not in document:
        return
    head, *sections = re.split(r"(?m)^(?=## )", document)
    heading = text.partition("\n")[0]
    by_heading = {old.partition("\n")[0]: old.rstrip("\n") + "\n" for old in sections} | {heading: text}
    write_durably(path, (head + "\n".join(by_heading.values())).encode(), 0o644)


def _ended(finished: Finished) -> datetime:
    return datetime.fromtimestamp(max(outcome.started + outcome.seconds for _, outcome in finished), UTC)


def _entry(run: Run, outcome: Outcome) -> dict[str, Any]:
    return {
        "name": run.name, "seed": run.seed, "digest": run.digest, "seconds": round(outcome.seconds, 2),
        "figures": outcome.figures,
    }  # fmt: skip


def _once(finished: Finished) -> Iterable[Outcome]:
    """Return every outcome once, also where several of a table's runs share it."""
    return {run.digest: outcome for run, outcome in finished}.values()


def _machines(finished: Finished) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for _, outcome in finished:
        if outcome.machine not in found:
            found.append(outcome.machine)
    return found


def _minutes(finished: Finished) -> float:
    """Return how long at least one run was on its way."""
    seconds, end = 0.0, 0.0
    for outcome in sorted(_once(finished), key=lambda outcome: outcome.started):
        start, stop = max(outcome.started, end), outcome.started + outcome.seconds
        seconds += max(0.0, stop - start)
        end = max(end, stop)
    return seconds / 60
