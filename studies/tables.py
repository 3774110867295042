"""The tables by name, in the order of docs/results.md: one module each."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Protocol, cast

from studies.report import Results
from studies.run import Run
from studies.scale import Scale

NAMES = ("gudur", "fedmlac", "kws_ui", "selection", "speech", "attackers", "ablation")


class Table(Protocol):
    """What a table's module holds.

    Attributes:
        TITLE: heading of its section.
        PAPER: whose claims it judges, as in ``Xu et al. 2025``; ``ours`` where no paper has it. See :func:`papers`.
    """

    TITLE: str
    PAPER: str

    def runs(self, scale: Scale) -> list[Run]:
        """Return what to run; no name twice with the same seed.

        Raises:
            BenchmarkError: the data is not there, or a bundle cannot be built.
        """

    def section(self, results: Results) -> str:
        """Return Markdown, without the heading: figures beside the published ones, and what did not hold."""


def load_table(name: str) -> Table:
    """Return a table's module."""
    return cast(Table, import_module(f"studies.{name}.table"))


def papers(tables: Iterable[Table]) -> dict[str, str]:
    """Return whose claims the tables judge, by their titles; a table that does not say is named by its title."""
    return {table.TITLE: getattr(table, "PAPER", table.TITLE) for table in tables}
