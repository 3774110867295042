"""Kinds of pictures of a table's runs: curves over rounds, errors over clips, figures over a setting.

Each is drawn from the runs' figures alone. Equal figures give equal bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from benchmarks.pictures import STYLE, save
from studies.run import Figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ByName = Mapping[str, Sequence[Figures]]
Point = tuple[float, float]
Series = tuple[str, Callable[[Figures], float | None]]
"""Name of a run, and what takes a figure out of one of its entries."""
# Colours that the colour-blind tell apart (Okabe and Ito 2008); markers and dashes say the same.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKERS = "os^Dv*x"
_DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))
# White also on a dark page, as the other pictures of the documents are.
_STYLE = STYLE | {"figure.facecolor": "white", "axes.facecolor": "white", "savefig.facecolor": "white"}


@dataclass(frozen=True)
class Picture:
    """A picture of a table's runs.

    Attributes:
        name: of its file, without the ending.
        shows: what it shows, in a sentence; stands below it.
        runs: names of the runs that it needs.
        draw: returns it from the figures of these, one for each seed.
    """

    name: str
    shows: str
    runs: Sequence[str]
    draw: Callable[[ByName], Figure]

    def file(self, folder: Path) -> Path:
        """Return where it is in a folder of pictures."""
        return folder / f"results-{self.name}.svg"


def folder_of(document: Path) -> Path:
    """Return the folder of a document's pictures."""
    return document.parent / "images"


def draw_all(pictures: Sequence[Picture], figures: ByName, folder: Path) -> None:
    """Draw the pictures whose runs are all there.

    Args:
        pictures: of one table.
        figures: of its runs, by their names; one for each seed.
        folder: of the pictures.
    """
    import matplotlib as mpl

    for picture in pictures:
        if all(figures.get(name) for name in picture.runs):
            with mpl.rc_context(_STYLE):
                save(picture.draw(figures), picture.file(folder))


def share(key: str) -> Callable[[Figures], float | None]:
    """Return what takes a share, 0..1, out of a round's or a device's entry, in per cent; None where it has none."""
    return lambda entry: 100 * float(entry[key]) if entry.get(key) is not None else None


def error(key: str) -> Callable[[Figures], float | None]:
    """Return what makes the error in per cent of an accuracy, 0..1, of an entry; None where it has none."""
    return lambda entry: 100 * (1 - float(entry[key])) if entry.get(key) is not None else None


def over_rounds(name: str, shows: str, panels: Mapping[str, Mapping[str, Series]], label: str) -> Picture:
    """Return the picture of a figure over the rounds; a line is the mean over seeds, its shade the least and the most.

    Args:
        name: of the file.
        shows: in a sentence.
        panels: by their titles: by the label of a line the run, and what takes the figure out of an entry of its
            ``rounds``; rounds where that is None are passed over.
        label: of the axis.
    """

    def draw(figures: ByName) -> Figure:
        picture, axes = _panels(len(panels))
        for panel, (title, lines) in zip(axes, panels.items(), strict=True):
            for number, (line, (run, value)) in enumerate(lines.items()):
                _line_of_seeds(panel, [_curve(one, value) for one in figures[run]], line, number)
            _finish(panel, title, "round", label if panel is axes[0] else "")
        return _with_legend(picture)

    return Picture(name, shows, _runs_of(panels), draw)


def over_clips(
    name: str, shows: str, panels: Mapping[str, Mapping[str, Series]], label: str, size: str = "clips"
) -> Picture:
    """Return the picture of the devices' errors over the clips that they train on; a mark is a device of a seed.

    A line is a moving mean over a third of the devices.

    Args:
        name: of the file.
        shows: in a sentence.
        panels: by their titles: by the label of a mark the run, and what takes the error out of an entry of its
            ``devices``; those where that is None are passed over.
        label: of the axis of errors.
        size: what a device's clips are called in its entry, and at the axis.
    """

    def draw(figures: ByName) -> Figure:
        picture, axes = _panels(len(panels))
        for panel, (title, marks) in zip(axes, panels.items(), strict=True):
            for number, (mark, (run, value)) in enumerate(marks.items()):
                devices = [entry for one in figures[run] for entry in one["devices"]]
                points = sorted((float(one[size]), found) for one in devices if (found := value(one)) is not None)
                look: dict[str, Any] = {"color": _COLOURS[number], "alpha": 0.5, "marker": _MARKERS[number]}
                panel.scatter([x for x, _ in points], [y for _, y in points], s=12, **look)
                smooth = _moving_mean(points)
                _line(panel, smooth, mark, number)
            _finish(panel, title, f"{size} that the device trains on", label if panel is axes[0] else "")
        return _with_legend(picture)

    return Picture(name, shows, _runs_of(panels), draw)


def over_values(
    name: str,
    shows: str,
    lines: Mapping[str, Mapping[float, str]],
    figure: Callable[[ByName, str], float],
    x: str,
    y: str,
) -> Picture:
    """Return the picture of a figure over a setting, whose values stand side by side.

    Args:
        name: of the file.
        shows: in a sentence.
        lines: by their labels: names of runs by the setting's values.
        figure: (figures, name of a run) returns what is drawn.
        x: label of the setting's axis.
        y: label of the figure's axis.
    """

    def draw(figures: ByName) -> Figure:
        picture, (panel,) = _panels(1)
        values = sorted({value for runs in lines.values() for value in runs})
        for number, (line, runs) in enumerate(lines.items()):
            points = [(float(values.index(value)), figure(figures, run)) for value, run in sorted(runs.items())]
            _line(panel, points, line, number)
        panel.set_xticks(range(len(values)), [f"{value:g}" for value in values])
        _finish(panel, "", x, y)
        return _with_legend(picture)

    return Picture(name, shows, [run for runs in lines.values() for run in runs.values()], draw)


def _runs_of(panels: Mapping[str, Mapping[str, Series]]) -> list[str]:
    return [run for lines in panels.values() for run, _ in lines.values()]


def _panels(count: int) -> tuple[Figure, list[Axes]]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.5 if count == 1 else 3.2 * count, 3.8), layout="constrained")
    return figure, list(figure.subplots(1, count, sharey=True, squeeze=False)[0])


def _curve(figures: Figures, value: Callable[[Figures], float | None]) -> list[Point]:
    found = ((entry.get("round", number), value(entry)) for number, entry in enumerate(figures["rounds"], start=1))
    return [(float(x), y) for x, y in found if y is not None]


def _line_of_seeds(panel: Axes, curves: Sequence[Sequence[Point]], label: str, number: int) -> None:
    by_round: dict[float, list[float]] = {}
    for x, y in (point for curve in curves for point in curve):
        by_round.setdefault(x, []).append(y)
    # A round that a seed lacks, because its training diverged, would make a step in the mean.
    rounds = sorted(x for x, values in by_round.items() if len(values) == len(curves))
    values = [by_round[x] for x in rounds]
    _line(panel, list(zip(rounds, map(fmean, values), strict=True)), label, number)
    if len(curves) > 1:
        panel.fill_between(rounds, list(map(min, values)), list(map(max, values)), color=_COLOURS[number], alpha=0.12)


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
