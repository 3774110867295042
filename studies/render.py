"""`python -m studies.render`: put tables and pictures of every study's results.json into its page of docs/studies.

What stands between ``<!-- table ID -->`` or ``<!-- picture ID -->`` or ``<!-- about -->`` and ``<!-- end -->`` is
written anew; the rest of a page is a person's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from benchmarks.command import ROOT
from fleet_protocol.ground.atomic_files import write_durably
from studies.fleets import StudyError
from studies.study import HOME, NAMES, Cell, stored

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Point = tuple[Any, float]
# Colours that the colour-blind tell apart (Okabe and Ito 2008); markers and dashes say the same.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKERS = "os^Dv*x"
_DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))
# Text stays text, equal figures get equal names for their parts, and a picture is white also on a dark page.
_STYLE: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": "auricle", "font.size": 9} | dict.fromkeys(
    ("figure.facecolor", "axes.facecolor", "savefig.facecolor"), "white"
)


def draw(picture: Mapping[str, Any], file: Path) -> None:
    """Draw a picture of results.json; `studies.study.Picture` says what it holds."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    titles = list(dict.fromkeys(one["panel"] for one in picture["series"]))
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(5.5 if len(titles) == 1 else 3.2 * len(titles), 3.8), layout="constrained")
        axes = figure.subplots(1, len(titles), sharey=True, squeeze=False)[0]
        for panel, title in zip(axes, titles, strict=True):
            there = [one for one in picture["series"] if one["panel"] == title]
            for number, one in enumerate(there):
                _DRAWN[picture["kind"]](panel, one, number, len(there))
            panel.set(title=title, xlabel=picture["x"], ylabel=picture["y"] if panel is axes[0] else "")
            panel.grid(alpha=0.3)
        file.parent.mkdir(parents=True, exist_ok=True)
        _with_legend(figure).savefig(file, metadata={"Date": None})


def _lines(panel: Axes, one: Mapping[str, Any], number: int, of: int) -> None:
    del of
    _line(panel, list(zip(one["x"], one["y"], strict=True)), one["name"], number)
    if one["deviation"]:
        low, high = ([y + sign * d for y, d in zip(one["y"], one["deviation"], strict=True)] for sign in (-1, 1))
        panel.fill_between(one["x"], low, high, color=_COLOURS[number], alpha=0.12)


def _points(panel: Axes, one: Mapping[str, Any], number: int, of: int) -> None:
    del of
    panel.scatter(one["x"], one["y"], s=12, alpha=0.5, color=_COLOURS[number], marker=_MARKERS[number])
    _line(panel, _moving_mean(sorted(zip(one["x"], one["y"], strict=True))), one["name"], number)


def _bars(panel: Axes, one: Mapping[str, Any], number: int, of: int) -> None:
    width = 0.8 / of
    places = [at + width * (number - (of - 1) / 2) for at in range(len(one["x"]))]
    look: dict[str, Any] = {"color": _COLOURS[number], "error_kw": {"elinewidth": 0.8}}
    panel.bar(places, one["y"], width, yerr=one["deviation"] or None, label=one["name"], **look)
    panel.set_xticks(range(len(one["x"])), one["x"])


_DRAWN = {"lines": _lines, "points": _points, "bars": _bars}


def _line(panel: Axes, points: Sequence[Point], label: str, number: int) -> None:
    look: dict[str, Any] = {"color": _COLOURS[number], "linestyle": _DASHES[number], "marker": _MARKERS[number]}
    every = max(1, len(points) // 10)
    panel.plot([x for x, _ in points], [y for _, y in points], label=label, markersize=4, markevery=every, **look)


def _moving_mean(points: Sequence[Point]) -> list[Point]:
    """Return means over a third of the points, from one end to the other."""
    width = max(1, len(points) // 3)
    windows = [points[start : start + width] for start in range(len(points) - width + 1)]
    return [(fmean(x for x, _ in window), fmean(y for _, y in window)) for window in windows]


def _with_legend(figure: Figure) -> Figure:
    """Put one legend below the panels where all have the same lines, else one into each."""
    handles, labels = figure.axes[0].get_legend_handles_labels()
    if all(panel.get_legend_handles_labels()[1] == labels for panel in figure.axes):
        columns = 2 if len(figure.axes) == 1 else 4
        figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=8)
    else:
        for panel in figure.axes:
            panel.legend(frameon=False, fontsize=7)
    return figure


DOCS = ROOT / "docs"
_BLOCK = re.compile(r"<!-- (table|picture|about) ?([\w-]*) -->\n[\s\S]*?<!-- end -->")
_NOT_FIGURES = re.compile(rf"(?m){_BLOCK.pattern}|```[^`]*```|`[^`\n]*`|\]\([^)]*\)|^#.*$")
_NUMBER = re.compile(r"(?<![\w.,/])([-+]?)(\d{1,3}(?:,\d{3})+|\d+)(?:\.(\d+))?(?![\w/]|\.\d)( %| points?\b| ±)?")


def path_of(name: str, docs: Path = DOCS) -> Path:
    """Return where a study's page is."""
    return docs / "studies" / f"{name}.md"


def page(name: str, home: Path = HOME, docs: Path = DOCS) -> str:
    """Return a study's page with its tables and pictures as they are now.

    Raises StudyError: the page asks for a table or a picture that results.json does not hold.
    """
    results = stored(name, home)

    def insert(match: re.Match[str]) -> str:
        kind, key = match.groups()
        if kind == "about":
            return f"<!-- about -->\n{_about(results)}\n<!-- end -->"
        if key not in results[f"{kind}s"]:
            raise StudyError(f"docs/studies/{name}.md asks for a {kind} {key}, which results.json does not hold")
        found = results[f"{kind}s"][key]
        made = markdown_table(found) if kind == "table" else f"![{found['title']}](../images/{file_of(name, key)})"
        return f"<!-- {kind} {key} -->\n{made}\n<!-- end -->"

    return _BLOCK.sub(insert, path_of(name, docs).read_text(encoding="utf-8"))


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
    """Write a study's pictures, and its tables into its page."""
    for key, picture in stored(name, home)["pictures"].items():
        draw(picture, docs / "images" / file_of(name, key))
    write_durably(path_of(name, docs), page(name, home, docs).encode(), 0o644)


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
