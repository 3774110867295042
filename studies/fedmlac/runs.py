"""FedMLAC (Bai et al. 2025, tables 4, 6 and 7, figures 2 and 3) against FedAvg, FedProx and FedOPT, judged twice.

As the paper judges, by the mean of the local models; and by the model that a device listens with, which is fine-tuned
by the same settings for every method. The baselines train the paper's Base network; FedMLAC has it for the devices' own
model, and Lite for the plug-in. Every method gets the same clips, devices and visits, and as many trials.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from fleet_simulator.experiment.faults import FaultsSection
from fleet_simulator.experiment.sections import BaselinesSection, Experiment, FleetSection, ModelSection, RoundsSection
from studies.fedmlac.calls import OftenVisited, shared_scores
from studies.fedmlac.methods import (
    CLEAN,
    FEDMLAC,
    FIVE,
    FLEETS_OF_FIVE,
    HALF_WRONG,
    LISTENING,
    NO_LPA,
    NOISE,
    SCORES,
    TUNED_ON,
    WARM_UP,
    WRONG,
    Method,
    fedavg,
    fedmlac,
    fedopt,
    some,
)
from studies.fedmlac.tables import summary as summary
from studies.fleets import KEYWORDS, LPA, Scale, keyword_clips
from studies.run import Call, Run

SEEDS, TUNING_SEEDS = (1, 2), (100,)
MOST_PASSES = 100  # of models without a fleet
TEST, PUBLIC = 0.25, 0.05  # shares of the speakers
HELD_OUT = 0.2  # of a device's clips
PUBLIC_OF_A_WORD = 18  # of zero_shot
SCORES_RATE = 0.05

METHODS: Mapping[str, Method] = {
    "FedAvg": fedavg(0.04),
    "FedProx": Method("fedprox", {"learning_rate": 0.04, "proximal": 0.1}),
    "FedOPT": fedopt(0.04, 0.01),
    FEDMLAC: fedmlac(0.16, 0.6),
}
"""As the trials chose them that docs/studies/fedmlac.md names; the trials took as long as all that is reported."""


@dataclass(frozen=True)
class Condition:
    """What the methods are compared under."""

    wrong: float = 0.0  # share of the devices' labels that are wrong
    noise: Mapping[str, float | str] = field(default_factory=dict)  # keys of ``[data]``
    methods: tuple[str, ...] = ("FedAvg", FEDMLAC)  # by name, those that are run


CONDITIONS: Mapping[str, Condition] = {
    CLEAN: Condition(methods=tuple(METHODS)),
    WRONG[0]: Condition(0.3),
    HALF_WRONG: Condition(0.5, methods=tuple(METHODS)),
    NOISE[0]: Condition(noise={"snr_db": 10.0}),
    NOISE[1]: Condition(noise={"snr_db": 10.0, "noisy": "all"}),
}


@dataclass(frozen=True)
class Size:
    """How large a fleet is, and how often its devices are visited."""

    devices: int
    rounds: int
    speakers: int | None
    share: float = 1.0


SOME_DEVICES, IN_SOME = 0.3, ("FedAvg", "FedOPT", FEDMLAC)
SMALL, FULL = Size(10, 20, 240), Size(1600, 5000, None, 0.2)


def _bundles(scale: Scale) -> dict[str, Path]:
    return scale.bundles(FIVE, "--batch", "16", "--capacity", "12")


def experiment(scale: Scale, method: Method, condition: Condition, seed: int, size: Size, *, alone: bool) -> Experiment:
    """Return a run."""
    bundles = _bundles(scale)
    warm_up = int(WARM_UP["warm_up"])
    rounds = RoundsSection(
        count=size.rounds,
        strategy=method.strategy,
        seed=seed,
        evaluate_every=max(1, size.rounds // 10),
        local=method.settings,
        aggregation=dict(method.aggregation),
        selection={"name": "uniform", "fraction": size.share} if size.share < 1 else {},
    )
    return Experiment(
        keyword_clips(scale, speakers=size.speakers, test=TEST, public=PUBLIC, **condition.noise),
        FleetSection(devices=size.devices, held_out=HELD_OUT, local_models=True),
        ModelSection(bundles[method.shared], tuple(bundles[name] for name in method.own)),
        rounds,
        FaultsSection(wrong_labels=condition.wrong),
        personalisation=dict(LISTENING),
        baselines=BaselinesSection(passes=min(size.rounds + warm_up, MOST_PASSES)) if alone else None,
    )


def runs(scale: Scale) -> list[Run]:
    """Return every method's runs under every condition, with fewer devices in a round, in parts, and of many visits."""
    size = FULL if scale.full else SMALL
    often = None if scale.full else _often(scale)
    found = list(often.trials(TUNING_SEEDS)) if often else []
    for seed in SEEDS:
        for name, condition in CONDITIONS.items():
            alone = name in TUNED_ON
            for of in condition.methods:
                judge = alone and of == FEDMLAC
                found.append(_run(scale, f"{of}, {name}", METHODS[of], condition, seed, size, alone=judge))
        for name in TUNED_ON:
            found += _parts(scale, name, seed, size)
            found += [] if scale.full else _some(scale, name, seed, size)
        found.append(_scores(scale, SCORES, SCORES_RATE, seed, size))
    return [*found, *often.reported(SEEDS)] if often else found


def _often(scale: Scale) -> OftenVisited:
    """Return the fleet of the other runs, with the same clips on the same devices."""
    data = {"source": "log_mel", "path": scale.data("gsc_v2_logmel_jpg.zip"), "labels": KEYWORDS}
    data |= {"speakers": SMALL.speakers, "test": TEST, "public": PUBLIC}
    fleet = {"devices": SMALL.devices, "held_out": HELD_OUT, "local_models": True}
    return OftenVisited(data, fleet, _bundles(scale))


def _parts(scale: Scale, name: str, seed: int, size: Size) -> Iterator[Run]:
    """Yield what takes FedMLAC apart, and the fleets of several architectures."""
    condition, mutual = CONDITIONS[name], METHODS[FEDMLAC]
    five = replace(mutual, own=FIVE)
    parts = {FEDMLAC: five}
    if name == CLEAN:
        parts[NO_LPA] = replace(five, aggregation=LPA | {"v_h": 0.0, "v_l": 0.0})
    for label, method in parts.items():
        alone = label == FEDMLAC
        yield _run(scale, f"{label}, {FLEETS_OF_FIVE}, {name}", method, condition, seed, size, alone=alone)


def _some(scale: Scale, name: str, seed: int, size: Size) -> Iterator[Run]:
    """Yield rounds of some of the devices, which are visited as often as where a round is of all."""
    size = replace(size, share=SOME_DEVICES, rounds=round(size.rounds / SOME_DEVICES))
    for of in IN_SOME:
        yield _run(scale, some(of, name), METHODS[of], CONDITIONS[name], seed, size)


def _run(
    scale: Scale, name: str, method: Method, condition: Condition, seed: int, size: Size, *, alone: bool = False
) -> Run:
    visits = size.rounds * size.devices * size.share
    cost = visits * (0.19 if method.own else 0.1) + 8 + 50 * alone
    work = experiment(scale, method, condition, seed, size, alone=alone)
    return Run(name, seed, work, cost_s=cost)


def _scores(scale: Scale, name: str, rate: float, seed: int, size: Size) -> Run:
    """Return a run of ``zero_shot`` on as many clips; its public set has as many, dealt evenly over the words."""
    path = scale.data("gsc_v2_logmel_jpg.zip")
    data = {"source": "log_mel", "path": path, "labels": KEYWORDS, "speakers": size.speakers, "test": TEST}
    arguments = {
        "data": data,
        "bundles": _bundles(scale),
        "users": size.devices,
        "rounds": size.rounds,
        "public": PUBLIC_OF_A_WORD * (8 if size.speakers is None else 1),
        "rate": rate,
        "seed": seed,
    }
    return Run(name, seed, Call(shared_scores, arguments), cost_s=0.15 * size.devices * size.rounds)
