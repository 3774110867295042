"""What people see while the demonstration runs, and its tables at the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

from rich.console import Console
from rich.table import Table as RichTable

from demo.new_sounds import Report
from demo.tables import Table


class Terminal:
    """A context that says in one line what happens now; where nobody looks, a line for each stage."""

    def __init__(self) -> None:
        """Show nothing yet."""
        self._console = Console(highlight=False)
        if not self._console.is_terminal:  # a file has no width; tables shall not be squeezed into 80 columns there
            self._console = Console(highlight=False, width=140)
        self._status = self._console.status("")

    def __enter__(self) -> Self:
        self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._status.stop()

    def say(self, text: str, style: str = "") -> None:
        """Print a line."""
        self._console.print(text, markup=False, style=style)

    def stage(self, text: str) -> None:
        """Say what happens now."""
        self._status.update(text)
        if not self._console.is_terminal:
            self.say(f"{text} …")

    def arrival(self, number: int, user: str, label: str, clips: int) -> None:
        """Say that a device meets recordings of a new sound."""
        self.say(f"before round {number}: {user} has {clips} recordings of '{label}'", "yellow")

    def watch(self, detail: Mapping[str, Any]) -> None:
        """Show what every device is doing in a round."""
        states = [
            f"{item['name']} {'learned' if item['learned'] else 'learns' if item['upload'] else 'trains'}"
            for item in sorted(detail["participants"], key=lambda item: str(item["name"]))
        ]
        self._status.update(f"round {detail['summary']['round_id']}: {', '.join(states)}")

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
        self.say("")
        self.say(table.title, "bold")
        self._console.print(shown)
        if table.note:
            self.say(table.note, "dim")
