"""What people read while the demonstration runs, and its tables at the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table as RichTable

from demo.new_sounds import Report
from demo.tables import Table


class Terminal:
    """Prints lines and tables."""

    def __init__(self) -> None:
        """Print nothing yet."""
        self._console = Console(highlight=False)
        if not self._console.is_terminal:  # a file has no width; tables shall not be squeezed into 80 columns there
            self._console = Console(highlight=False, width=140)

    def say(self, text: str, style: str = "") -> None:
        """Print a line."""
        self._console.print(text, markup=False, style=style)

    def round_done(self, played: Mapping[str, Any], reports: Sequence[Report]) -> None:
        """Print a round's figures."""
        users = "   ".join(
            f"{row['name']} {row['held_out_after']:5.1f}{' (kept own)' if row['kept_own'] else ''}"
            for row in played["users"]
        )
        self.say(f"round {played['round']:2d}   held out: {users}   {played['seconds']:4.1f} s")
        for report in reports:
            answer = "no class yet" if report.class_id is None else f"class {report.class_id}"
            self.say(f"          {report.user} reported a new sound: {answer} (it is '{report.label}')")

    def table(self, table: Table) -> None:
        """Print a table."""
        shown = RichTable()
        for index, name in enumerate(table.head):
            shown.add_column(name, justify="left" if index in table.left else "right")
        for cells in table.rows:
            if cells[0] == "average":
                shown.add_section()
            shown.add_row(*cells)
        self.say(f"\n{table.title}", "bold")
        self._console.print(shown)
        if table.note:
            self.say(table.note, "dim")
