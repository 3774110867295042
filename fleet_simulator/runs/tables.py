"""Results as other programs read them: CSV, TensorBoard, and several runs side by side, with a picture."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fleet_protocol.atomic_files import write_durably
from fleet_simulator.errors import RunFolderError
from fleet_simulator.runs.loop import RESULT

Rounds = list[dict[str, Any]]


@dataclass(frozen=True)
class FinishedRun:
    """A run that has a result.

    Attributes:
        name: of its folder.
        rounds: an entry for each round.
        about: settings, seed, version and digest of the code.
    """

    name: str
    rounds: Rounds
    about: dict[str, Any]


def read_run(folder: Path) -> FinishedRun:
    """Read a run's result.

    Raises:
        RunFolderError: there is none, or it is damaged.
    """
    path = folder / RESULT
    try:
        document = json.loads(path.read_bytes())
        return FinishedRun(folder.resolve().name, document["rounds"], document.get("about", {}))
    except FileNotFoundError as error:
        raise RunFolderError(
            f"{path} is not there: the run has not ended; `auricle-sim run` goes on with it"
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise RunFolderError(f"{path} is damaged ({error}); run the experiment anew") from error


def write_csv(rounds: Rounds, path: Path) -> None:
    """Write a line for each round, with every figure that is one number; a figure that a round lacks is empty."""
    lines = [_figures(entry) for entry in rounds]
    names = list(dict.fromkeys(name for line in lines for name in line))
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, names)
    writer.writeheader()
    writer.writerows(lines)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_durably(path, text.getvalue().encode(), 0o644)


def write_tensorboard(rounds: Rounds, folder: Path) -> None:
    """Write every figure of every round as a scalar that TensorBoard shows."""
    from tensorboardX import SummaryWriter  # type: ignore[import-untyped]

    with SummaryWriter(str(folder)) as writer:
        for entry in rounds:
            for name, value in _figures(entry).items():
                if name != "round":
                    writer.add_scalar(name, value, entry["round"])


def compare(runs: Sequence[FinishedRun]) -> list[dict[str, Any]]:
    """Return a row for each run: its last and its best accuracy, its loss, and in which settings it differs."""
    settings = [_flat(run.about.get("settings", {})) for run in runs]
    differing = [
        key for key in dict.fromkeys(key for one in settings for key in one)
        if len({json.dumps(one.get(key)) for one in settings}) > 1
    ]  # fmt: skip
    rows = []
    for run, own in zip(runs, settings, strict=True):
        tested = [(entry["accuracy"], entry["round"]) for entry in run.rounds if "accuracy" in entry]
        best = max(tested, key=lambda found: found[0], default=(None, None))
        rows.append({
            "run": run.name, "rounds": len(run.rounds), "accuracy": tested[-1][0] if tested else None,
            "best": best[0], "best_round": best[1], "loss": run.rounds[-1].get("loss") if run.rounds else None,
            "code": run.about.get("code", "")[:12], "settings": {key: own.get(key) for key in differing},
        })  # fmt: skip
    return rows


def plot(runs: Sequence[FinishedRun], path: Path) -> None:
    """Draw each run's accuracy over its rounds; the suffix says the format.

    Raises:
        RunFolderError: the format is none that can be drawn, or no run was tested.
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


def _flat(settings: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return settings by dotted keys."""
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat
