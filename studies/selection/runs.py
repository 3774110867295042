"""The runs of the table of selection: methods with their own selection and with dynamic selection; personal models.

As published, ten devices with 20, 40 or 60 people of their own share a model that was trained on others' clips before;
three of them pass once over their clips in a round.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from fleet_protocol.setting import Value
from fleet_simulator.experiment.sections import (
    BaselinesSection,
    DataSection,
    Experiment,
    FleetSection,
    ModelSection,
    RoundsSection,
)
from studies.keywords import keyword_clips
from studies.published import MEAN
from studies.run import Call, Figures, Run
from studies.scale import Scale
from studies.selection.clips import FRACTION, drawn
from studies.warm_start import from_warm_start, judged_start

PEOPLE = {"public": 100, "strangers": 60, "devices": 340}
SHARES = (20.0,) * 5 + (40.0,) * 3 + (60.0,) * 2
START_RATE, START_PASSES = 0.02, 10
SEEDS, TUNING_SEEDS = (1, 2, 3), (100, 101)
TUNING_ROUNDS = 50
RATES = (0.01, 0.02, 0.05, 0.1)
PERSONAL_RATES = (0.001, 0.003, 0.01, 0.03)


@dataclass(frozen=True)
class Method:
    """How a shared model is trained.

    Attributes:
        strategy: as the aggregator names it.
        rounds: of a run.
        local: settings of the local method.
        switch: R of dynamic selection; 0: the strategy's own selection.
    """

    strategy: str
    rounds: int
    local: Mapping[str, Value] = field(default_factory=dict)
    switch: int = 0

    @property
    def selection(self) -> dict[str, Value]:
        """Who takes part, three in ten."""
        if self.switch:
            return {"name": "dynamic", "fraction": FRACTION, "switch_round": self.switch}
        return {"name": "size_proportional" if self.strategy == "fedprox" else "uniform", "fraction": FRACTION}


_PROX = {mu: {"proximal": mu} for mu in (0.1, 0.01)}
METHODS = {
    "FedAvg": Method("fedavg", 80),  # its first 50 and 60 rounds are the runs of 50 and 60
    "FedAvg, R = 30": Method("fedavg", 50, switch=30),
    "FedAvg, R = 40": Method("fedavg", 60, switch=40),
    "FedAvg, R = 50": Method("fedavg", 80, switch=50),
    **{f"FedProx {mu}": Method("fedprox", 50, _PROX[mu]) for mu in _PROX},
    **{f"FedProx {mu}, R = 30": Method("fedprox", 50, _PROX[mu], switch=30) for mu in _PROX},
}
# As the paper's experiment has it: five rounds of every group, and own clips alone.
LOCAL: dict[str, Value] = {"name": "local", "labels": False}
BALANCED: dict[str, Value] = {"name": "group_balanced", "labels": False, "most_rounds": 5, "least_rounds": 5}
PERSONAL: dict[str, dict[str, Value]] = {"local": LOCAL, "group balanced": BALANCED, "local, labels": {"name": "local"}}
PUBLISHED_PERSONAL = ("local", "group balanced")
SERVER_MODELS = ("FedAvg, R = 30", "FedProx 0.01, R = 30")  # which the paper's devices fine-tune
# What the tuning chose.
RATE = {"FedAvg": 0.1, "FedAvg, R = 30": 0.1, "FedProx 0.01": 0.1, "FedProx 0.01, R = 30": 0.1}
PERSONAL_RATE = {"local": 0.03, "group balanced": 0.03, "local, labels": 0.01}
ALONE = BaselinesSection(passes=15, learning_rate=0.05)  # a device is in three of ten rounds
DRAWN, START = "clips drawn", "start"


@dataclass(frozen=True)
class Pair:
    """A method with its own selection, and the same with dynamic selection in its place; what the paper has of both.

    Attributes:
        base: method with its own selection.
        rounds: of both.
        switch: R.
        total: device time that dynamic selection saved in all rounds, %.
        converged: rounds after which the paper calls either converged; 0: not.
        saved: time until that, %: of all rounds where the base did not converge.
    """

    base: str
    rounds: int
    switch: int
    total: float
    converged: tuple[int, int]
    saved: float

    @property
    def dynamic(self) -> str:
        """The method with dynamic selection."""
        return f"{self.base}, R = {self.switch}"

    @property
    def cases(self) -> list[tuple[str, int, int, int]]:
        """What :func:`drawn` is asked: all rounds, and to the published convergence."""
        against = "by size" if self.base.startswith("FedProx") else "even"
        before, after = self.converged
        return [(against, self.rounds, self.switch, self.rounds), (against, before or self.rounds, self.switch, after)]


# Their tables 3 and 4.
PAIRS = (
    Pair("FedAvg", 50, 30, 11.81, (0, 43), 28.38),
    Pair("FedAvg", 60, 40, 12.23, (0, 52), 27.08),
    Pair("FedAvg", 80, 50, 7.22, (0, 68), 24.02),
    Pair("FedProx 0.1", 50, 30, 28.58, (43, 43), 26.06),
    Pair("FedProx 0.01", 50, 30, 22.22, (45, 43), 26.81),
)


def tuned_as(name: str) -> str:
    """Return the method whose learning rate a method takes: R = 30 and mu = 0.01 were tuned."""
    return name.replace("R = 40", "R = 30").replace("R = 50", "R = 30").replace("0.1", "0.01")


def trial(name: str, rate: float) -> str:
    """Return the name of a tuning trial's runs."""
    return f"{name}, rate {rate:g}"


def runs(scale: Scale) -> list[Run]:
    """Return the tuning trials, a run of every method, and those of the models that devices make of two of them."""
    bundle, found = (
        scale.bundles(["cnn2"])["cnn2"],
        [Run(DRAWN, 0, Call(drawn, {"cases": [case for pair in PAIRS for case in pair.cases]}), cost_s=2)],
    )
    making = _Making(keyword_clips(scale, **_split()), bundle, scale)
    for seed, rate, name in product(TUNING_SEEDS, RATES, RATE):
        alone = rate if name == "FedAvg" else 0.0
        found.append(making.run(name, seed, rate, label=trial(name, rate), alone=alone, rounds=TUNING_ROUNDS))
    for seed, rate, personal in product(TUNING_SEEDS, PERSONAL_RATES, PERSONAL):
        name, how = SERVER_MODELS[0], PERSONAL[personal] | {"learning_rate": rate}
        found.append(making.run(name, seed, RATE[name], how, label=trial(f"{name}, {personal}", rate)))
    for seed in range(1, 11) if scale.full else SEEDS:
        found.append(making.start(seed))
        for name in METHODS:
            if name not in SERVER_MODELS:
                found.append(making.run(name, seed, RATE[tuned_as(name)]))
                continue
            for personal, how in PERSONAL.items():
                if name != SERVER_MODELS[0] and personal not in PUBLISHED_PERSONAL:
                    continue
                alone = ALONE.learning_rate if name == SERVER_MODELS[0] and personal == "local" else 0.0
                how = how | {"learning_rate": PERSONAL_RATE[personal]}
                found.append(
                    making.run(name, seed, RATE[tuned_as(name)], how, label=f"{name}, {personal}", alone=alone)
                )
    return found


def _split() -> dict[str, Any]:
    people = sum(PEOPLE.values())
    return {"speakers": people, "test": PEOPLE["strangers"] / people, "public": PEOPLE["public"] / people}


@dataclass(frozen=True)
class _Making:
    """Makes runs of one corpus and one bundle."""

    data: DataSection
    bundle: Path
    scale: Scale

    def run(
        self,
        name: str,
        seed: int,
        rate: float,
        personal: Mapping[str, Value] | None = None,
        *,
        label: str = "",
        alone: float = 0.0,
        rounds: int = 0,
    ) -> Run:
        """Return a run of a method; ``alone``: learning rate of the models without a fleet, if they are wanted."""
        method = METHODS[name]
        rounds = rounds or method.rounds
        work = self._experiment(method, rounds, seed, rate, personal or {}, alone)
        return self._of(label or name, seed, from_warm_start, work, cost_s=rounds / 8)

    def start(self, seed: int) -> Run:
        """Return the run that judges what all methods begin with."""
        return self._of(START, seed, judged_start, self._experiment(METHODS["FedAvg"], 1, seed, 0.01, {}, 0.0), 4)

    def _of(self, name: str, seed: int, function: Callable[..., Figures], work: Experiment, cost_s: float) -> Run:
        arguments = {
            "experiment": work,
            "bundle": self.bundle,
            "learning_rate": START_RATE,
            "epochs": START_PASSES,
            "folder": self.scale.output / "warm",
        }
        return Run(name, seed, Call(function, arguments), cost_s, corpus=f"selection {seed}")

    def _experiment(
        self, method: Method, rounds: int, seed: int, rate: float, personal: Mapping[str, Value], alone: float
    ) -> Experiment:
        local: dict[str, Value] = {"epochs": 1, "learning_rate": rate, "rehearsal": 0.0, **method.local}
        # The paper averages plainly for FedProx, and by clips for FedAvg.
        rule = MEAN | {"by_size": method.strategy == "fedavg"}
        return Experiment(
            self.data,
            FleetSection(devices=10, shares=SHARES, held_out=0.4),
            ModelSection(self.bundle),
            RoundsSection(
                count=rounds,
                strategy=method.strategy,
                seed=seed,
                local=local,
                aggregation=rule,
                selection=method.selection,
            ),
            personalisation=dict(personal),
            baselines=BaselinesSection(passes=ALONE.passes, learning_rate=alone) if alone else None,
        )
