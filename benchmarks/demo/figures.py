"""The report's pictures, as SVG that stands in a page without any address of another place."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.demo.outcome import RoundOutcome, UserRound, row_of
from benchmarks.demo.recognition import Impressions, Similarity
from fleet_protocol.arrays import Doubles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_INK, _GREY, _GRID = "#1f2933", "#7b8794", "#e4e7eb"
_LOCAL, _GLOBAL, _HELD_OUT = "#d97706", "#1d4ed8", "#0f766e"
_MARKERS = "os^Dv"
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "auricle",
    "font.family": "sans-serif",
    "font.size": 9,
    "text.color": _INK,
    "axes.labelcolor": _INK,
    "axes.edgecolor": _GREY,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "xtick.color": _GREY,
    "ytick.color": _GREY,
    "legend.frameon": False,
}
_CURVES = (
    ("local: own model, public recordings", "local_accuracy", _LOCAL, "-"),
    ("global: consensus, public recordings", "global_accuracy", _GLOBAL, "-"),
    ("own model as trained in the round, held-out recordings", "held_out_before", _HELD_OUT, ":"),
    ("the model that listens after the round, held-out recordings", "held_out_after", _HELD_OUT, "-"),
)


def _new_figure(columns: int, rows: int, width: float, height: float) -> tuple[Figure, NDArray[np.object_]]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, np.asarray(figure.subplots(rows, columns, squeeze=False))


def curves(rounds: Sequence[RoundOutcome], users: Sequence[str], appeared: dict[int, list[str]]) -> str:
    """Draw every user's accuracies by round.

    Args:
        rounds: all of them.
        users: in order.
        appeared: what to say of the rounds before which new sounds appeared.
    """
    import matplotlib as mpl

    with mpl.rc_context(_STYLE):
        figure, axes = _new_figure(len(users), 1, 10.5, 3.6)
        lowest = min(value for outcome in rounds for row in outcome.users for value in _values(row))
        drawn = [curve for curve in _CURVES if getattr(rounds[0].users[0], curve[1]) is not None]
        numbers = [outcome.number for outcome in rounds]
        for axis, user in zip(axes[0], users, strict=True):
            for label, name, colour, style in drawn:
                values = [float(getattr(row_of(outcome, user), name)) for outcome in rounds]
                axis.plot(numbers, values, style, color=colour, label=label, marker=".", linewidth=1.6)
            for number, labels in appeared.items():
                axis.axvline(number, color=_GREY, linewidth=0.8, linestyle="--", zorder=0)
                axis.annotate(
                    f" {', '.join(labels)}", (number, 0.02), xycoords=("data", "axes fraction"), color=_GREY, fontsize=8
                )
            axis.set(title=user, xlabel="round", ylim=(max(0.0, 5 * np.floor(lowest / 5 - 1)), 101))
            axis.set_xticks(numbers[:: max(1, len(numbers) // 10)])
            axis.grid(axis="y", color=_GRID)
        axes[0][0].set_ylabel("accuracy, %")
        handles, labels = axes[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=2)
        return _svg(figure)


def _values(row: UserRound) -> tuple[float, ...]:
    found = (row.local_accuracy, row.global_accuracy, row.held_out_before, row.held_out_after)
    return tuple(value for value in found if value is not None)


def similarities(matrices: Sequence[Similarity]) -> str:
    """Draw the class-similarity matrix of every device's head."""
    import matplotlib as mpl

    with mpl.rc_context(_STYLE | {"axes.spines.left": False, "axes.spines.bottom": False}):
        figure, axes = _new_figure(len(matrices), 1, 10.5, 3.9)
        for axis, item in zip(axes[0], matrices, strict=True):
            picture = axis.imshow(item.matrix, cmap="RdBu_r", vmin=-1, vmax=1)
            ticks = range(len(item.labels))
            axis.set_xticks(ticks, item.labels, rotation=60, ha="right", rotation_mode="anchor")
            axis.set_yticks(ticks, item.labels)
            axis.tick_params(length=0, labelsize=8)
            axis.set_title(item.user)
            for row in ticks:
                for column in ticks:
                    value = item.matrix[row, column]
                    colour = "white" if abs(value) > 0.6 else _INK
                    axis.text(column, row, f"{value:.1f}", ha="center", va="center", fontsize=6.5, color=colour)
        figure.colorbar(picture, ax=list(axes[0]), shrink=0.7, label="cosine of the head's weights")
        return _svg(figure)


def impression_planes(rounds: dict[int, list[Impressions]]) -> str:
    """Draw, for every round with reports, the first two principal components of what was uploaded."""
    import matplotlib as mpl

    with mpl.rc_context(_STYLE):
        figure, axes = _new_figure(len(rounds), 1, 10.5, 4.6)
        colours = _colours([label for items in rounds.values() for item in items for label in item.labels])
        for axis, (number, items) in zip(axes[0], rounds.items(), strict=True):
            _plane(axis, items, colours)
            axis.set(title=f"round {number}", xlabel="first component", ylabel="second component")
        return _svg(figure)


def _plane(axis: Axes, items: Sequence[Impressions], colours: dict[str, Any]) -> None:
    from matplotlib.lines import Line2D

    plane = _components(np.concatenate([item.values.reshape(-1, item.values.shape[2]) for item in items]))
    start = 0
    handles = []
    for item, marker in zip(items, _MARKERS, strict=False):
        for label, new, block in zip(item.labels, item.new, item.values, strict=True):
            points = plane[start : start + len(block)]
            start += len(block)
            axis.scatter(
                points[:, 0],
                points[:, 1],
                s=9,
                marker=marker,
                color=colours[label],
                alpha=0.35 if new else 0.2,
                linewidths=0,
            )
            centre = points.mean(axis=0)
            axis.scatter(
                centre[0],
                centre[1],
                s=90 if new else 40,
                marker=marker,
                color=colours[label],
                edgecolors=_INK,
                zorder=3,
            )
            text = f"{label} (new)" if new else label
            weight = "bold" if new else "normal"
            axis.annotate(text, centre, (5, 5), textcoords="offset points", fontsize=8, weight=weight, zorder=4)
        handles.append(Line2D([], [], marker=marker, color=_GREY, linestyle="", label=item.user))
    axis.legend(handles=handles, loc="best")


def _components(points: Doubles) -> Doubles:
    """Project float64 [n, features] onto its first two principal components."""
    centred = points - points.mean(axis=0)
    return np.asarray(centred @ np.linalg.svd(centred, full_matrices=False)[2][:2].T)


def _colours(labels: Sequence[str]) -> dict[str, Any]:
    from matplotlib import colormaps

    return {label: colormaps["tab10"](index % 10) for index, label in enumerate(dict.fromkeys(labels))}


def _svg(figure: Figure) -> str:
    """Return a figure as an element for an HTML page, which needs no namespaces, and no metadata."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    return re.sub(r'\s(xmlns(:\w+)?|version)="[^"]*"', "", text)
