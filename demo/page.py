"""The report: one HTML page that needs nothing from anywhere else."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from demo.play import FleetKind
from demo.tables import Fleets, Table
from fleet_protocol.atomic_files import write_durably

_TEMPLATE = Path(__file__).with_name("page.html")
_CURVES = (
    ("local: own model, public recordings", "local_accuracy", "#d97706", "-"),
    ("global: consensus, public recordings", "global_accuracy", "#1d4ed8", "-"),
    ("own model as trained in the round, held-out recordings", "held_out_before", "#0f766e", ":"),
    ("the model that listens after the round, held-out recordings", "held_out_after", "#0f766e", "-"),
)


def write_page(
    path: Path, kinds: Sequence[FleetKind], setting: Sequence[str], fleets: Fleets, tables: Sequence[Table]
) -> None:
    """Write the page: what was done, the tables that hold the fleets against one another, and each fleet's curves."""
    from jinja2 import Template

    curves = [(kind, draw_curves(fleets[kind.key])) for kind in kinds]
    template = Template(_TEMPLATE.read_text(encoding="utf-8"), autoescape=True)
    write_durably(path, template.render(setting=setting, tables=tables, curves=curves).encode(), mode=0o644)


def draw_curves(figures: Mapping[str, Any]) -> str:
    """Draw every user's accuracies by round; return an SVG element."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    rounds, users = figures["rounds"], [user["name"] for user in figures["users"]]
    drawn = [curve for curve in _CURVES if rounds[0]["users"][0][curve[1]] is not None]
    numbers = [played["round"] for played in rounds]
    style: Any = {"svg.fonttype": "none", "svg.hashsalt": "auricle", "font.size": 9, "axes.grid.axis": "y"}
    with mpl.rc_context(style):
        figure = Figure(figsize=(10.5, 3.6), layout="constrained")
        axes = figure.subplots(1, len(users), sharey=True)
        for place, (axis, user) in enumerate(zip(axes, users, strict=True)):
            for label, key, colour, line in drawn:
                values = [played["users"][place][key] for played in rounds]
                axis.plot(numbers, values, line, color=colour, label=label, marker=".", linewidth=1.6)
            for played in rounds:
                if played["appeared"]:
                    axis.axvline(played["round"], color="#7b8794", linewidth=0.8, linestyle="--", zorder=0)
                    text = f" {', '.join(played['appeared'])}"
                    axis.annotate(text, (played["round"], 0.02), xycoords=("data", "axes fraction"), fontsize=8)
            axis.set(title=user, xlabel="round", xticks=numbers[:: max(1, len(numbers) // 10)])
            axis.grid(axis="y", color="#e4e7eb")
        axes[0].set_ylabel("accuracy, %")
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
        return _svg(figure)


def _svg(figure: Any) -> str:  # noqa: ANN401  (matplotlib is imported where it is used)
    """Return a figure as an element for an HTML page, which needs no namespaces, and no metadata."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    text = buffer.getvalue()
    return re.sub(r'\s(xmlns(:\w+)?|version)="[^"]*"', "", text[text.index("<svg") :])
