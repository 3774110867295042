"""Which parts earn their place in the recommended plan: each exchanged or left out, tuned alike and at equal compute.

No paper has this table. The plan is that of fleets that share a network: FedAvg, the screened mean, rehearsal by
public labels, personalisation. A variant is judged by the models that its devices listen with.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from statistics import fmean

from fleet_protocol.methods.setting import Value
from fleet_simulator.experiment.faults import FaultsSection
from fleet_simulator.experiment.sections import BaselinesSection, Experiment, FleetSection, ModelSection, RoundsSection
from studies.fleets import Scale, keyword_clips
from studies.run import Figures, Run
from studies.study import (
    WITHOUT,
    Cell,
    Picture,
    Results,
    Summary,
    Table,
    listened,
    own_accuracies,
    own_and_strangers,
    series,
    worse_than_alone,
)

SEEDS, TUNING_SEEDS = (1, 2, 3), (100, 101)
ATTACKERS = FaultsSection(0.2, "sign_flip", 4.0)
SCREENED: dict[str, Value] = {"name": "screened_mean"}
LOCAL: dict[str, Value] = {"name": "local"}
FINE_TUNING = 20  # ten passes over own clips, and as many public ones
BATCHES = 3  # of a pass over some forty clips, which are what a method counts that counts steps


@dataclass(frozen=True)
class Trial:
    """What is tuned."""

    rate: float
    passes: int

    def __str__(self) -> str:
        return f"{self.rate:g}, {self.passes}"


TRIALS = [Trial(rate, passes) for passes, rate in product((2, 4), (0.05, 0.1, 0.2, 0.3))]


@dataclass(frozen=True)
class Variant:
    """The plan with one part exchanged."""

    strategy: str = "fedavg"  # its local method
    local: Mapping[str, Value] = field(default_factory=dict)  # settings of that
    aggregation: Mapping[str, Value] = field(default_factory=lambda: SCREENED)  # rule and settings
    selection: Mapping[str, Value] = field(default_factory=dict)  # which devices take part; empty: all
    # what devices make of the result; empty: nothing
    personal: Mapping[str, Value] = field(default_factory=lambda: LOCAL)
    # clips trained on for each clip of a device in a pass: rehearsal takes a public one for each, and two models take
    # each twice
    each_pass: float = 2.0
    each_round: float = 0.0  # the same, beyond the passes of a round
    first: float = 0.0  # the same, before a device's first round

    def rounds(self, passes: int, budget: float) -> int:
        """Return how many rounds train on ``budget`` clips for each clip of a device."""
        left = budget - self.first - (FINE_TUNING if self.personal else 0.0)
        share = float(self.selection.get("fraction", 1.0))
        return max(1, round(left / share / (self.each_pass * passes + self.each_round)))


PLAN = "the plan"
VARIANTS = {
    PLAN: Variant(),
    "a trimmed mean": Variant(aggregation={"name": "trimmed_mean", "trim": 0.2}),
    "a weighted mean": Variant(aggregation={"name": "weighted_mean"}),
    "LPA": Variant(aggregation={"name": "lpa"}),
    "rehearsal by the fleet's opinion": Variant(local={"rehearsal_by": "opinion"}),
    "no rehearsal": Variant(local={"rehearsal": 0.0}, each_pass=1.0),
    "no personalisation": Variant(personal={}),
    "user-invariant targets": Variant("fedkws_ui", {"adaptive": False, "private_epochs": 2}, each_round=2.0),
    # Large devices take more steps, of fuller batches.
    "adaptive local steps": Variant(
        "fedkws_ui", {"smoothing": 0.0, "adversarial": 0.0, "private_epochs": 0}, each_pass=2.35
    ),
    "mutual learning, warmed up": Variant("fedmlac", each_pass=4.0, first=30.0),
    "three in ten devices, drawn evenly": Variant(selection={"name": "uniform", "fraction": 0.3}),
    # In the end it draws the large devices, most of the time.
    "three in ten devices, drawn dynamically": Variant(selection={"name": "dynamic", "fraction": 0.3}, each_pass=2.2),
}
RULES = (PLAN, "a trimmed mean", "a weighted mean", "LPA")
# The best of the tuning trials: learning rate and passes in a round.
CHOSEN = {
    PLAN: Trial(0.2, 2),
    "a trimmed mean": Trial(0.3, 2),
    "a weighted mean": Trial(0.3, 2),
    "LPA": Trial(0.2, 2),
    "rehearsal by the fleet's opinion": Trial(0.3, 4),
    "no rehearsal": Trial(0.3, 4),
    "no personalisation": Trial(0.3, 2),
    "user-invariant targets": Trial(0.3, 2),
    "adaptive local steps": Trial(0.2, 2),
    "mutual learning, warmed up": Trial(0.2, 4),
    "three in ten devices, drawn evenly": Trial(0.1, 2),
    "three in ten devices, drawn dynamically": Trial(0.1, 2),
}


@dataclass(frozen=True)
class Size:
    """How large a fleet is, and how long it trains: as long as the plan takes for so many rounds of two passes."""

    devices: int
    speakers: int
    rounds: int

    @property
    def budget(self) -> float:
        """Clips to train on for each clip of a device."""
        return 4.0 * self.rounds + FINE_TUNING


def runs(scale: Scale) -> list[Run]:
    """Return the tuning trials, the runs with what they chose, and those of four rules with attackers."""
    model = ModelSection(scale.bundles(["crnn_tiny"], "--batch", "16", "--capacity", "12")["crnn_tiny"])
    small, large = Size(15, 112, 60 if scale.full else 30), Size(50, 375, 120 if scale.full else 40)
    # Processor seconds of a round.
    tuning, other, with_baselines = 0.13, 0.45, 1.1
    found = [
        Run(f"{name}, {trial}", seed, _experiment(scale, model, small, variant, trial, seed), tuning * small.rounds)
        for seed in TUNING_SEEDS
        for name, variant in VARIANTS.items()
        for trial in TRIALS
    ]
    for name, variant in VARIANTS.items():
        for seed in SEEDS:
            work = _experiment(scale, model, large, variant, CHOSEN[name], seed, baselines=name == PLAN)
            found.append(Run(name, seed, work, (with_baselines if name == PLAN else other) * large.rounds))
    for name in RULES:
        for seed in SEEDS:
            work = _experiment(scale, model, large, VARIANTS[name], CHOSEN[name], seed, ATTACKERS)
            found.append(Run(f"{name}, attackers", seed, work, other * large.rounds))
    return found


def _experiment(
    scale: Scale,
    model: ModelSection,
    size: Size,
    variant: Variant,
    trial: Trial,
    seed: int,
    faults: FaultsSection | None = None,
    *,
    baselines: bool = False,
) -> Experiment:
    steps = {"steps": BATCHES * trial.passes} if variant.strategy == "fedkws_ui" else {"epochs": trial.passes}
    count = variant.rounds(trial.passes, size.budget)
    rounds = RoundsSection(
        count=count,
        strategy=variant.strategy,
        seed=seed,
        evaluate_every=0,
        local={**steps, "learning_rate": trial.rate, **variant.local},
        aggregation=dict(variant.aggregation),
        selection=dict(variant.selection),
    )
    return Experiment(
        keyword_clips(scale, speakers=size.speakers, test=0.3, public=0.1),
        FleetSection(devices=size.devices, size_spread=0.45, held_out=0.4),
        model,
        rounds,
        faults or FaultsSection(),
        personalisation=dict(variant.personal),
        baselines=BaselinesSection(passes=2 * size.rounds) if baselines else None,
    )


def summary(results: Results) -> Summary:
    """Return what each part is worth, what four rules lose to attackers, and the tuning trials."""
    judged = ["own, %", "strangers, %", "worse"]
    parts = ["", "rate, passes", "rounds", "1,000 clips", *judged, "own, apart", "strangers, apart"]
    rules = [[name, *_judged(results, f"{name}, attackers")] for name in RULES]
    tables = {
        "fleet": Table("The fleet", ["", "figure"], _fleet(results)),
        "parts": Table("The parts, at equal compute", parts, _parts(results)),
        "attacked": Table("A fifth of the devices attacking", ["", *judged], rules),
        "tuning": Table("Trials by rate and passes, %", ["", *map(str, TRIALS), "chosen"], _tuning(results)),
    }
    models = {**WITHOUT, PLAN: "listening"}
    cells = {label: listened(results, PLAN, kind) for label, kind in models.items()}
    bars = [series(on, [(label, pair[place]) for label, pair in cells.items()]) for place, on in enumerate(judged[:2])]
    title = "What a device recognises with a fleet and without"
    return Summary(tables, {"gain": Picture("bars", title, "", "accuracy, %", bars)})


def _judged(results: Results, name: str, kind: str = "listening") -> list[Cell]:
    """Return a kind of model's accuracy on own and on strangers' clips, and devices worse than alone."""
    pairs = zip(results.figures(name), results.figures(PLAN), strict=True)
    worse = [worse_than_alone(figures, kind, own_accuracies(plan, "alone")) for figures, plan in pairs]
    return [*listened(results, name, kind), None if kind == "alone" else round(fmean(worse), 1)]


def _fleet(results: Results) -> list[list[Cell]]:
    figures = results.figures(PLAN)
    clips = [int(entry["clips"]) for entry in figures[0]["devices"]]
    pairs = [zip(own_accuracies(one, "alone"), own_accuracies(one), strict=True) for one in figures]
    lost = max(100 * (alone - ours) for of_seed in pairs for alone, ours in of_seed)
    return [
        ["clips of a device, least", min(clips)],
        ["clips of a device, most", max(clips)],
        ["clips of a device, mean", round(fmean(clips))],
        ["own clips that a device loses with the plan against alone, most, points", round(lost, 1)],
    ]


def _parts(results: Results) -> list[list[Cell]]:
    rows = [[label, *[None] * 3, *_judged(results, PLAN, kind), None, None] for label, kind in WITHOUT.items()]
    for name in VARIANTS:
        apart = (
            [results.gain(name, PLAN, partial(_one, place=place), 1) for place in (0, 1)]
            if name != PLAN
            else [None, None]
        )
        rounds = len(results.figures(name)[0]["rounds"])
        rows.append([name, str(CHOSEN[name]), rounds, _trained(results, name), *_judged(results, name), *apart])
        if name == PLAN:
            rows.append(["the plan, guarded", *[None] * 3, *_judged(results, name, "guarded"), None, None])
    return rows


def _one(figures: Figures, place: int) -> float:
    return own_and_strangers(figures)[place]


def _trained(results: Results, name: str) -> int:
    """Return on how many thousand clips all devices were trained; a simulated second of a round is a thousand."""
    fine_tuning = FINE_TUNING if VARIANTS[name].personal else 0

    def thousands(figures: Figures) -> float:
        in_rounds = sum(entry["samples"] for entry in figures["rounds"]) / 1000
        return float(in_rounds + fine_tuning * sum(entry["clips"] for entry in figures["devices"]) / 1000)

    return round(fmean(map(thousands, results.figures(name))))


def _tuning(results: Results) -> list[list[Cell]]:
    """Return the means of own and strangers' clips."""
    rows: list[list[Cell]] = []
    for name, chosen in CHOSEN.items():
        runs_of = (results.figures(f"{name}, {trial}") for trial in TRIALS)
        scores = [fmean(fmean(own_and_strangers(figures)) for figures in found) for found in runs_of]
        rows.append([name, *(round(score, 1) for score in scores), str(chosen)])
    return rows
