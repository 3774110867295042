"""Experiments for tests: small ones of made-up clips."""

import json
from pathlib import Path

from fleet_protocol.numbers.tensors import unpack
from fleet_simulator.cli import main
from fleet_simulator.runs.progress import Progress
from fleet_simulator.runs.run_folder import STATE
from fleet_simulator.simulation.run import Result, run


def write_experiment(path: Path, bundle: Path, **sections) -> Path:
    """Write an experiment; a section's keys go over these."""
    document = {
        "data": {"source": "synthetic", "clips": 600, "classes": 4, "speakers": 30, "noise": 0.5},
        "fleet": {"devices": 9},
        "model": {"bundle": str(bundle)},
        "rounds": {"count": 3, "seed": 5, "local": {"epochs": 1}},
    }
    return write_toml(path, document, sections)


def write_toml(path: Path, document, sections, users=()) -> Path:
    """Write a file of sections, over which the keys of others go, and of users with their events."""
    lines = []
    for section in [*document, *(sections.keys() - document.keys())]:
        merged = document.get(section, {}) | sections.get(section, {})
        lines += [f"[{section}]", *(f"{key} = {toml(value)}" for key, value in merged.items()), ""]
    for user in users:
        lines += ["[[users]]", *(f"{key} = {toml(value)}" for key, value in user.items() if key != "events")]
        for event in user.get("events", ()):
            lines += ["[[users.events]]", *(f"{key} = {toml(value)}" for key, value in event.items())]
    path.write_text("\n".join(lines))
    return path


def toml(value) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {toml(item)}" for key, item in value.items()) + " }"
    return json.dumps(value)


def simulate(experiment, folder: Path, workers: int = 0, inputs=None) -> Result:
    return run(experiment, folder, workers, Progress(), inputs=inputs)


def left_in(folder: Path, part: str):
    """The arrays of a part of the state that a run left: ``weights``, ``server``."""
    arrays, _ = unpack((folder / STATE).read_bytes())
    return {name.removeprefix(f"{part}/"): array for name, array in arrays.items() if name.startswith(f"{part}/")}


def refused(path: Path, says, capsys) -> None:
    """Check that the command refuses an experiment, naming its file and more."""
    assert main(["run", str(path), "--workers", "1"]) == 1
    message = capsys.readouterr().err
    assert all(part in message for part in (str(path), *says)), message
