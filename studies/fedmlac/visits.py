"""A fleet whose devices are visited often, judged after some of its rounds and not after the last one alone."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from fleet_protocol.setting import Value
from fleet_simulator.experiment.data_section import DataSection
from fleet_simulator.experiment.faults import FaultsSection
from fleet_simulator.experiment.sections import Experiment, FleetSection, ModelSection, RoundsSection
from fleet_simulator.runs.progress import Silent
from fleet_simulator.simulation.dealt_fleet import DealtFleet
from fleet_simulator.simulation.federation import Federation
from fleet_simulator.simulation.metrics import metrics
from fleet_simulator.simulation.run import run
from fleet_simulator.simulation.tasks import TestRows
from fleet_simulator.simulation.workers import InThisProcess
from studies.run import Figures
from studies.simulated import shared_inputs

_JUDGED = ("local_own", "local_strangers", "listening_own", "listening_strangers")


def visited(
    data: Mapping[str, Any],
    bundles: Sequence[Path],
    fleet: Mapping[str, Any],
    rounds: Mapping[str, Any],
    stops: Sequence[int],
    wrong: float,
    listening: Mapping[str, Value],
) -> Figures:
    """Play an experiment's rounds.

    Args:
        data: what ``[data]`` has; its public set tells after which rounds a server would stop.
        bundles: of the shared model, then of the devices' own models, if they have any.
        fleet: what ``[fleet]`` has.
        rounds: what ``[rounds]`` has but for ``count``.
        stops: after which rounds the devices' models are judged; the last one is the last round.
        wrong: share of the devices' labels that are wrong.
        listening: how devices make the model that they listen with.

    Returns:
        ``rounds``, ``devices``: as :func:`studies.simulated.simulated`, the devices after the last round.
        Rounds that are stops also have ``public``, the shared model's accuracy on the public set, 0..1, and means over
        the devices of what these have in the end, as ``local_strangers`` and ``listening_own``.
    """
    experiment = Experiment(
        DataSection(**data),
        FleetSection(**fleet),
        ModelSection(bundles[0], tuple(bundles[1:])),
        RoundsSection(count=stops[0], **rounds),
        FaultsSection(wrong_labels=wrong),
        dict(listening),
    )
    judged: dict[int, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for count in stops:
            so_far = replace(experiment, rounds=replace(experiment.rounds, count=count))
            result = run(so_far, Path(folder), 0, Silent(), inputs=shared_inputs())
            judged[count] = _means(result.devices) | {"public": _on_public_set(so_far, Path(folder))}
    return {"rounds": [one | judged.get(one["round"], {}) for one in result.rounds], "devices": result.devices}


def _means(devices: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return means over the devices that have the figure: one of few clips may have none to judge by."""
    return {key: fmean(float(one[key]) for one in devices if one[key] is not None) for key in _JUDGED}


def _on_public_set(experiment: Experiment, folder: Path) -> float:
    """Return the accuracy on the public set, 0..1, of the shared model that a run left in its folder."""
    fleet = DealtFleet(experiment, folder, shared_inputs(), in_memory=True)
    work, _ = Federation(experiment, fleet, folder).opened(experiment.rounds.count)
    task = TestRows(work, fleet.shards.public)
    with InThisProcess(fleet.setup, fleet.shards, shared_inputs()) as pool:
        return metrics(pool.run([task])[0])["accuracy"]
