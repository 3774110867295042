"""Runs of FedMLAC's table that are no plain experiments: devices visited often, and a fleet that shares scores.

Devices that are visited often can learn wrong labels by heart; they are judged after some of the rounds and not after
the last one alone. The fleet of five networks with the strategy ``zero_shot`` shares scores and no network.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from fleet_protocol.methods.setting import Value
from fleet_simulator.experiment.faults import FaultsSection
from fleet_simulator.experiment.sections import (
    DataSection,
    Experiment,
    FleetSection,
    ModelSection,
    RoundsSection,
    UserSection,
    ZeroShotExperiment,
    ZeroShotSection,
)
from fleet_simulator.runs.progress import Progress
from fleet_simulator.simulation.dealt_fleet import DealtFleet
from fleet_simulator.simulation.federation import Federation
from fleet_simulator.simulation.metrics import metrics
from fleet_simulator.simulation.run import run
from fleet_simulator.simulation.tasks import TestRows
from fleet_simulator.simulation.workers import InThisProcess
from studies.fedmlac.methods import (
    CLEAN,
    FEDMLAC,
    FIVE,
    FLEETS_OF_FIVE,
    HALF_WRONG,
    LISTENING,
    PAPERS_RATE,
    Method,
    fedavg,
    fedmlac,
    fedopt,
    often,
)
from studies.fleets import rounds_of, shared_inputs
from studies.run import Call, Figures, Run

STOPS, TRIED_FOR = (20, 50, 100, 150), 100
_TESTED_EVERY = 10  # rounds
_WRONG = {CLEAN: 0.0, HALF_WRONG: 0.5}

TRIALS: Mapping[str, Mapping[str, Method]] = {
    "FedAvg": {f"{rate:g}": fedavg(rate) for rate in (0.04, 0.08)},
    "FedOPT": {
        f"{rate:g}, server's {server:g}": fedopt(rate, server) for rate, server in ((0.04, 0.003), (0.04, 0.01))
    },
    FEDMLAC: {f"{rate:g}, a {share:g}": fedmlac(rate, share) for rate, share in ((0.08, 0.1), (0.16, 0.1))},
}
CHOSEN = {"FedAvg": "0.08", "FedOPT": "0.04, server's 0.01", FEDMLAC: "0.16, a 0.1"}
METHODS: Mapping[str, Method] = {name: trials[CHOSEN[name]] for name, trials in TRIALS.items()} | {
    PAPERS_RATE: fedavg(0.01)
}
CONDITIONS = {CLEAN: ("FedAvg", FEDMLAC), HALF_WRONG: tuple(METHODS)}
"""Which methods are run under which."""
ONE_SEED = frozenset([often(PAPERS_RATE, HALF_WRONG), *(often(of, CLEAN) for of in CONDITIONS[CLEAN])])
"""Names of runs that have the first seed alone, so that the table ends in time."""


@dataclass(frozen=True)
class OftenVisited:
    """A fleet."""

    data: Mapping[str, Any]  # what ``[data]`` has
    fleet: Mapping[str, Any]  # what ``[fleet]`` has
    bundles: Mapping[str, Path]  # by architecture

    def trials(self, seeds: Sequence[int]) -> Iterator[Run]:
        """Yield them, with half of the labels wrong; shorter than what is reported."""
        for seed in seeds:
            for of, trials in TRIALS.items():
                for trial, method in trials.items():
                    yield self._run(f"{of} {trial}", method, HALF_WRONG, seed, (TRIED_FOR,))

    def reported(self, seeds: Sequence[int]) -> Iterator[Run]:
        """Yield every method's runs, and those of the fleet of five networks."""
        work = [(of, METHODS[of], condition) for condition, methods in CONDITIONS.items() for of in methods]
        work.append((f"{FEDMLAC}, {FLEETS_OF_FIVE}", replace(METHODS[FEDMLAC], own=FIVE), HALF_WRONG))
        for seed in seeds:
            for of, method, condition in work:
                run = self._run(of, method, condition, seed, STOPS)
                if seed == seeds[0] or run.name not in ONE_SEED:
                    yield run

    def _run(self, name: str, method: Method, condition: str, seed: int, stops: Sequence[int]) -> Run:
        rounds = {
            "strategy": method.strategy,
            "seed": seed,
            "evaluate_every": _TESTED_EVERY,
            "local": method.settings,
            "aggregation": dict(method.aggregation),
        }
        arguments = {
            "data": self.data,
            "bundles": [self.bundles[one] for one in (method.shared, *method.own)],
            "fleet": self.fleet,
            "rounds": rounds,
            "stops": stops,
            "wrong": _WRONG[condition],
            "listening": LISTENING,
        }
        cost = stops[-1] * self.fleet["devices"] * (0.11 if method.own else 0.06) + 8 * len(stops)
        return Run(often(name, condition), seed, Call(visited, arguments), cost, f"{self.data} {seed}")


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
        fleet: what ``[fleet]`` has.
        stops: after which rounds the devices' models are judged; the last one is the last round.

    Returns:
        ``rounds``, ``devices``: as :func:`studies.fleets.simulated`, the devices after the last round.
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
            result = run(so_far, Path(folder), 0, Progress(), inputs=shared_inputs())
            judged[count] = _means(result.devices) | {"public": _on_public_set(so_far, Path(folder))}
    return {"rounds": [one | judged.get(one["round"], {}) for one in result.rounds], "devices": result.devices}


def _means(devices: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return means over the devices that have the figure: one of few clips may have none to judge by."""
    return {key: fmean(float(one[key]) for one in devices if one[key] is not None) for key in _JUDGED}


def _on_public_set(experiment: Experiment, folder: Path) -> float:
    """Return the accuracy on the public set, 0..1, of the shared model that a run left in its folder."""
    fleet = DealtFleet(experiment, folder, shared_inputs(), in_memory=True)
    work = Federation(experiment, fleet, folder).opened(experiment.rounds.count)
    task = TestRows(work, fleet.shards.public)
    with InThisProcess(fleet.setup, fleet.shards, shared_inputs()) as pool:
        return metrics(pool.run([task])[0])["accuracy"]


_ALL = 1_000_000  # clips of a label that a user takes into a round, at most


def shared_scores(
    data: Mapping[str, Any], bundles: Mapping[str, Path], users: int, rounds: int, public: int, rate: float, seed: int
) -> Figures:
    """Run rounds of one pass over all clips and the public set's labels.

    Returns:
        ``own`` and ``strangers``: accuracy of the users' models on own clips held out and on the test clips, 0..1, as
        means over the users.
    """
    section = DataSection(**data)
    drawn = np.random.default_rng([seed, 3]).integers(len(bundles), size=users)
    models = [list(bundles.values())[number] for number in drawn]
    experiment = ZeroShotExperiment(
        section,
        RoundsSection(
            count=rounds,
            strategy="zero_shot",
            seed=seed,
            evaluate_every=rounds,
            local={"epochs": 1, "learning_rate": rate, "augmented_copies": 0, "distill_epochs": 1},
        ),
        tuple(UserSection(model, section.labels) for model in models),
        ZeroShotSection(public=public, clips=(_ALL, _ALL), held_out=0.2, guard=False),
    )
    found = rounds_of(experiment)[-1]["users"]
    own, strangers = (float(np.mean([user[name] for user in found])) for name in ("own_after", "held_out_after"))
    return {"own": own / 100, "strangers": strangers / 100}
