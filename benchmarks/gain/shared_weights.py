"""What devices listen with after rounds of the strategies that share a model, beside what they would have without any.

Fifty devices with four or five people each share ten words of Speech Commands, as log-mel pictures; a tenth of the
people are public. Of every device's clips 20 % decide which model it listens with and other 20 % evaluate that;
strangers are speakers that no device has. The devices, the rounds and the fine-tuning are the product's own code.

The run of the plan tells what the devices of its fleet would have without one, and what their guard makes of the
choice; so every figure is computed once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

from aggregator_server.schemas import RoundRequest
from aggregator_server.strategies.registry import FleetKind, recommended
from fleet_protocol.messages import Choice
from fleet_protocol.setting import Value
from fleet_simulator.experiment.sections import BaselinesSection, Experiment, FleetSection, ModelSection, RoundsSection
from studies.fleets import Scale, keyword_clips
from studies.run import Figures, Run
from studies.study import WITHOUT, own_accuracies, own_and_strangers, worse_than_alone

# The rate: at most three points behind the best of each strategy that studies/ablation/table.py tunes.
ROUNDS, EPOCHS, RATE = 60, 2, 0.2
PLUG_IN, OTHER = "crnn_tiny", "crnn_lite"
LOCAL: dict[str, Value] = {"name": "local"}


@dataclass(frozen=True)
class Method:
    """How a fleet runs its rounds."""

    strategy: str  # Name of the strategy
    # Settings of its local method; passes and rate are those of all methods, unless they are here
    local: Mapping[str, Value] = field(default_factory=dict)
    # The rule and its settings; empty: the strategy's own
    aggregation: Mapping[str, Value] = field(default_factory=dict)
    # Whether what the devices would have without a fleet is computed, and what their guard chooses
    baselines: bool = False


@dataclass(frozen=True)
class SharingFleet:
    """Devices that share a network's weights."""

    name: str  # In the results
    own: str  # Architecture of the devices' own bundles
    methods: Mapping[str, Method]  # By the names of their rows; one of them has the baselines
    guarded: str  # Name of the row of what the guard makes of that one's result

    @property
    def judge(self) -> str:
        """The method whose run has the baselines."""
        return next(name for name, method in self.methods.items() if method.baselines)


def _plan() -> Method:
    """Return what a round does for which nothing is named, in a fleet that shares a network."""
    request = recommended(RoundRequest(), FleetKind(embeddings=False, shares_network=True))
    rule = request.aggregation
    assert isinstance(rule, Choice)
    return Method(request.strategy, request.settings, {"name": rule.name, **rule.settings}, baselines=True)


FLEETS = (
    SharingFleet(
        "fifty devices",
        PLUG_IN,
        {
            "recommended, without the guard": _plan(),
            "fedavg": Method("fedavg"),
            "fedprox": Method("fedprox"),
            "fedopt": Method("fedopt"),
            "fedmmd": Method("fedmmd"),
            "fedmlac": Method("fedmlac"),
            # Three batches are a pass over some forty clips.
            "fedkws_ui": Method("fedkws_ui", {"steps": 3 * EPOCHS}),
        },
        guarded="recommended",
    ),
    SharingFleet(
        "fifty devices, another network",
        OTHER,
        # At the others' rate this network learns less than alone (docs/methods.md).
        {"fedmlac": Method("fedmlac", {"learning_rate": 0.1}, baselines=True)},
        guarded="fedmlac, guarded",
    ),
)


def experiment(fleet: SharingFleet, method: Method, bundles: Mapping[str, Path], scale: Scale, seed: int) -> Experiment:
    """Return a method's run."""
    passes: dict[str, Value] = {} if "steps" in method.local else {"epochs": EPOCHS}
    rounds = RoundsSection(
        count=ROUNDS,
        strategy=method.strategy,
        seed=seed,
        evaluate_every=0,
        local={**passes, "learning_rate": RATE, **method.local},
        aggregation=dict(method.aggregation),
    )
    return Experiment(
        keyword_clips(scale, speakers=375, test=0.3, public=0.1),
        FleetSection(devices=50, held_out=0.4),
        ModelSection(bundles[PLUG_IN], () if fleet.own == PLUG_IN else (bundles[fleet.own],)),
        rounds,
        personalisation=dict(LOCAL),
        baselines=BaselinesSection(passes=ROUNDS * EPOCHS) if method.baselines else None,
    )


def runs(scale: Scale, seeds: Sequence[int]) -> list[Run]:
    """Return all runs of all fleets, the longest first."""
    bundles = scale.bundles([PLUG_IN, OTHER], "--batch", "16", "--capacity", "12")
    found = [
        Run(
            f"{fleet.name}: {name}",
            seed,
            experiment(fleet, method, bundles, scale, seed),
            cost_s=150.0 if method.baselines else 60.0,
        )
        for seed in seeds
        for fleet in FLEETS
        for name, method in fleet.methods.items()
    ]
    return sorted(found, key=lambda run: -run.cost_s)


def rows(fleet: SharingFleet, found: Mapping[str, Sequence[Figures]]) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield a fleet's rows: the plan's name, and means over seeds of ``own``, ``strangers``, ``worse_than_alone``."""
    judge = found[fleet.judge]
    alone = [own_accuracies(figures, "alone") for figures in judge]
    for name, kind in WITHOUT.items():
        yield name, _row(judge, kind, alone)
    for name in fleet.methods:
        yield name, _row(found[name], "listening", alone)
        if name == fleet.judge:
            yield fleet.guarded, _row(judge, "guarded", alone)


def _row(found: Sequence[Figures], kind: str, alone: Sequence[Sequence[float]]) -> dict[str, float]:
    """Return means over seeds of a kind of model."""
    own, strangers = zip(*(own_and_strangers(figures, kind) for figures in found), strict=True)
    worse = [worse_than_alone(figures, kind, before) for figures, before in zip(found, alone, strict=True)]
    return {"own": fmean(own), "strangers": fmean(strangers), "worse_than_alone": fmean(worse)}
