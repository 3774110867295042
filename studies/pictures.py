"""Draws a picture of a study's results.json. Equal figures give equal bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from benchmarks.pictures import STYLE, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Point = tuple[Any, float]
# Colours that the colour-blind tell apart (Okabe and Ito 2008); markers and dashes say the same.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKERS = "os^Dv*x"
_DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))
# White also on a dark page, as the other pictures of the documents are.
_STYLE = STYLE | {"figure.facecolor": "white", "axes.facecolor": "white", "savefig.facecolor": "white"}


def draw(picture: Mapping[str, Any], file: Path) -> None:
    """Draw a picture of results.json; `studies.study.Picture` says what it holds."""
    import matplotlib as mpl

    titles = list(dict.fromkeys(one["panel"] for one in picture["series"]))
    with mpl.rc_context(_STYLE):
        figure, axes = _panels(len(titles))
        for panel, title in zip(axes, titles, strict=True):
            there = [one for one in picture["series"] if one["panel"] == title]
            for number, one in enumerate(there):
                _DRAWN[picture["kind"]](panel, one, number, len(there))
            _finish(panel, title, picture["x"], picture["y"] if panel is axes[0] else "")
        save(_with_legend(figure), file)


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


def _panels(count: int) -> tuple[Figure, list[Axes]]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.5 if count == 1 else 3.2 * count, 3.8), layout="constrained")
    return figure, list(figure.subplots(1, count, sharey=True, squeeze=False)[0])


def _line(panel: Axes, points: Sequence[Point], label: str, number: int) -> None:
    look: dict[str, Any] = {"color": _COLOURS[number], "linestyle": _DASHES[number], "marker": _MARKERS[number]}
    every = max(1, len(points) // 10)
    panel.plot([x for x, _ in points], [y for _, y in points], label=label, markersize=4, markevery=every, **look)


def _moving_mean(points: Sequence[Point]) -> list[Point]:
    """Return means over a third of the points, from one end to the other."""
    width = max(1, len(points) // 3)
    windows = [points[start : start + width] for start in range(len(points) - width + 1)]
    return [(fmean(x for x, _ in window), fmean(y for _, y in window)) for window in windows]


def _finish(panel: Axes, title: str, x: str, y: str) -> None:
    panel.set(title=title, xlabel=x, ylabel=y)
    panel.grid(alpha=0.3)


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
