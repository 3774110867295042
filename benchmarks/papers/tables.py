"""The tables by name: one module each."""

from __future__ import annotations

from importlib import import_module
from typing import Protocol, cast

from benchmarks.papers.report import Results
from benchmarks.papers.run import Run
from benchmarks.papers.scale import Scale

NAMES = ("zero_shot", "fedmlac", "kws_ui", "selection", "speech", "attackers", "ablation")


class Table(Protocol):
    """What a table's module holds.

    Attributes:
        TITLE: heading of its section.
    """

    TITLE: str

    def runs(self, scale: Scale) -> list[Run]:
        """Return what to run; no name twice with the same seed.

        Raises:
            BenchmarkError: the data is not there, or a bundle cannot be built.
        """

    def section(self, results: Results) -> str:
        """Return Markdown, without the heading: figures beside the published ones, and what did not hold."""


def load_table(name: str) -> Table:
    """Return a table's module."""
    return cast(Table, import_module(f"benchmarks.papers.{name}"))
