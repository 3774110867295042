"""What a table's text is made of: figures by run, means and spreads over seeds, and rows of Markdown."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

import numpy as np

from fleet_protocol.arrays import Doubles
from studies.run import Figures, Outcome, Run

CLAIMS = "### Claims"
SMOOTHED = 5
CLAIM_COLUMNS = ["claim", "published", "ours", "reproduced", "why"]


@dataclass(frozen=True)
class Results:
    """The finished runs of one table.

    Attributes:
        full: whether they are of the full scale.
        by_name: runs and their outcomes, by the runs' name.
    """

    full: bool
    by_name: Mapping[str, Sequence[tuple[Run, Outcome]]]

    def figures(self, name: str) -> list[Figures]:
        """Return the figures of a name's runs, one for each seed, in the order of the seeds."""
        return [outcome.figures for _, outcome in self.by_name[name]]

    @property
    def all_figures(self) -> dict[str, list[Figures]]:
        """The figures of all runs, by their names."""
        return {name: self.figures(name) for name in self.by_name}

    def seeds(self, name: str) -> list[int]:
        """Return the seeds of a name's runs."""
        return [run.seed for run, _ in self.by_name[name]]

    def values(self, name: str, figure: Callable[[Figures], float]) -> list[float]:
        """Return one figure of every seed."""
        return [figure(figures) for figures in self.figures(name)]

    def cell(self, name: str, figure: Callable[[Figures], float], factor: float = 100.0, digits: int = 1) -> str:
        """Return mean and spread over the seeds, as in ``84.6 ± 0.2``; by default of a share, in per cent."""
        return mean_and_spread([factor * value for value in self.values(name, figure)], digits)


@dataclass(frozen=True)
class Claim:
    """One claim of a paper, and what became of it here.

    Attributes:
        claim: in a few words.
        published: the paper's figure.
        ours: the figure of these runs.
        reproduced: ``yes``, ``no``, or ``in part``.
        why: where it was not: the reason, and the run that shows it; else what to know.
    """

    claim: str
    published: str
    ours: str
    reproduced: str
    why: str = ""


def claims_table(claims: Sequence[Claim]) -> str:
    """Return the claims of a table's section, under their heading; the document's first table is made of these."""
    rows = [[one.claim, one.published, one.ours, one.reproduced, one.why] for one in claims]
    lines = [CLAIM_COLUMNS, ["---"] * len(CLAIM_COLUMNS), *([_cell(text) for text in row] for row in rows)]
    return f"{CLAIMS}\n" + "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def claims_of(section: str) -> list[Claim]:
    """Return the claims that :func:`claims_table` put into a section; none where it has no such table.

    Cells are returned as they stand there, in Markdown.
    """
    found: list[Claim] = []
    for line in "\n".join(re.findall(rf"(?ms)^{CLAIMS}$(.*?)(?=^#|\Z)", section)).splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]]
        if len(cells) == len(CLAIM_COLUMNS) and cells != CLAIM_COLUMNS and not set(cells[0]) <= set("-: "):
            found.append(Claim(*cells))
    return found


def _cell(text: str) -> str:
    """Return text that stays in its cell."""
    return re.sub(r"(?<!\\)\|", r"\|", " ".join(text.split()))


def verdict(held: Sequence[bool]) -> str:
    """Return whether a claim of several cases is reproduced: ``yes`` in all of them, ``in part`` in some, ``no``."""
    return "yes" if all(held) else "in part" if any(held) else "no"


def agreed(levels: Sequence[str]) -> str:
    """Return what several judgements of a claim say together: their level where it is one, else ``in part``."""
    return levels[0] if len(set(levels)) == 1 else "in part"


def bold(text: str, chosen: bool) -> str:
    """Return a cell of a table of trials, bold where it is what was chosen."""
    return f"**{text}**" if chosen else text


def smoothed(tests: Sequence[float]) -> Doubles:
    """Return the means of :data:`SMOOTHED` tests in a row, float64 [tests - 4]: a single test is off by a point."""
    return np.convolve(tests, np.full(SMOOTHED, 1 / SMOOTHED), "valid")


def final_accuracy(figures: Figures) -> float:
    """Return the global model's accuracy after the last round of an experiment, 0..1."""
    return float(figures["rounds"][-1]["accuracy"])


def mean_and_spread(values: Sequence[float], digits: int = 1) -> str:
    """Return mean and standard deviation (over n - 1), as in ``84.6 ± 0.2``; of a single value, the value."""
    mean = f"{fmean(values):.{digits}f}"
    return f"{mean} ± {stdev(values):.{digits}f}" if len(values) > 1 else mean


def gain(ours: Sequence[float], theirs: Sequence[float], digits: int = 1) -> str:
    """Return mean and spread of the differences seed by seed, with a sign, as in ``+1.3 ± 0.4``."""
    differences = [a - b for a, b in zip(ours, theirs, strict=True)]
    sign = "+" if fmean(differences) >= 0 else ""
    return sign + mean_and_spread(differences, digits)


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table; the first column is to the left, the others to the right."""
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines) + "\n"
