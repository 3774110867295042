"""FedKWS-UI (Li et al. 2022): user-invariant keyword spotting against FedAvg, FedProx, FedMMD and FedOPT.

At the small scale two fleets have twelve classes. One, of 60 devices, trains a narrow DSCNN from a warm start, with few
and with the paper's local steps; the other, of 120, the head behind the pretrained front end ``base``. The DSCNN with
35 classes and the Transformer are played once. The full scale has the paper's four networks and two tasks.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from statistics import fmean

import numpy as np

from fleet_protocol.bundle.ready_bundles import find_bundle
from fleet_protocol.methods.setting import Value
from fleet_simulator.data.log_mel import pictures
from fleet_simulator.data.recording_layouts import NOBODY
from fleet_simulator.experiment.sections import (
    BaselinesSection,
    DataSection,
    Experiment,
    FleetSection,
    ModelSection,
    RoundsSection,
)
from studies.fleets import KEYWORDS, MEAN, Scale
from studies.run import Figures, Run
from studies.study import WITHOUT, Cell, Picture, Results, Summary, Table, listened, measured, own_and_strangers, share
from studies.warm_start import from_warm_start, warm_call

ARCHIVE, TEST_SET, BACKGROUND = "gsc_v2_logmel_jpg.zip", "gsc_v2_test", "gsc_background_noise"
_OTHERS = (
    "backward bed bird cat dog eight five follow forward four happy house learn marvin nine one seven sheila six three "
    "tree two visual wow zero"
)
TASKS = {12: (*KEYWORDS, "unknown", "_background_noise_"), 35: (*KEYWORDS, *_OTHERS.split())}
SEEDS = (11, 12)  # settings were chosen with seed 100
DSCNN, BASE, FEW_STEPS = "DSCNN, 12 steps", "base, 50 steps", "base, 5 steps"
# The paper's local steps, with all methods at one rate; 0.01 is the lowest that the paper tries.
MANY_STEPS = {rate: f"DSCNN, 50 steps, rate {rate:g}" for rate in (0.003, 0.01)}
MANY_WORDS, TRANSFORMER = "DSCNN, 35 classes", "Transformer, 12 classes"
OURS, BY_CLIPS = "FedKWS-UI", "FedAvg, weighted by clips"
PRIVATE = ("ALO alone", OURS, "FedKWS-UI, lambda 0.1")  # these train a private model as well
CHOSEN = {"FedAvg": 0.003, "FedOPT": 0.003, OURS: 0.01}  # rates of the trials with 48 steps, with seed 100
BEST_FEDERATED = 0.8639  # the best of any compared method with 12 classes, section 5 of the paper


@dataclass(frozen=True)
class Method:
    """How one of the compared methods trains; all take as many steps and average plainly, as in the paper."""

    strategy: str
    local: Mapping[str, Value]
    server: Mapping[str, Value] = field(default_factory=dict)


_NO_ALO: dict[str, Value] = {"smoothing": 0.0, "adversarial": 0.0, "private_epochs": 0}
METHODS = {
    "FedAvg": Method("fedavg", {}),
    "FedProx": Method("fedprox", {"proximal": 0.01}),
    "FedMMD (logits)": Method("fedmmd", {"discrepancy": 0.01}),
    "FedOPT": Method("fedopt", {}, {"server_learning_rate": 0.003}),
    "ALT alone": Method("fedkws_ui", _NO_ALO),
    "ALO alone": Method("fedkws_ui", {"adaptive": False}),
    "FedKWS-UI": Method("fedkws_ui", {}),
    "FedKWS-UI, lambda 0": Method("fedkws_ui", {"adversarial": 0.0, "private_epochs": 0}),
    "FedKWS-UI, lambda 0.1": Method("fedkws_ui", {"adversarial": 0.1}),
    BY_CLIPS: Method("fedavg", {}, {"by_size": True}),
}
TUNED = tuple(METHODS)[:7]
# By network: its name in the paper; at the full scale the rate of FedAvg, of FedOPT, of FedKWS-UI and its parts.
NETWORKS = {
    "dscnn_172": ("DSCNN", 0.003, 0.005, 0.003),
    "mhattrnn": ("MHAttRNN", 0.01, 0.02, 0.02),
    "resnet15": ("ResNet", 0.01, 0.02, 0.01),
    "transformer": ("Transformer", 0.003, 0.003, 0.005),
}
Tuned = Mapping[str, Mapping[str, float]]
"""Settings of every method that is run, those of the server (``server_...``) among them."""


def _at(rate: float, **others: float) -> dict[str, float]:
    return {"learning_rate": rate} | others


# Chosen with seed 100. FedKWS-UI without one of its terms, or with a large one, has the rate of the whole.
ON_DSCNN: Tuned = {
    "FedAvg": _at(0.003),
    "FedProx": _at(0.003),
    "FedMMD (logits)": _at(0.01),
    "FedOPT": _at(0.01),
    "ALT alone": _at(0.01),
    "ALO alone": _at(0.01),
    "FedKWS-UI": _at(0.01),
    BY_CLIPS: _at(0.003),
}
ON_BASE: Tuned = {
    "FedAvg": _at(0.1),
    "FedProx": _at(0.1, proximal=0.001),
    "FedMMD (logits)": _at(0.01),
    "FedOPT": _at(0.03, server_learning_rate=0.03),
    "ALT alone": _at(0.1),
    "ALO alone": _at(0.01),
    "FedKWS-UI": _at(0.01),
    "FedKWS-UI, lambda 0": _at(0.01),
    "FedKWS-UI, lambda 0.1": _at(0.01),
    BY_CLIPS: _at(0.1),
}
ON_BASE_FEW: Tuned = {"FedAvg": _at(0.3), "FedKWS-UI": _at(0.3)}
_OF_ONE_SEED = ("FedProx", "FedMMD (logits)")
# With 35 classes as with twelve; the paper shows ALT alone with 35.
ON_MANY_WORDS: Tuned = {name: ON_DSCNN[name] for name in ("FedAvg", "ALT alone", OURS)}
ON_TRANSFORMER: Tuned = {"FedAvg": _at(0.003), OURS: _at(0.03)}


@dataclass(frozen=True)
class WarmStart:
    """How the public speakers' clips train the model before the first round."""

    learning_rate: float
    epochs: int


@dataclass(frozen=True)
class Setting:
    """A fleet and how its rounds are played; methods differ in nothing else than :class:`Method`, and in the rate."""

    data: DataSection  # the clips
    fleet: FleetSection  # the devices
    bundle: Path  # the shared model
    rounds: int  # how many
    at_once: int  # devices in each
    steps: int  # E, which a device takes
    tuned: Tuned  # settings of every method that is run here
    start: WarmStart | None = None  # of the model; None: the bundle's weights
    private_epochs: int = 16  # passes of FedKWS-UI's private model over the device's clips in a visit, at most
    baselines: BaselinesSection | None = None  # what devices have without a fleet
    cost_s: float = 60.0  # of a FedAvg run, about
    evaluate_every: int = 3  # rounds from one test to the next
    once: Collection[str] = ()  # methods that are played with the first seed alone
    seeds: tuple[int, ...] = SEEDS  # of the others

    def experiment(self, name: str, seed: int) -> Experiment:
        """Return a method's experiment."""
        method, tuned = METHODS[name], self.tuned[name]
        server: dict[str, Value] = {key: value for key, value in tuned.items() if key.startswith("server_")}
        local: dict[str, Value] = {"steps": self.steps, "rehearsal": 0.0, "restrict": False}
        if method.strategy == "fedkws_ui":
            local["private_epochs"] = self.private_epochs
        local |= dict(method.local) | {key: value for key, value in tuned.items() if key not in server}
        rounds = RoundsSection(
            count=self.rounds,
            strategy=method.strategy,
            seed=seed,
            evaluate_every=self.evaluate_every,
            local=local,
            aggregation=MEAN | {"by_size": False} | dict(method.server) | server,
            selection={"name": "uniform", "fraction": self.at_once / self.fleet.devices},
        )
        # Where methods are played with one seed for the time that they take, these are, too.
        judged = name == "FedAvg" and (seed == SEEDS[0] or not self.once)
        baselines = self.baselines if judged else None
        return Experiment(self.data, self.fleet, ModelSection(self.bundle), rounds, baselines=baselines)


def runs(scale: Scale) -> list[Run]:
    """Return a run of every setting, method and seed."""
    settings = _published(scale) if scale.full else _small(scale)
    return [
        _run(scale, title, setting, method, seed)
        for title, setting in settings.items()
        for seed in setting.seeds
        for method in setting.tuned
        if seed == SEEDS[0] or method not in setting.once
    ]


def _run(scale: Scale, title: str, setting: Setting, method: str, seed: int) -> Run:
    experiment = setting.experiment(method, seed)
    cost_s = setting.cost_s * (2.0 if method in PRIVATE else 1.0)
    name, corpus = f"{title}: {method}", f"{setting.data} {seed}"
    if setting.start is None:
        return Run(name, seed, experiment, cost_s, corpus)
    start = setting.start
    call = warm_call(from_warm_start, experiment, start.learning_rate, start.epochs, scale.output / "warm-starts")
    return Run(name, seed, call, cost_s, corpus)


def _small(scale: Scale) -> dict[str, Setting]:
    """Return the DSCNN's settings, those behind the front end, and what is played once."""
    fleet = FleetSection(devices=120, held_out=0.2, size_spread=1.0)
    labels = (*KEYWORDS, "_unknown_", "_silence_")
    base = Setting(
        data=DataSection(
            "speech_commands",
            scale.data(TEST_SET),
            labels,
            test=0.3,
            public=0.05,
            variants=2,
            background=scale.data(BACKGROUND),
        ),
        fleet=fleet,
        bundle=find_bundle("base"),
        rounds=60,
        at_once=20,
        steps=50,
        tuned=ON_BASE,
        baselines=BaselinesSection(passes=120, learning_rate=0.05),
        cost_s=12.0,
        evaluate_every=1,
        once=_OF_ONE_SEED,
    )
    few = replace(base, steps=5, tuned=ON_BASE_FEW, baselines=None, cost_s=4.0, once=())
    return _on_pictures(scale, replace(fleet, devices=60)) | {BASE: base, FEW_STEPS: few}


def _on_pictures(scale: Scale, fleet: FleetSection) -> dict[str, Setting]:
    """Return the settings of the fleet that trains on log-mel pictures, from a warm start."""
    narrow = ("--width", "0.15", "--batch", "16", "--capacity")
    dscnn = Setting(
        data=DataSection(
            "log_mel", scale.data(ARCHIVE), TASKS[12], test=150 / 700, public=250 / 700, speakers=700, variants=2
        ),
        fleet=fleet,
        bundle=scale.bundles(["dscnn_172"], *narrow, "12")["dscnn_172"],
        start=WarmStart(0.01, 14),
        rounds=60,
        at_once=10,
        steps=12,
        tuned=ON_DSCNN,
        private_epochs=2,
        baselines=BaselinesSection(passes=4, learning_rate=0.01),
        cost_s=45.0,
        evaluate_every=3,
        once=_OF_ONE_SEED,
    )
    many_steps = {
        title: replace(
            dscnn,
            rounds=12,
            steps=50,
            tuned={name: _at(rate) for name in ("FedAvg", "FedOPT", OURS)},
            baselines=None,
            cost_s=30.0,
            evaluate_every=1,
            once=(),
            seeds=(*SEEDS, 13),
        )
        for rate, title in MANY_STEPS.items()
    }
    transformer = scale.bundles(["transformer"], "--width", "0.3", "--batch", "16", "--capacity", "12")["transformer"]
    shorter = replace(dscnn, baselines=None, once=tuple(METHODS))
    return {
        DSCNN: dscnn,
        **many_steps,
        MANY_WORDS: replace(
            shorter,
            data=replace(dscnn.data, labels=TASKS[35]),
            tuned=ON_MANY_WORDS,
            bundle=scale.bundles(["dscnn_172"], *narrow, "35")["dscnn_172"],
        ),
        TRANSFORMER: replace(shorter, bundle=transformer, start=WarmStart(0.03, 14), tuned=ON_TRANSFORMER),
    }


def _published(scale: Scale) -> dict[str, Setting]:
    """Return the paper's networks and tasks: one speaker one device, 300 rounds from random weights."""
    archive = scale.data(ARCHIVE)
    speakers = len({entry.speaker for entry in pictures(archive)} - {NOBODY})
    fleet = FleetSection(devices=speakers - round(0.05 * speakers))
    bundles = scale.bundles(list(NETWORKS), "--features", "kws40", "--capacity", "36")
    return {
        f"{classes} classes, {title}": Setting(
            data=DataSection("log_mel", archive, labels, test=0.05, variants=4),
            fleet=fleet,
            bundle=bundles[name],
            rounds=300,
            at_once=20,
            steps=50,
            cost_s=40_000.0,
            tuned=_published_rates(*rates),
        )
        for classes, labels in TASKS.items()
        for name, (title, *rates) in NETWORKS.items()
    }


def _published_rates(rate: float, server: float, parts: float) -> Tuned:
    """Return the rates of the compared methods; FedProx and FedMMD have FedAvg's."""
    found = {}
    for name in TUNED:
        own = parts if METHODS[name].strategy == "fedkws_ui" else rate
        found[name] = _at(server if name == "FedOPT" else own)
    return found


def accuracy(figures: Figures) -> float:
    """Return the mean accuracy of the last five tests, in %, as the paper has it; 0 where training diverged."""
    tested = _tests(figures)
    return 100 * fmean(value for _, value in tested[-5:]) if tested and "diverged" not in figures else 0.0


def keyword_errors(figures: Figures) -> tuple[float, float]:
    """Return false accept and false reject, in %, means over the ten keywords, which come first among the classes.

    Accepting falsely is naming a keyword where another class was said, rejecting falsely is missing it (section 5).
    """
    confusion = np.asarray(figures["rounds"][-1]["confusion"])
    words = np.arange(len(KEYWORDS))
    right, said, named = np.diag(confusion)[words], confusion.sum(axis=1)[words], confusion.sum(axis=0)[words]
    accept, reject = (named - right) / (confusion.sum() - said), 1 - right / said
    return 100 * float(accept.mean()), 100 * float(reject.mean())


def swing(figures: Figures) -> float:
    """Return the mean change of the accuracy from one test to the next in the second half of the rounds, in points."""
    tested = [value for _, value in _tests(figures)]
    return 100 * fmean(abs(b - a) for a, b in pairwise(tested[len(tested) // 2 :])) if len(tested) > 2 else 0.0


def _tests(figures: Figures) -> list[tuple[int, float]]:
    """Return the rounds that ended with a test, and the shared model's accuracy there, 0..1."""
    return [(entry["round"], float(entry["accuracy"])) for entry in figures["rounds"] if "accuracy" in entry]


def summary(results: Results) -> Summary:
    """Return a table for each setting, what methods are ahead by, and the curves."""
    methods: dict[str, list[str]] = {}
    for name in results.by_name:
        title, method = name.split(": ")
        methods.setdefault(title, []).append(method)
    columns = ["method", "accuracy, %", "from test to test, points", "FA, %", "FR, %", *_OWN, "private model, %"]
    tables = {
        re.sub("[^a-z0-9]+", "-", title.lower()): Table(
            title, [*columns, "1,000 clips"], _rows(results, title, of_title)
        )
        for title, of_title in methods.items()
    }
    sizes = ["setting", "seeds", "clips of a device", "least", "most", "visits"]
    fleets = [row for title in methods if (row := _fleet(results, title))]
    tables["fleets"] = Table("Devices", sizes, fleets)
    tables["leads"] = Table(
        "Leads in accuracy, seed by seed", ["setting", "method", "over", "points"], _leads(results, methods)
    )
    tables["first-seed"] = Table("The first seed", ["setting", "model", *_OWN], _first_seed(results, methods))
    reached = ["setting", "method", "rounds, least", "most", "seeds"]
    tables["reached"] = Table(f"Rounds to {100 * BEST_FEDERATED:g} %", reached, _reached(results))
    curves = [
        results.curve(method, f"{title}: {method}", share("accuracy"), title)
        for title in (DSCNN, BASE)
        for method in ("FedAvg", "FedMMD (logits)", "FedOPT", OURS)
    ]
    title = "FedKWS-UI against its baselines: accuracy on people whom no device has heard"
    return Summary(tables, {"rounds": Picture("lines", title, "round", "accuracy, %", curves)})


_OWN = ("own clips, %", "strangers, %")


def _rows(results: Results, title: str, methods: Sequence[str]) -> list[list[Cell]]:
    """Return a setting's methods, the warm start, and the models that a device would have without a fleet."""
    rows: list[list[Cell]] = []
    for method in methods:
        name = f"{title}: {method}"
        found = [figures for figures in results.figures(name) if "diverged" not in figures]
        if not found:
            rows.append([method, "diverged", *[None] * 7])
            continue
        errors = [round(fmean(values), 2) for values in zip(*map(keyword_errors, found), strict=True)]
        known = [100 * entry["own_trained"] for one in found for entry in one["devices"] if method in PRIVATE]
        clips = fmean(sum(entry["samples"] for entry in one["rounds"]) for one in found) / 1000
        cells = [results.cell(name, accuracy, 1), results.cell(name, swing, 1), *errors, *listened(results, name)]
        rows.append([method, *cells, round(fmean(known), 1) if known else None, round(clips)])
    first = f"{title}: FedAvg"
    start = results.cell(first, lambda one: one.get("start", {}).get("accuracy"))
    if start:
        rows.append(["warm start", start, *[None] * 7])
    alone = {label: listened(results, first, kind) for label, kind in WITHOUT.items()}
    return rows + [[label, *[None] * 4, *cells, None, None] for label, cells in alone.items() if cells[0]]


def _fleet(results: Results, title: str) -> list[Cell]:
    """Return how many clips the devices train on, and how often a device is visited; nothing where it diverged."""
    name = f"{title}: FedAvg"
    figures = [one for one in results.figures(name) if one["devices"]]
    sizes = [device["clips"] for one in figures for device in one["devices"]]
    if not sizes:
        return []
    visits = fmean(sum(entry["devices"] for entry in one["rounds"]) / len(one["devices"]) for one in figures)
    seeds = ", ".join(map(str, results.seeds(name)))
    return [title, seeds, round(fmean(sizes)), min(sizes), max(sizes), round(visits, 1)]


def _leads(results: Results, methods: Mapping[str, Sequence[str]]) -> list[list[Cell]]:
    """Return what FedKWS-UI is ahead of the methods with as many seeds, and others of FedAvg, seed by seed."""
    rows: list[list[Cell]] = []
    for title, of_title in methods.items():
        seeds = results.seeds(f"{title}: {OURS}")
        pairs = [(OURS, other) for other in of_title if other != OURS and results.seeds(f"{title}: {other}") == seeds]
        pairs += [(other, "FedAvg") for other in of_title if other not in (OURS, "FedAvg") and other[:7] != OURS[:7]]
        rows += [
            [title, *pair, results.gain(f"{title}: {pair[0]}", f"{title}: {pair[1]}", accuracy, 1)] for pair in pairs
        ]
    low, high = MANY_STEPS.values()
    if high not in methods:
        return rows
    ours, theirs = (results.values(f"{high}: {method}", accuracy) for method in (OURS, "FedAvg"))
    planned = {seed: (ours[seed] or 0.0) - (theirs[seed] or 0.0) for seed in SEEDS}
    rows.append([f"{high}, planned seeds", OURS, "FedAvg", measured(planned)])
    for method, rate in CHOSEN.items():
        own = f"{MANY_STEPS[CHOSEN[OURS]]}: {OURS}", f"{MANY_STEPS[rate]}: {method}"
        if method != OURS:
            rows.append(["DSCNN, 50 steps, rates of the trials", OURS, method, results.gain(*own, accuracy, 1)])
        of_rate = results.gain(f"{low}: {method}", f"{high}: {method}", accuracy, 1)
        rows.append(["DSCNN, 50 steps", f"{method}, rate 0.003", f"{method}, rate 0.01", of_rate])
    return rows


def _first_seed(results: Results, titles: Collection[str]) -> list[list[Cell]]:
    """Return what more passes over the public clips are worth against the fleet, where a run judged that."""
    rows: list[list[Cell]] = []
    for title in titles:
        first, ours = results.figures(f"{title}: FedAvg")[0], results.figures(f"{title}: {OURS}")[0]
        if ours["devices"] and "public_own" in first["devices"][0]:
            for model, pair in (("public only", own_and_strangers(first, "public")), (OURS, own_and_strangers(ours))):
                rows.append([title, model, *(round(value, 1) for value in pair)])
    return rows


def _reached(results: Results) -> list[list[Cell]]:
    """Return after how many rounds models behind the front end first had the paper's best federated accuracy."""
    rows: list[list[Cell]] = []
    for method in ("FedAvg", OURS):
        tests = map(_tests, results.figures(f"{BASE}: {method}"))
        found = [[number for number, value in of_seed if value >= BEST_FEDERATED][:1] for of_seed in tests]
        reached = [number for of_seed in found for number in of_seed]
        if reached:
            rows.append([BASE, method, min(reached), max(reached), f"{len(reached)} of {len(found)}"])
    return rows
