"""What people see while the demonstration runs, and its tables at the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table as RichTable

from benchmarks.demo.outcome import RoundOutcome
from benchmarks.demo.tables import Table, round_line


class Display:
    """A context: a bar over the rounds that says what every device is doing; where nobody looks, a line per round."""

    def __init__(self, rounds: int) -> None:
        """Show nothing yet."""
        self.console = Console(highlight=False)
        if not self.console.is_terminal:  # a file has no width; tables shall not be squeezed into 80 columns there
            self.console = Console(highlight=False, width=140)
        self._progress = Progress(
            TextColumn("{task.description}"), BarColumn(24), MofNCompleteColumn(), TimeElapsedColumn(),
            console=self.console, transient=True, disable=not self.console.is_terminal,
        )  # fmt: skip
        self._task = self._progress.add_task("", total=rounds)

    def __enter__(self) -> Display:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def start(self, setting: Sequence[str]) -> None:
        """Say what will be done on what."""
        for line in setting:
            self.console.print(line, markup=False)
        self.console.print()

    def stage(self, text: str) -> None:
        """Say what happens now."""
        self._progress.update(self._task, description=text)
        if not self.console.is_terminal:
            self.console.print(f"{text} …", markup=False)

    def arrival(self, number: int, user: str, label: str, clips: int) -> None:
        """Say that a device meets recordings of a new sound."""
        self.console.print(f"before round {number}: {user} has {clips} recordings of '{label}'", style="yellow")

    def watch(self, detail: Mapping[str, Any]) -> None:
        """Show what every device is doing in a round."""
        states = [
            f"{item['name']} {'learned' if item['learned'] else 'learns' if item['upload'] else 'trains'}"
            for item in sorted(detail["participants"], key=lambda item: str(item["name"]))
        ]
        text = f"round {detail['summary']['round_id']}: {', '.join(states)}"
        self._progress.update(self._task, description=text)

    def round_done(self, outcome: RoundOutcome) -> None:
        """Show a round's figures."""
        self._progress.advance(self._task)
        self.console.print(round_line(outcome), markup=False)
        for report in outcome.reports:
            answer = "no class yet" if report.class_id is None else f"class {report.class_id}"
            self.console.print(f"          {report.user} reported a new sound: {answer} (it is '{report.label}')")

    def table(self, table: Table) -> None:
        """Print a table."""
        shown = RichTable()
        for index, name in enumerate(table.head):
            shown.add_column(name, justify="left" if index in table.left else "right")
        for cells in table.rows:
            if cells[0] == "average":
                shown.add_section()
            shown.add_row(*cells)
        self.console.print()
        self.console.print(table.title, markup=False, style="bold")
        self.console.print(shown)
        if table.note:
            self.console.print(table.note, markup=False, style="dim")
