"""Results as other programs read them: CSV and TensorBoard, and a picture of them."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fleet_protocol.atomic_files import write_durably
from fleet_simulator.errors import RunFolderError
from fleet_simulator.runs.comparison import FinishedRun, Rounds


def write_csv(runs: Mapping[str, Rounds], path: Path) -> None:
    """Write a line for each round, with every figure that is one number; a figure that a round lacks is empty.

    Args:
        runs: rounds by the run's name, which is the first column; without a name there is no such column.
        path: of the file.
    """
    lines = [({"run": name} if name else {}) | _figures(entry) for name, rounds in runs.items() for entry in rounds]
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
