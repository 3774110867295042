"""The loop of every simulation: a folder of its own, one round after another, and the result at the end."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from fleet_protocol.atomic_files import leftovers, make_folder, write_durably
from fleet_simulator.runs.progress import Progress
from fleet_simulator.runs.run_folder import locked

RESULT = "result.json"


class Simulation(Protocol):
    """One kind of experiment, opened in its folder."""

    @property
    def rounds(self) -> list[dict[str, Any]]:
        """One JSON-ready entry for each finished round."""

    def play(self, round_id: int, progress: Progress) -> dict[str, Any]:
        """Play the next round and put the state after it on the disk; return the round's entry."""

    def result(self) -> dict[str, Any]:
        """Return what ``result.json`` holds, after the last round."""


def simulate(
    folder: Path,
    count: int,
    progress: Progress,
    open_simulation: Callable[[], AbstractContextManager[Simulation]],
    told: Mapping[str, Any],
) -> tuple[dict[str, Any], list[float]]:
    """Play the rounds that a folder lacks; a killed run so goes on from its last finished round.

    Args:
        folder: of the run; made where there is none.
        count: of rounds, those before this run among them.
        progress: shows how it goes.
        open_simulation: reads the state in the folder, or makes the first one.
        told: what ``result.json`` says of how it was made, JSON-ready.

    Returns:
        What ``result.json`` holds, and the seconds of each round that was played here.

    Raises:
        RunFolderError: another run is on in the folder, or it holds another experiment's run.
    """
    make_folder(folder, 0o755)
    with locked(folder):
        for path in leftovers(folder):
            path.unlink()
        seconds: list[float] = []
        with open_simulation() as simulation:
            progress.begin(count, len(simulation.rounds))
            for round_id in range(len(simulation.rounds) + 1, count + 1):
                start = time.perf_counter()
                entry = simulation.play(round_id, progress)
                seconds.append(time.perf_counter() - start)
                progress.round_done(entry, seconds[-1])
            result = simulation.result() | {"about": dict(told)}
        write_durably(folder / RESULT, (json.dumps(result, indent=1, sort_keys=True) + "\n").encode(), 0o644)
    return result, seconds


def available_cores() -> int:
    """Return the cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
