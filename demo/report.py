"""What people read of the demonstration: tables in the terminal while it runs, and one HTML page at the end."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table as RichTable

from demo.devices import FleetKind, Report
from fleet_protocol.ground.atomic_files import write_durably

Fleets = Mapping[str, Mapping[str, Any]]
"""The figures of :func:`demo.play.play`, by the fleet's key."""


@dataclass(frozen=True)
class Table:
    """A table of text; the first column is a name, the others are aligned right unless ``left`` names them."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: tuple[int, ...] = (0,)
    note: str = ""


def listening_table(fleets: Fleets) -> Table:
    """What every device listens with on held-out recordings: alone, after the rounds, and of sounds it never had."""
    return Table(
        "What each device listens with, on recordings of speakers and sources that nobody trained on: named rightly, %",
        ("fleet", "user", "alone", "after", "with new", "never heard"),
        tuple(
            (key, row["name"], *_listening(row))
            for key, figures in fleets.items()
            for row in (*figures["users"], figures["average"] | {"name": "average"})
        ),
        left=(0, 1),
        note="alone: a twin of the device learns the clips that the device has before the first round, without public "
        "set or fleet; published: as many passes as in the rounds; base, sounds: as its owner's teaching does. after: "
        "the model that listens after the last round, on the same recordings among the same labels. with new: the same "
        "where it chooses among the new sounds as well, as it does when it listens. never heard: recordings of the new "
        "sounds of which the device had none; it learned them from what others sent: data impressions (published), the "
        "mean embedding of their clips (base, whose network learned thirty-five words from other people; sounds, whose "
        "network learned the classes of AudioSet; its statistics are of synthesised sounds, as this corpus is unless "
        "recordings are given).",
    )


def _listening(row: Mapping[str, Any]) -> tuple[str, ...]:
    gain = f"{_percent(row['after'])} ({row['after'] - row['alone']:+.1f})"
    return _percent(row["alone"]), gain, _percent(row["with_new"]), _percent(row["never_heard"])


def discovery_table(fleets: Fleets) -> Table:
    """Which new sounds were found, when, from whose reports, and whether they were matched rightly."""
    rows = [
        (
            item["label"],
            key,
            ", ".join(item["devices"]),
            "not found" if item["round"] is None else f"round {item['round']}",
            "yes" if item["matched"] else "NO",
        )
        for key, figures in fleets.items()
        for item in figures["new_classes"]
    ]
    return Table(
        "New sounds (devices do not say which sound it is; only descriptions travel)",
        ("sound", "fleet", "met by", "found", "matched rightly"),
        tuple(rows),
        left=(0, 1, 2, 3, 4),
    )


def _percent(value: float | None) -> str:
    return "—" if value is None else f"{value:.1f}"


class Terminal:
    """Prints lines and tables."""

    def __init__(self) -> None:
        """Print nothing yet."""
        self._console = Console(highlight=False)
        if not self._console.is_terminal:  # a file has no width; tables shall not be squeezed into 80 columns there
            self._console = Console(highlight=False, width=140)

    def say(self, fleet: str, text: str, style: str = "") -> None:
        """Print a line about a fleet, or about all: ``""``."""
        self._console.print(f"{fleet:10}{text}" if fleet else text, markup=False, style=style)

    def round_done(self, fleet: str, played: Mapping[str, Any], reports: Sequence[Report]) -> None:
        """Print a round's figures."""
        users = "   ".join(
            f"{row['name']} {row['held_out_after']:5.1f}{' (kept own)' if row['kept_own'] else ''}"
            for row in played["users"]
        )
        self.say(fleet, f"round {played['round']:2d}   held out: {users}   {played['seconds']:4.1f} s")
        for report in reports:
            answer = "no class yet" if report.class_id is None else f"class {report.class_id}"
            self.say(fleet, f"          {report.user} reported a new sound: {answer} (it is '{report.label}')")

    def table(self, table: Table) -> None:
        """Print a table."""
        shown = RichTable()
        for index, name in enumerate(table.head):
            shown.add_column(name, justify="left" if index in table.left else "right")
        for cells in table.rows:
            shown.add_row(*cells, end_section=cells[1] == "average")
        self.say("", f"\n{table.title}", "bold")
        self._console.print(shown)
        if table.note:
            self.say("", table.note, "dim")


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

    curves = [(kind, _draw_curves(fleets[kind.key])) for kind in kinds]
    template = Template(_TEMPLATE.read_text(encoding="utf-8"), autoescape=True)
    write_durably(path, template.render(setting=setting, tables=tables, curves=curves).encode(), mode=0o644)


def _draw_curves(figures: Mapping[str, Any]) -> str:
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
