"""`python -m studies.render`: write docs/studies and its pictures from every study's text.md and results.json.

A line ``{{ table ID }}`` or ``{{ picture ID }}`` of text.md becomes that table or picture of results.json.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.bundles import ROOT, BenchmarkError
from fleet_protocol.atomic_files import write_durably
from studies.pictures import draw
from studies.study import HOME, NAMES, Cell, stored

DOCS = ROOT / "docs"
_INSERT = re.compile(r"(?m)^\{\{ (table|picture) ([\w-]+) \}\}$")
_NOT_FIGURES = re.compile(r"(?m)```[^`]*```|`[^`\n]*`|\]\([^)]*\)|^\{\{.*\}\}$|^#.*$")
_NUMBER = re.compile(r"(?<![\w.,/])([-+]?)(\d{1,3}(?:,\d{3})+|\d+)(?:\.(\d+))?(?![\w/]|\.\d)( %| points?\b| ±)?")


def page(name: str, home: Path = HOME) -> str:
    """Return a study's page.

    Args:
        name: of the study.
        home: folder of the studies' folders.

    Raises:
        BenchmarkError: text.md asks for a table or a picture that results.json does not hold.
    """
    results = stored(name, home)
    text = (home / name / "text.md").read_text(encoding="utf-8")

    def insert(match: re.Match[str]) -> str:
        kind, key = match.groups()
        if key not in results[f"{kind}s"]:
            raise BenchmarkError(f"studies/{name}/text.md asks for a {kind} {key}, which results.json does not hold")
        found = results[f"{kind}s"][key]
        return markdown_table(found) if kind == "table" else f"![{found['title']}](../images/{file_of(name, key)})"

    made = f"`python -m studies.render` wrote this page from `studies/{name}/text.md` and `results.json`."
    return f"# {results['title']}\n{_INSERT.sub(insert, text).strip()}\n\n{_about(results)}\n{made}\n"


def file_of(name: str, picture: str) -> str:
    """Return the name of a picture's file."""
    return f"results-{name}-{picture}.svg".replace("_", "-")


def markdown_table(table: Mapping[str, Any]) -> str:
    """Return a table of results.json in Markdown: its title, and the rows."""
    columns, digits = table["columns"], table.get("digits", 1)
    rows = [[shown(cell, digits) for cell in row] for row in table["rows"]]
    lines = [columns, ["---", *["---:"] * (len(columns) - 1)], *rows]
    return "\n".join([f"{table['title']}\n", *("| " + " | ".join(line) + " |" for line in lines)])


def shown(cell: Cell, digits: int = 1) -> str:
    """Return a cell as text: what was measured as ``84.6 ± 0.2``."""
    if isinstance(cell, Mapping):
        mean = f"{cell['mean']:.{digits}f}"
        return mean if cell.get("deviation") is None else f"{mean} ± {cell['deviation']:.{digits}f}"
    return "" if cell is None else cell.replace("|", r"\|") if isinstance(cell, str) else f"{cell:,}"


def write(name: str, home: Path = HOME, docs: Path = DOCS) -> None:
    """Write a study's page and its pictures."""
    for key, picture in stored(name, home)["pictures"].items():
        draw(picture, docs / "images" / file_of(name, key))
    write_durably(docs / "studies" / f"{name}.md", page(name, home).encode(), 0o644)


def stale(text: str, results: Mapping[str, Any]) -> list[str]:
    """Return the figures of a prose that results do not hold, rounded to the digits that the prose shows.

    A figure is a number with a decimal point, or one that stands before ``%``, ``points`` or ``±``. Code,
    links' targets, headings and what is inserted are not prose. A figure without a sign is also that of a loss.
    """
    held = list(_numbers([results["tables"], [one["series"] for one in results["pictures"].values()]]))
    missing = []
    for match in _NUMBER.finditer(_NOT_FIGURES.sub(" ", text)):
        sign, whole, decimals, unit = match.groups("")
        if not decimals and not unit:
            continue
        figure = float(f"{sign}{whole.replace(',', '')}.{decimals}")
        within = 0.5 * 10.0 ** -len(decimals) + 1e-9
        if not any(abs(figure - value) <= within or (not sign and abs(figure + value) <= within) for value in held):
            missing.append(match.group().strip(" ±"))
    return missing


def _numbers(value: Any) -> Iterator[float]:  # noqa: ANN401  (whatever JSON holds)
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _numbers(item)
    elif isinstance(value, str):
        yield from (float(found.replace(",", "")) for found in re.findall(r"[-+]?\d[\d,]*(?:\.\d+)?", value))
    elif isinstance(value, int | float):
        yield float(value)


def _about(results: Mapping[str, Any]) -> str:
    about = results["measured"]
    return (
        f"{about['runs']} runs, {about['minutes']} minutes of one process, {about['date']}, scale {results['scale']}, "
        f"seeds {', '.join(map(str, about['seeds']))}, code `{about['code']}`.\nMachine: {about['machine']}."
    )


if __name__ == "__main__":
    for study in NAMES:
        write(study)
