"""Devices of unequal data: what dynamic selection saves, and what personal models gain (Xu et al. 2025).

As published, ten devices with 20, 40 or 60 people of their own share a model that was trained on others' clips before;
three of them pass once over their clips in a round. FedAvg draws the devices evenly, FedProx by their clips; dynamic
selection takes the place of either. Its saving is counted by the draws alone, then by training. Devices then fine-tune
what that came to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from operator import itemgetter
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from fleet_protocol.methods.setting import Value
from fleet_protocol.numbers.arrays import Doubles
from fleet_simulator.experiment.sections import (
    BaselinesSection,
    DataSection,
    Experiment,
    FleetSection,
    ModelSection,
    RoundsSection,
)
from studies.fleets import MEAN, Scale, keyword_clips
from studies.run import Call, Figures, Run
from studies.selection.clips import FRACTION, drawn
from studies.study import Cell, Figure, Picture, Results, Series, Summary, Table, measured, share
from studies.warm_start import from_warm_start, judged_start, warm_call

PEOPLE = {"public": 100, "strangers": 60, "devices": 340}
SHARES = (20.0,) * 5 + (40.0,) * 3 + (60.0,) * 2
START_RATE, START_PASSES = 0.02, 10
SEEDS, TUNING_SEEDS = (1, 2, 3), (100, 101)
TUNING_ROUNDS = 50
RATES = (0.01, 0.02, 0.05, 0.1)
PERSONAL_RATES = (0.001, 0.003, 0.01, 0.03)


@dataclass(frozen=True)
class Method:
    """How a shared model is trained."""

    strategy: str  # as the aggregator names it
    rounds: int  # of a run
    local: Mapping[str, Value] = field(default_factory=dict)  # settings of the local method
    switch: int = 0  # R of dynamic selection; 0: the strategy's own selection

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
    """A method with its own selection, and the same with dynamic selection in its place; what the paper has of both."""

    base: str  # method with its own selection
    rounds: int  # of both
    switch: int  # R
    total: float  # device time that dynamic selection saved in all rounds, %
    converged: tuple[int, int]  # rounds after which the paper calls either converged; 0: not
    saved: float  # time until that, %: of all rounds where the base did not converge

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
        call = warm_call(function, work, START_RATE, START_PASSES, self.scale.output / "warm")
        return Run(name, seed, call, cost_s, corpus=f"selection {seed}")

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


ALL = tuple(range(len(SHARES)))
SMOOTHED = 5  # tests in a row that an accuracy is the mean of: a single one is off by a point
BAND = 0.01  # how far from its end a curve may be once it has converged
GROUPS = {
    f"{people:.0f} people": tuple(device for device, share in enumerate(SHARES) if share == people)
    for people in (20.0, 40.0, 60.0)
}
_PEOPLE, _FEW = tuple(GROUPS), GROUPS["20 people"]
_PHASES = ("early", "late")


def smoothed(tests: Sequence[float]) -> Doubles:
    """Return the means of five tests in a row, float64 [tests - 4]."""
    return np.convolve(tests, np.full(SMOOTHED, 1 / SMOOTHED), "valid")


def converged(accuracies: Sequence[float]) -> int | None:
    """Return the round from which on the mean of five tests stays within a point of its end; None: in none of the rest.

    The last five rounds do not count: there, nothing tells a model that has converged from one that has not.
    """
    curve = smoothed(accuracies)
    outside = np.flatnonzero(np.abs(curve - curve[-1]) > BAND)
    number = (int(outside[-1]) + 1 if len(outside) else 0) + SMOOTHED
    return number if number <= len(accuracies) - SMOOTHED else None


def spent(figures: Figures, rounds: int) -> float:
    """Return how many clips all devices trained on in the first rounds, in thousands."""
    return float(sum(entry["samples"] for entry in figures["rounds"][:rounds])) / 1000


def reached(base: Sequence[float], other: Sequence[float]) -> tuple[int, int]:
    """Return the rounds after which two runs have the same accuracy: the lower one of what both have at the end."""
    curves = [smoothed(base), smoothed(other)]
    wanted = min(curve[-1] for curve in curves)
    first, second = (int(np.argmax(curve >= wanted)) + SMOOTHED for curve in curves)
    return first, second


def compared(base: Figures, dynamic: Figures, pair: Pair) -> dict[str, float]:
    """Return what dynamic selection saves in a pair of runs, in %, and what that is counted from.

    Saved is ``total``, of all rounds; ``converged``, to its convergence, of all rounds of the base, or where the
    paper's base converged, of those to its convergence; ``stopped``, by the base to that, of all its rounds; ``same``,
    to the same accuracy. Accuracies are those at the end, %; rounds those to convergence, or all; clips are thousands.
    """
    rounds = pair.rounds
    curves = [[entry["accuracy"] for entry in figures["rounds"][:rounds]] for figures in (base, dynamic)]
    ends = [converged(curve) for curve in curves]
    until = [end or rounds for end in ends]
    whole, same = spent(base, rounds), reached(*curves)
    before, after = (100 * float(smoothed(curve)[-1]) for curve in curves)
    return {
        "total": 100 * (1 - spent(dynamic, rounds) / whole),
        "converged": 100 * (1 - spent(dynamic, until[1]) / (spent(base, until[0]) if pair.converged[0] else whole)),
        "stopped": 100 * (1 - spent(base, until[0]) / whole),
        "same": 100 * (1 - spent(dynamic, same[1]) / spent(base, same[0])),
        "clips base": whole,
        "clips dynamic": spent(dynamic, rounds),
        "base": before,
        "dynamic": after,
        "apart": after - before,
        "rounds base": float(until[0]),
        "rounds dynamic": float(until[1]),
        "not converged": float(ends.count(None)),
    }


def of_pair(results: Results, pair: Pair) -> dict[str, dict[int, float]]:
    """Return :func:`compared`, figure by figure, by seed."""
    # Devices fine-tune the model of some runs: these show its rounds.
    dynamic = f"{pair.dynamic}, local" if pair.dynamic in SERVER_MODELS else pair.dynamic
    both = zip(results.seeds(pair.base), results.figures(pair.base), results.figures(dynamic), strict=True)
    found = {seed: compared(base, other, pair) for seed, base, other in both}
    return {name: {seed: one[name] for seed, one in found.items()} for name in next(iter(found.values()))}


def of_key(key: str, devices: Sequence[int] = ALL) -> Callable[[Figures], float]:
    """Return what takes the mean error of devices in % from a run; ``key``: of their accuracy, such as ``personal``."""
    return lambda figures: 100 * (1 - fmean(one[key] for one in figures["devices"] if one["device"] in devices))


def fewer(results: Results, name: str, devices: Sequence[int] = ALL) -> float:
    """Return by how much the mean error of personal models is below the shared model's, in %."""
    before, after = (fmean(map(of_key(key, devices), results.figures(name))) for key in ("global", "personal"))
    return round(100 * (1 - after / before), 1)


_TIME = ("base", "dynamic", "apart", "clips base", "clips dynamic", "total")
_CONVERGED = ("rounds base", "rounds dynamic", "converged")


def summary(results: Results) -> Summary:
    """Return device time by pairs of methods, personal models by devices' people, and the tuning's trials."""
    end = ["rounds, own selection", "dynamic", "saved, %", "published", "by stopping alone, %"]
    time = ["own selection, %", "dynamic, %", "apart, points", "1,000 clips, own selection", "dynamic"]
    time += ["saved, %", "published", "to the same accuracy, %"]
    tables = {
        "fleet": Table("The fleet", ["", "figure"], _fleet(results)),
        "time": Table("All rounds", ["", *time], _of_pairs(results, _TIME, "total", "same")),
        "convergence": Table("To convergence", ["", *end], _of_pairs(results, _CONVERGED, "saved", "stopped")),
        "draws": Table(
            "Saved by draws alone, %", ["", "until", "expected", "from", "to", "published"], _draws(results)
        ),
        "personal": Table("Errors, %", ["model", *_PEOPLE, "all", "fewer errors, %", "strangers"], _personal(results)),
        "gains": Table("Fewer errors, %", ["model", *_PEOPLE, "20 people: points over local"], _gains(results)),
        "tuning": Table("Accuracy by the rounds' rate, %", ["", *map(str, RATES), "chosen"], _tuning(results)),
        "tuning-personal": Table(
            "Accuracy by the rate of fine-tuning, %", ["", *map(str, PERSONAL_RATES), "chosen"], _fine_tuning(results)
        ),
    }
    shown = {"FedAvg": ("FedAvg", "FedAvg, R = 50"), "FedProx": ("FedProx 0.1", "FedProx 0.1, R = 30")}
    curves = [
        results.curve(label, run, share("accuracy"), panel)
        for panel, runs_ in shown.items()
        for label, run in zip(("own selection", "dynamic"), runs_, strict=True)
    ]
    errors = [
        _points(results, label, f"{model}, {personal}", key, model)
        for model in SERVER_MODELS
        for label, personal, key in (
            ("global", "local", "global"),
            ("personal", "local", "personal"),
            ("personal, by groups", "group balanced", "personal"),
        )
    ]
    pictures = {
        "rounds": Picture("lines", "Dynamic selection: accuracy on strangers", "round", "accuracy, %", curves),
        "personalisation": Picture(
            "points",
            "Personalisation: errors on a device's own clips; a mark is a device",
            "clips to train on",
            "error, %",
            errors,
        ),
    }
    return Summary(tables, pictures)


def _fleet(results: Results) -> list[list[Cell]]:
    clips = [device["clips"] for device in results.figures(f"{SERVER_MODELS[0]}, local")[0]["devices"]]
    open_ends = [ends for pair in PAIRS for ends in of_pair(results, pair)["not converged"].values()]
    hours = results.figures(DRAWN)[0]["hours"]
    return [
        ["clips of a device, least", min(clips)],
        ["clips of a device, most", max(clips)],
        ["start on strangers, %", results.cell(START, itemgetter("strangers"))],
        ["runs compared", 2 * len(open_ends)],
        ["not converged", round(sum(open_ends))],
        *(
            [f"hours of a round, {one}, over an even draw, %", round(100 * (hours[one] / hours["even"] - 1))]
            for one in _PHASES
        ),
    ]


def _label(pair: Pair) -> str:
    return f"{pair.dynamic} of {pair.rounds} rounds"


def _of_pairs(results: Results, keys: Sequence[str], published: str, last: str) -> list[list[Cell]]:
    """Return figures of every pair, what the paper has, and one figure more."""
    rows = []
    for pair in PAIRS:
        found = {key: measured(values) for key, values in of_pair(results, pair).items()}
        rows.append([_label(pair), *(found[key] for key in keys), round(getattr(pair, published), 1), found[last]])
    return rows


def _draws(results: Results) -> list[list[Cell]]:
    """Return what the draws alone save, and between which figures 95 % of all pairs of runs are."""
    saved = results.figures(DRAWN)[0]["saved"]
    rows: list[list[Cell]] = []
    for place, pair in enumerate(PAIRS):
        until = ("all rounds", f"round {pair.converged[1]} against {pair.converged[0] or pair.rounds}")
        for case, what, published in zip(
            saved[2 * place :], until, (round(pair.total, 1), round(pair.saved, 1)), strict=False
        ):
            expected = [round(100 * case["mean"], 1), round(100 * case["low"]), round(100 * case["high"])]
            rows.append([_label(pair), what, *expected, published])
    return rows


def _personal(results: Results) -> list[list[Cell]]:
    """Return errors of models with and without a fleet on own clips, by the devices' people, and on strangers."""

    def row(label: str, run: str, own: str, strangers: Figure, saved: Cell = None) -> list[Cell]:
        cells = [results.cell(run, of_key(own, devices), 1) for devices in (*GROUPS.values(), ALL)]
        return [label, *cells, saved, results.cell(run, strangers, 1)]

    first = f"{SERVER_MODELS[0]}, local"
    rows = [
        row("public only: the start", START, "start", lambda run: 100 * (1 - run["strangers"])),
        row("alone: the start, and own clips", first, "alone_own", of_key("alone_strangers")),
    ]
    for server in SERVER_MODELS:
        names = [f"{server}, {personal}" for personal in PERSONAL]
        rows.append(
            row(f"{server}: shared model", names[0], "global", lambda run: 100 * (1 - run["rounds"][-1]["accuracy"]))
        )
        rows += [
            row(name, name, "personal", of_key("listening_strangers"), fewer(results, name))
            for name in names
            if name in results.by_name
        ]
    return rows


def _gains(results: Results) -> list[list[Cell]]:
    """Return by how much personal models by groups are below the shared one, and below those of local fine-tuning."""
    rows: list[list[Cell]] = []
    for server in SERVER_MODELS:
        local, balanced = (f"{server}, {personal}" for personal in PUBLISHED_PERSONAL)
        saved = [fewer(results, balanced, devices) for devices in GROUPS.values()]
        rows.append([balanced, *saved, results.gain(balanced, local, of_key("personal", _FEW), 1)])
    return rows


def _tuning(results: Results) -> list[list[Cell]]:
    def ended(figures: Figures) -> float:
        return 100 * float(smoothed([entry["accuracy"] for entry in figures["rounds"]])[-1])

    return [
        [name, *(round(fmean(map(ended, results.figures(trial(name, rate)))), 1) for rate in RATES), chosen]
        for name, chosen in RATE.items()
    ]


def _fine_tuning(results: Results) -> list[list[Cell]]:
    rows: list[list[Cell]] = []
    for personal, chosen in PERSONAL_RATE.items():
        runs_of = (results.figures(trial(f"{SERVER_MODELS[0]}, {personal}", rate)) for rate in PERSONAL_RATES)
        rows.append([personal, *(round(100 - fmean(map(of_key("personal"), one)), 1) for one in runs_of), chosen])
    return rows


def _points(results: Results, label: str, run: str, key: str, panel: str) -> Series:
    devices = [entry for figures in results.figures(run) for entry in figures["devices"]]
    points = sorted((float(entry["clips"]), round(100 * (1 - entry[key]), 2)) for entry in devices)
    return Series(label, [x for x, _ in points], [y for _, y in points], panel=panel)
