"""What a result was made with: settings, seed, versions, and a digest of the code."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.util
import json
import os
from functools import cache
from pathlib import Path
from typing import Any

from fleet_protocol.command_line import version

# Whose code decides what a run finds, beside its settings.
PACKAGES = ("aggregator_server", "edge_client", "fleet_protocol", "fleet_simulator")


def about(experiment: Any) -> dict[str, Any]:  # noqa: ANN401  (a dataclass of either kind of experiment)
    """Return what ``result.json`` tells of a run, JSON-ready."""
    settings = json.loads(json.dumps(dataclasses.asdict(experiment), default=str))
    return {
        "version": version(),
        "code": code_digest(),
        "experiment": experiment.digest,
        "strategy": experiment.strategy,
        "seed": experiment.rounds.seed,
        "settings": settings,
    }


@cache
def code_digest() -> str:
    """Return a digest of the sources that a run's result depends on."""
    digest = hashlib.sha256()
    for package in PACKAGES:
        spec = importlib.util.find_spec(package)
        assert spec is not None
        assert spec.submodule_search_locations is not None
        folder = Path(spec.submodule_search_locations[0])
        for path in sorted(folder.rglob("*.py")):
            digest.update(f"{package}/{path.relative_to(folder).as_posix()}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def available_cores() -> int:
    """Return the cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
