"""What a study is: its runs, and the tables and pictures that are made of them; results.json as its one record."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, cast

from benchmarks.command import ROOT
from fleet_protocol.ground.atomic_files import write_durably
from studies.fleets import Scale
from studies.run import Figures, Outcome, Run

NAMES = ("gudur", "fedmlac", "kws_ui", "selection", "speech", "attackers", "ablation")
HOME = ROOT / "studies"
_DIGITS = 3  # behind the point, of what results.json holds

Cell = str | int | float | dict[str, Any] | None
"""Text, a plain number such as a setting, nothing, or what was measured: ``mean``, ``deviation`` (over n - 1; None of
a single seed), and ``values`` by seed."""
Figure = Callable[[Figures], float | None]


def measured(values: Mapping[int, float | None]) -> Cell:
    """Return the cell of a figure's values, by seed; nothing where a seed has none."""
    found = {str(seed): round(value, _DIGITS) for seed, value in values.items() if value is not None}
    if not found or len(found) < len(values):
        return None
    deviation = round(stdev(found.values()), _DIGITS) if len(found) > 1 else None
    return {"mean": round(fmean(found.values()), _DIGITS), "deviation": deviation, "values": found}


@dataclass(frozen=True)
class Results:
    """The finished runs of a study."""

    # runs and their outcomes, by the runs' name, in the order of the seeds
    by_name: Mapping[str, Sequence[tuple[Run, Outcome]]]

    def figures(self, name: str) -> list[Figures]:
        """Return the figures of a name's runs, one for each seed; none where it has no runs."""
        return [outcome.figures for _, outcome in self.by_name.get(name, ())]

    def seeds(self, name: str) -> list[int]:
        """Return the seeds of a name's runs."""
        return [run.seed for run, _ in self.by_name.get(name, ())]

    def values(self, name: str, figure: Figure, factor: float = 1.0) -> dict[int, float | None]:
        """Return a figure of every seed, times a factor; None where a run has none."""
        found = {run.seed: figure(outcome.figures) for run, outcome in self.by_name.get(name, ())}
        return {seed: None if value is None else factor * value for seed, value in found.items()}

    def cell(self, name: str, figure: Figure, factor: float = 100.0) -> Cell:
        """Return a figure as a cell: by default of a share, in per cent. None where the name has no runs."""
        return measured(self.values(name, figure, factor))

    def gain(self, ours: str, theirs: str, figure: Figure, factor: float = 100.0, before: Figure | None = None) -> Cell:
        """Return what ``ours`` has more than ``theirs`` (``before``, of the latter), over the seeds that both have."""
        first, second = self.values(ours, figure, factor), self.values(theirs, before or figure, factor)
        pairs = {seed: (value, second[seed]) for seed, value in first.items() if seed in second}
        return measured(
            {seed: None if one is None or other is None else one - other for seed, (one, other) in pairs.items()}
        )

    def curve(self, name: str, run: str, value: Figure, panel: str = "") -> Series:
        """Return a line over the rounds: the mean over seeds of a figure of their entries, where all seeds have it."""
        seeds = [_rounds(figures, value) for figures in self.figures(run)]
        x = sorted(set.intersection(*(set(seed) for seed in seeds))) if seeds else []
        return series(name, [(at, measured(dict(enumerate(seed[at] for seed in seeds)))) for at in x], panel)


def share(key: str) -> Figure:
    """Return what takes a share, 0..1, out of a round's entry, in per cent; None where it has none."""
    return lambda entry: 100 * float(entry[key]) if entry.get(key) is not None else None


def _rounds(figures: Figures, value: Figure) -> dict[int, float]:
    found = {entry.get("round", number): value(entry) for number, entry in enumerate(figures["rounds"], start=1)}
    return {number: figure for number, figure in found.items() if figure is not None}


@dataclass(frozen=True)
class Table:
    """A table."""

    title: str  # what it holds, with the units
    columns: Sequence[str]  # headings; the first column names the rows
    rows: Sequence[Sequence[Cell]]  # of cells, as many as columns
    digits: int = 1  # behind the point, of measured cells


@dataclass(frozen=True)
class Series:
    """A line of a picture, a group of its bars, or a kind of its points."""

    name: str  # in the legend
    x: Sequence[float | str]  # numbers; of bars, what each stands for
    y: Sequence[float]  # numbers, as many
    deviation: Sequence[float] = ()  # over the seeds, as many; empty where there is one seed
    panel: str = ""  # heading of the part of the picture that it is in


def series(name: str, points: Iterable[tuple[float | str, Cell]], panel: str = "") -> Series:
    """Return the series of measured cells at places; those of nothing are left out."""
    there = [(x, cast(dict[str, Any], cell)) for x, cell in points if cell is not None]
    spread = [cell["deviation"] for _, cell in there if cell["deviation"] is not None]
    return Series(name, [x for x, _ in there], [cell["mean"] for _, cell in there], spread, panel)


@dataclass(frozen=True)
class Picture:
    """A picture."""

    kind: str  # ``lines``; ``bars``; or ``points``, through which a moving mean is drawn
    title: str  # what it shows; stands below it
    x: str  # label of the axis
    y: str  # label of the axis
    series: Sequence[Series]  # what is drawn


@dataclass(frozen=True)
class Summary:
    """What a study's runs come to: tables and pictures by their ids; tables' are unlike `published` (see `store`)."""

    tables: Mapping[str, Table]
    pictures: Mapping[str, Picture] = field(default_factory=dict)


def load_study(name: str) -> Any:  # noqa: ANN401  (a module)
    """Return a study's module ``runs``.

    It has ``runs(scale)``, what to run, no name twice with the same seed; and ``summary(results)``, the tables and
    pictures of finished runs.
    """
    return import_module(f"studies.{name}.runs")


def results_of(finished: Sequence[tuple[Run, Outcome]]) -> Results:
    """Return runs and their outcomes by name."""
    by_name: dict[str, list[tuple[Run, Outcome]]] = {}
    for run, outcome in sorted(finished, key=lambda pair: pair[0].seed):
        by_name.setdefault(run.name, []).append((run, outcome))
    return Results(by_name)


def stored(name: str, home: Path = HOME) -> dict[str, Any]:
    """Return a study's results.json; nothing where it has none."""
    path = home / name / "results.json"
    return cast(dict[str, Any], json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else {}


def store(name: str, study: Any, finished: Sequence[tuple[Run, Outcome]], scale: Scale, home: Path = HOME) -> None:  # noqa: ANN401  (a module)
    """Write a study's results.json from its finished runs.

    Tables that the study does not make of runs stay as they are: ``published``, which a person copied from the paper,
    and what was measured apart.
    """
    found = study.summary(results_of(finished))
    document = {
        "study": name,
        "scale": scale.name,
        "measured": _measured(finished),
        "tables": stored(name, home).get("tables", {}) | {key: asdict(table) for key, table in found.tables.items()},
        "pictures": {key: asdict(picture) for key, picture in found.pictures.items()},
    }
    write_durably(home / name / "results.json", dumped(document).encode(), 0o644)


def dumped(document: Mapping[str, Any]) -> str:
    """Return results.json's text: keys sorted, a row or a series a line."""
    return _lines(document, "") + "\n"


def _lines(value: Any, indent: str) -> str:  # noqa: ANN401  (whatever JSON holds)
    within = indent + " "
    deep = isinstance(value, Mapping) and any(isinstance(item, Mapping | list | tuple) for item in value.values())
    if deep and len(indent) < 4:
        items = [f"{json.dumps(key)}: {_lines(value[key], within)}" for key in sorted(value)]
        return "{\n" + ",\n".join(within + item for item in items) + f"\n{indent}}}"
    if isinstance(value, list | tuple) and any(isinstance(item, Mapping | list | tuple) for item in value):
        return "[\n" + ",\n".join(within + json.dumps(item, sort_keys=True) for item in value) + f"\n{indent}]"
    return json.dumps(value, sort_keys=True)


def _measured(finished: Sequence[tuple[Run, Outcome]]) -> dict[str, Any]:
    codes = sorted({run.code for run, _ in finished})
    machine = finished[0][1].machine
    ended = max(outcome.started + outcome.seconds for _, outcome in finished)
    once = {run.digest: outcome.seconds for run, outcome in finished}  # runs may share an outcome
    return {
        "date": datetime.fromtimestamp(ended, UTC).date().isoformat(),
        "code": (codes[0] if len(codes) == 1 else hashlib.sha256(" ".join(codes).encode()).hexdigest())[:12],
        "machine": "{processor}, {cores} cores, {system}, Python {python}, {runtime}".format_map(machine),
        "runs": len(finished),
        "minutes": round(sum(once.values()) / 60, 1),
        "seeds": sorted({run.seed for run, _ in finished}),
    }


# Kinds of model that a run with baselines judges (docs/simulator.md).
WITHOUT = {"alone": "alone", "public only": "public", "own and public": "both"}
_GUESSED = 10.0  # in per cent, of ten words


def own_accuracies(figures: Figures, kind: str = "listening") -> list[float]:
    """Return a kind of model's accuracy, 0..1, on every device's own clips; devices that have none are left out."""
    return [float(entry[f"{kind}_own"]) for entry in _judged(figures)]


def own_and_strangers(figures: Figures, kind: str = "listening") -> tuple[float, float]:
    """Return a kind of model's accuracy on own and on strangers' clips, means over devices in per cent.

    Those of guessing where the training diverged.
    """
    if "diverged" in figures:
        return _GUESSED, _GUESSED
    strangers = [float(entry[f"{kind}_strangers"]) for entry in _judged(figures)]
    return 100 * fmean(own_accuracies(figures, kind)), 100 * fmean(strangers)


def listened(results: Results, name: str, kind: str = "listening") -> list[Cell]:
    """Return both as cells, over the seeds of a name's runs that judged this kind."""
    runs = zip(results.seeds(name), results.figures(name), strict=True)
    found = {
        seed: own_and_strangers(figures, kind)
        for seed, figures in runs
        if "diverged" in figures or any(f"{kind}_own" in entry for entry in figures["devices"])
    }
    return [measured({seed: pair[place] for seed, pair in found.items()}) for place in (0, 1)]


def worse_than_alone(figures: Figures, kind: str, alone: Sequence[float]) -> int:
    """Return how many devices recognise fewer own clips than alone; all of them where the training diverged."""
    if "diverged" in figures:
        return len(alone)
    return sum(now < before for now, before in zip(own_accuracies(figures, kind), alone, strict=True))


def _judged(figures: Figures) -> list[dict[str, float]]:
    return [entry for entry in figures["devices"] if entry["listening_own"] is not None]
