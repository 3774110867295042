"""Results as other programs read them: CSV, and a picture of them."""

from __future__ import annotations

import csv
import io
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from fleet_protocol.atomic_files import write_durably
from fleet_simulator.errors import RunFolderError
from fleet_simulator.runs.run_folder import RESULT, STATE

Rounds = list[dict[str, Any]]
_SEED = "rounds.seed"
_MEASURED = ("accuracy", "best", "loss")


@dataclass(frozen=True)
class FinishedRun:
    """A run that has a result."""

    name: str  # of its folder; of a run in a sweep's folder, with that one's name before it
    rounds: Rounds  # an entry for each round
    about: dict[str, Any]  # settings, seed, version and digest of the code


def read_runs(folders: Sequence[Path]) -> list[FinishedRun]:
    """Read results of runs. The folder of a sweep stands for all of its runs, in alphabetical order.

    Raises RunFolderError: a result is missing, or is damaged.
    """
    runs = []
    for folder in folders:
        swept = sorted(path for path in folder.glob("*=*") if _is_run(path))
        runs += [read_run(folder)] if _is_run(folder) or not swept else []
        runs += [read_run(path, f"{folder.resolve().name}/{path.name}") for path in swept]
    return runs


def _is_run(folder: Path) -> bool:
    return (folder / RESULT).exists() or (folder / STATE).exists()


def read_run(folder: Path, name: str = "") -> FinishedRun:
    """Read a run's result. Raises RunFolderError: there is none, or it is damaged."""
    path = folder / RESULT
    try:
        document = json.loads(path.read_bytes())
        return FinishedRun(name or folder.resolve().name, document["rounds"], document.get("about", {}))
    except FileNotFoundError as error:
        raise RunFolderError(
            f"{path} is not there: the run has not ended; `auricle-sim run` goes on with it"
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise RunFolderError(f"{path} is damaged ({error}); run the experiment anew") from error


def compare(runs: Sequence[FinishedRun]) -> list[dict[str, Any]]:
    """Return a row for each run, then one for each group of runs that differ in nothing but the seed.

    :func:`fleet_simulator.api.compare` says what stands in them. What a run lacks is None.
    """
    settings = [_flat(run.about.get("settings", {})) for run in runs]
    differing = [
        key
        for key in dict.fromkeys(key for one in settings for key in one)
        if len({json.dumps(one.get(key)) for one in settings}) > 1
    ]
    rows: list[dict[str, Any]] = []
    groups: defaultdict[str, dict[int, dict[str, Any]]] = defaultdict(dict)
    for run, own in zip(runs, settings, strict=True):
        tested = [(entry["accuracy"], entry["round"]) for entry in run.rounds if "accuracy" in entry]
        best = max(tested, key=lambda found: found[0], default=(None, None))
        rows.append(
            {
                "run": run.name,
                "rounds": len(run.rounds),
                "accuracy": tested[-1][0] if tested else None,
                "best": best[0],
                "best_round": best[1],
                "loss": run.rounds[-1].get("loss") if run.rounds else None,
                "code": run.about.get("code", "")[:12],
                "settings": {key: own.get(key) for key in differing},
            }
        )
        but_seed = {key: value for key, value in own.items() if key != _SEED}
        groups[json.dumps([but_seed, run.about.get("code")], sort_keys=True)].setdefault(own.get(_SEED, 0), rows[-1])
    return rows + [_mean(group) for group in groups.values() if len(group) > 1]


def _mean(by_seed: Mapping[int, dict[str, Any]]) -> dict[str, Any]:
    """Return the row of runs that differ in the seed."""
    rows = list(by_seed.values())
    row: dict[str, Any] = {"run": f"mean of {len(rows)} seeds", "rounds": rows[0]["rounds"], "code": rows[0]["code"]}
    for name in _MEASURED:
        values = [one[name] for one in rows]
        known = None not in values
        row |= {name: fmean(values) if known else None, f"{name}_std": stdev(values) if known else None}
    settings = {key: value for key, value in rows[0]["settings"].items() if key != _SEED}
    return row | {"settings": settings, "seeds": list(by_seed), "runs": [one["run"] for one in rows]}


def described(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return the rows of :func:`compare` as lines for people."""
    width = max((len(row["run"]) for row in rows), default=0)
    lines = []
    for row in rows:
        accuracy = (
            "not tested"
            if row["accuracy"] is None
            else (
                f"accuracy {_percent(row, 'accuracy')}, best {_percent(row, 'best')}"
                + (f" in round {row['best_round']}" if "best_round" in row else "")
            )
        )
        differs = ", ".join(f"{key} = {value}" for key, value in row["settings"].items())
        code = row["code"] or "unknown"
        lines.append(f"{row['run']:{width}s}  {row['rounds']} rounds, {accuracy}, code {code}  {differs}".rstrip())
    return lines


def _percent(row: dict[str, Any], name: str) -> str:
    spread = f" ± {100 * row[f'{name}_std']:.1f}" if f"{name}_std" in row else ""
    return f"{100 * row[name]:5.1f}{spread} %"


def _flat(settings: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return settings by dotted keys."""
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat


def write_csv(runs: Mapping[str, Rounds], path: Path) -> None:
    """Write a line for each round, with every figure that is one number; a figure that a round lacks is empty.

    Args:
        runs: rounds by the run's name, which is the first column; without a name there is no such column.
    """
    lines = [({"run": name} if name else {}) | _figures(entry) for name, rounds in runs.items() for entry in rounds]
    names = list(dict.fromkeys(name for line in lines for name in line))
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, names)
    writer.writeheader()
    writer.writerows(lines)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_durably(path, text.getvalue().encode(), 0o644)


def plot(runs: Sequence[FinishedRun], path: Path) -> None:
    """Draw each run's accuracy over its rounds; the suffix says the format.

    Raises RunFolderError: the format is none that can be drawn, or no run was tested.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    for run in runs:
        tested = [(entry["round"], 100 * entry["accuracy"]) for entry in run.rounds if "accuracy" in entry]
        if not tested:
            raise RunFolderError(f"{run.name} was never tested; set rounds.evaluate_every to 1 or more")
        axes.plot(*zip(*tested, strict=True), marker="o", markersize=3, label=run.name)
    axes.set(xlabel="round", ylabel="accuracy, %")
    axes.grid(alpha=0.3)
    axes.legend()
    drawn = io.BytesIO()
    try:
        figure.savefig(drawn, format=path.suffix.lstrip(".") or "png", dpi=150)
    except ValueError as error:
        raise RunFolderError(f"--plot {path}: {error}") from error
    write_durably(path, drawn.getvalue(), 0o644)


def _figures(entry: dict[str, Any]) -> dict[str, float]:
    return {key: value for key, value in entry.items() if isinstance(value, int | float)}
