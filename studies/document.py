"""Writes results.json and docs/results.md from the outcomes on the disk alone."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fleet_protocol.atomic_files import write_durably
from studies.head import HEADINGS, head
from studies.pictures import Picture, folder_of
from studies.report import Results
from studies.run import Outcome, Run
from studies.scale import Scale
from studies.tables import Table

Finished = Sequence[tuple[Run, Outcome]]


def section(table: Table, finished: Finished, scale: Scale) -> str:
    """Return a table's part of the document; its last lines say when, where and with which code it was measured.

    Args:
        table: what the runs belong to.
        finished: all of its runs, with their outcomes.
        scale: which they were made for.
    """
    return f"## {table.TITLE}\n{table.section(results(finished, scale)).strip()}\n\n{_measured(finished)}\n"


def results(finished: Finished, scale: Scale) -> Results:
    """Return a table's runs by their names, in the order of their seeds."""
    by_name: dict[str, list[tuple[Run, Outcome]]] = {}
    for run, outcome in sorted(finished, key=lambda pair: pair[0].seed):
        by_name.setdefault(run.name, []).append((run, outcome))
    return Results(scale.full, by_name)


def _measured(finished: Finished) -> str:
    codes = sorted({run.code for run, _ in finished})
    code = codes[0] if len(codes) == 1 else hashlib.sha256(" ".join(codes).encode()).hexdigest()
    minutes = sum(outcome.seconds for outcome in _once(finished)) / 60
    machines = "; ".join(
        f"{found['processor']}, {found['cores']} cores, {found['system']}, Python {found['python']}, {found['runtime']}"
        for found in _machines(finished)
        if found
    )
    return (
        f"{len(finished)} runs, {minutes:.1f} minutes of one process, {_ended(finished):%d %B %Y}, code "
        f"`{code[:12]}`.\nMachine: {machines or 'not noted'}."
    )


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


def replaceable(path: Path, texts: Sequence[str], papers: Mapping[str, str], scale: Scale) -> bool:
    """Return whether sections may be put into the document: it is of their scale, or they replace all of it."""
    old = path.read_text(encoding="utf-8") if path.is_file() else ""
    return not old or f"\nScale: {scale.name}. " in old or set(papers) <= set(map(title_of, texts))


def scale_of(path: Path) -> Scale:
    """Return the scale of the document; the small one where it says none."""
    return Scale("\nScale: full. " in path.read_text(encoding="utf-8"), path.parent)


def put_sections(
    path: Path, texts: Sequence[str], papers: Mapping[str, str], pictures: Sequence[Picture], scale: Scale
) -> None:
    """Put tables' parts into the document of all, in place of their former ones, and renew its head.

    Sections stand in the order of ``papers``. Those that are of none of these stand behind them, unless all tables are
    replaced.

    Args:
        path: of the document; it need not be there.
        texts: of the sections, each with its heading.
        papers: whose claims a section judges, by its title, in the document's order.
        pictures: that the document has; one that is not drawn yet is left out.
        scale: of the sections.
    """
    new = {title_of(text): text for text in texts}
    old = path.read_text(encoding="utf-8") if path.is_file() and not set(papers) <= set(new) else ""
    parts = re.split(r"(?m)^(?=## )", old)[1:]
    kept = {title_of(text): text.rstrip("\n") + "\n" for text in parts if text.partition("\n")[0] not in HEADINGS}
    found = kept | new
    order = [title for title in papers if title in found] + [title for title in found if title not in papers]
    sections = {title: found[title] for title in order}
    drawn = [
        (one.shows, one.file(folder_of(path)).relative_to(path.parent))
        for one in pictures
        if one.file(folder_of(path)).is_file()
    ]
    whole = head(sections, papers, drawn, scale) + "\n" + "\n".join(sections.values())
    write_durably(path, whole.encode(), 0o644)


def title_of(section: str) -> str:
    """Return a section's title."""
    return section.partition("\n")[0].removeprefix("## ").strip()


def _ended(finished: Finished) -> datetime:
    return datetime.fromtimestamp(max(outcome.started + outcome.seconds for _, outcome in finished), UTC)


def _entry(run: Run, outcome: Outcome) -> dict[str, Any]:
    return {
        "name": run.name,
        "seed": run.seed,
        "digest": run.digest,
        "seconds": round(outcome.seconds, 2),
        "figures": outcome.figures,
    }


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
