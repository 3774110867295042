"""Speech recognition by CTC among ten devices of unequal data: the task of Xu et al. 2025 itself.

Devices' speakers are dealt 5 : 3 : 2 with 20, 40 and 60 of them, as published. FedAvg draws devices evenly, FedProx by
their data; dynamic selection takes the place of either. Devices then fine-tune what that came to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from statistics import fmean
from typing import Any

import numpy as np

from fleet_protocol.messages.rest import Choice
from fleet_protocol.numbers.arrays import Doubles
from studies.fleets import Scale
from studies.run import Call, Figures, Run
from studies.selection.clips import FRACTION, HOURS
from studies.selection.runs import PAIRS, SMOOTHED, smoothed
from studies.speech.calls import centrally, draws, shared_model, without_fleet
from studies.speech.data import Counts
from studies.speech.fleet import Method, Personal
from studies.speech.start import Pretraining
from studies.study import Cell, Figure, Picture, Results, Series, Summary, Table, measured, share

_AVERAGED = [pair for pair in PAIRS if pair.base == "FedAvg"]
SETTINGS = tuple((pair.switch, pair.rounds) for pair in _AVERAGED)  # R and rounds, as published
SAVED = {f"{pair.switch}/{pair.rounds}": round(pair.total, 1) for pair in _AVERAGED}  # of all rounds, published, %
MU = 0.1
BASELINES = {"FedAvg": "uniform", "FedProx": "size_proportional"}
DRAWN_FLEETS = 500
RATE, PERSONAL_RATE, ALONE_RATE = 0.0007, 0.0001, 0.0007
PERSONAL = Personal(PERSONAL_RATE, 5, {"groups": 3, "most_rounds": 5, "least_rounds": 1})
PASSES = 15  # without a fleet: as many as a device has in fifty rounds of three devices of ten
COUNTS = Counts(train=1, development=(40, 2), test=3)
PRETRAINING = Pretraining()
SEEDS = (1, 2, 3)
SIZES = {"published hours": HOURS, "equal speakers": tuple(float(one) for one in COUNTS.devices)}
PERSONALISED = f"FedAvg, dynamic, {SETTINGS[0][0]}/{SETTINGS[0][1]}"


def runs(scale: Scale) -> list[Run]:
    """Return a run of each method and one of devices alone for every seed, and one of draws without training."""
    shared: dict[str, Any] = {
        "archive": scale.data("gsc_v2_logmel_jpg.zip"),
        "folder": scale.output / "bundles",
        "counts": COUNTS,
        "pretraining": PRETRAINING,
    }
    found = [_draws(name, sizes) for name, sizes in SIZES.items()]
    for seed in SEEDS:
        given = shared | {"seed": seed}
        without = given | {"rate": ALONE_RATE, "passes": PASSES}
        found.append(Run("alone", seed, Call(without_fleet, without), 80, f"speech {seed}"))
        if seed == SEEDS[0] or scale.full:
            found.append(Run("central", seed, Call(centrally, without | {"rate": RATE}), 80, f"speech {seed}"))
        for setting in SETTINGS if scale.full else SETTINGS[:1]:
            found += _fleets(given, setting)
    return found


def _fleets(given: Mapping[str, Any], setting: tuple[int, int]) -> list[Run]:
    """Return the runs of one deal by all four methods."""
    (switch, rounds), seed, found = setting, given["seed"], list[Run]()
    for baseline in BASELINES:
        for name, dynamic in ((baseline, False), (f"{baseline}, dynamic", True)):
            arguments = {
                **given,
                "method": method_of(baseline, switch if dynamic else 0),
                "rounds": rounds,
                "personal": PERSONAL if dynamic and baseline == "FedAvg" and setting == SETTINGS[0] else None,
            }
            name = f"{name}, {switch}/{rounds}"
            found.append(Run(name, seed, Call(shared_model, arguments), 1.6 * rounds, f"speech {seed}"))
    return found


def method_of(baseline: str, switch_round: int = 0, rate: float = RATE) -> Method:
    """Return a baseline with its own selection; or dynamic selection, where there is an R."""
    settings: dict[str, Any] = {"fraction": FRACTION}
    choice = Choice(BASELINES[baseline], settings)
    if switch_round:
        choice = Choice("dynamic", settings | {"switch_round": switch_round})
    return Method(choice, rate) if baseline == "FedAvg" else Method(choice, rate, proximal=MU, by_size=False)


def _setting(setting: tuple[int, int]) -> str:
    return "{}/{}".format(*setting)


def _draws(name: str, sizes: Sequence[float]) -> Run:
    arguments = {
        "sizes": [100 * size for size in sizes],
        "settings": SETTINGS,
        "fraction": FRACTION,
        "published": SAVED,
        "seeds": DRAWN_FLEETS,
    }
    return Run(f"draws, {name}", 0, Call(draws, arguments), 30)


def smooth(figures: Figures) -> Doubles:
    """Return the error rate on the development set, means of five rounds; the first is that of rounds 1 to 5."""
    return smoothed([entry["development"] for entry in figures["rounds"]])


def development(figures: Figures) -> float:
    """Return the error rate on the development set after the last rounds; that of a model without rounds."""
    return float(smooth(figures)[-1] if "rounds" in figures else figures["development"])


def reached(figures: Figures, wanted: float) -> int:
    """Return after how many rounds an error rate was first reached."""
    return int(np.argmax(smooth(figures) <= wanted)) + SMOOTHED


def converged(figures: Figures) -> int:
    """Return after how many rounds the error rate is within three per cent of its end."""
    return reached(figures, 1.03 * development(figures))


def speech(figures: Figures, rounds: int | None = None) -> float:
    """Return the minutes of speech that rounds trained on: the paper's training time, without a machine in it."""
    return sum(float(entry["seconds"]) for entry in figures["rounds"][:rounds]) / 60


def saved(base: Figures, other: Figures) -> dict[str, float]:
    """Return what a method saves of another's speech, in per cent.

    Returns:
        ``all``: all rounds against all; ``stopped``: until convergence against all; ``converged``: each until its own
        convergence; ``same``: both until the worse one's error rate at the end.
    """
    worse = max(development(base), development(other))
    until = speech(other, converged(other))
    shares = {
        "all": speech(other) / speech(base),
        "stopped": until / speech(base),
        "converged": until / speech(base, converged(base)),
        "same": speech(other, reached(other, worse)) / speech(base, reached(base, worse)),
    }
    return {name: 100 * (1 - share) for name, share in shares.items()}


def own(model: str, group: int | None = None) -> Callable[[Figures], float]:
    """Return what takes a model's mean error rate on the tests of the devices of a group by speakers; None: of all."""

    def mean(figures: Figures) -> float:
        sizes = sorted({entry["utterances"] for entry in figures["devices"]})
        return fmean(entry[model] for entry in figures["devices"] if group in (None, sizes.index(entry["utterances"])))

    return mean


def fewer(results: Results, model: str, group: int | None = None, of: str = "global") -> float:
    """Return by how much a model's mean error rate is below another's, in % of that one."""
    after, before = (fmean(map(own(one, group), results.figures(PERSONALISED))) for one in (model, of))
    return round(100 * (1 - after / before), 1)


def summary(results: Results) -> Summary:
    """Return errors of global models and of devices', what dynamic selection saves, and the curves."""
    errors = ["", "server's test", "server's development", "devices' own tests", "processor s"]
    time = ["", "all rounds, min", "rounds to convergence", "min to convergence"]
    saving = [
        "",
        "all rounds",
        "to convergence, of all",
        "both to convergence",
        "to the same error",
        "error apart, points",
    ]
    by_draws = ["", "saved, %", "deviation", "as much as published: fleets, %", "against size, %", "deviation"]
    devices = ["", *_MODELS, "fewer errors than global, %", "deal by deal, %"]
    tables = {
        "errors": Table("Global models: character error rates, %", errors, _errors(results)),
        "time": Table("Speech trained on", time, _time(results)),
        "saved": Table("Speech saved, %", saving, _savings(results)),
        "draws": Table(f"Saved by draws alone, {DRAWN_FLEETS} fleets", by_draws, _drawn(results)),
        "devices": Table("Devices' own tests: character error rates, %", devices, _devices(results)),
        "facts": Table("FedAvg with dynamic selection", ["", "figure"], _facts(results)),
    }
    first = _setting(SETTINGS[0])
    curves = [
        results.curve(label, f"{baseline}{dynamic}, {first}", share("development"), baseline)
        for baseline in BASELINES
        for label, dynamic in (("own selection", ""), ("dynamic", ", dynamic"))
    ]
    tested = [entry for figures in results.figures(PERSONALISED) for entry in figures["devices"]]
    marks = [
        Series(label, [entry["utterances"] for entry in tested], [round(100 * entry[model], 2) for entry in tested])
        for label, model in (("global", "global"), ("traditional", "local"), ("group-balanced", "group_balanced"))
    ]
    label = "character error rate, %"
    pictures = {
        "rounds": Picture(
            "lines", "Speech recognition: errors on the server's development speakers", "round", label, curves
        ),
        "personalisation": Picture(
            "points",
            "Speech recognition: errors on a device's own test; a mark is a device",
            "utterances of a pass",
            label,
            marks,
        ),
    }
    return Summary(tables, pictures)


# By the name in the table, of which runs which error rate.
_MODELS = {
    "start": ("alone", "start"),
    "alone": ("alone", "alone"),
    "global": (PERSONALISED, "global"),
    "traditional": (PERSONALISED, "local"),
    "group-balanced": (PERSONALISED, "group_balanced"),
    "listens with": (PERSONALISED, "listening"),
}


def _pairs(results: Results) -> list[tuple[str, str]]:
    """Return the names of the baselines' runs, and of those with dynamic selection."""
    names = ((base, _setting(setting)) for base in BASELINES for setting in SETTINGS)
    return [(f"{base}, {one}", f"{base}, dynamic, {one}") for base, one in names if f"{base}, {one}" in results.by_name]


def _errors(results: Results) -> list[list[Cell]]:
    def row(label: str, name: str, model: str, seconds: Cell) -> list[Cell]:
        server = [results.cell(name, itemgetter("server_test")), results.cell(name, development)]
        return [label, *server, results.cell(name, own(model)), seconds]

    def trained(name: str) -> Cell:
        return results.cell(name, lambda one: sum(entry["processor_s"] for entry in one["rounds"]), 1)

    alone, central = (results.cell(name, itemgetter("processor_s"), 1) for name in ("alone", "central"))
    return [
        row("start (public speech only)", "alone", "start", None),
        [f"alone, {PASSES} passes", None, None, results.cell("alone", own("alone")), alone],
        row(f"all recordings in one place, {PASSES} passes", "central", "global", central),
        *(row(name, name, "global", trained(name)) for pair in _pairs(results) for name in pair),
    ]


def _time(results: Results) -> list[list[Cell]]:
    figures: tuple[Figure, ...] = (speech, converged, lambda one: speech(one, converged(one)))
    return [[name, *(results.cell(name, figure, 1) for figure in figures)] for pair in _pairs(results) for name in pair]


def _savings(results: Results) -> list[list[Cell]]:
    """Return what dynamic selection saves of each baseline, and what stopping that at its convergence saves."""
    rows: list[list[Cell]] = []
    for base, other in _pairs(results):
        for name in (base, other):
            pairs = zip(results.seeds(base), results.figures(base), results.figures(name), strict=True)
            found = {seed: saved(one, two) for seed, one, two in pairs}
            cells = {key: measured({seed: of[key] for seed, of in found.items()}) for key in next(iter(found.values()))}
            only = cells if name == other else {"stopped": cells["stopped"]}
            apart = results.gain(other, base, itemgetter("server_test")) if name == other else None
            rows.append([name, *(only.get(key) for key in cells), apart])
    return rows


def _drawn(results: Results) -> list[list[Cell]]:
    rows: list[list[Cell]] = []
    for who in SIZES:
        for setting, one in results.figures(f"draws, {who}")[0].items():
            mean, spread, mean_prox, spread_prox = (
                round(one[key], 1) for key in ("mean", "spread", "mean_prox", "spread_prox")
            )
            rows.append([f"{who}, {setting}", mean, spread, round(100 * one["share"]), mean_prox, spread_prox])
    return rows


def _devices(results: Results) -> list[list[Cell]]:
    def deal(figures: Figures, group: int | None) -> float:
        return 1 - own("group_balanced", group)(figures) / own("global", group)(figures)

    rows: list[list[Cell]] = []
    for label, group in (*((f"{people} speakers", place) for place, people in enumerate((20, 40, 60))), ("all", None)):
        cells = [results.cell(name, own(model, group)) for name, model in _MODELS.values()]
        by_deal = results.cell(PERSONALISED, partial(deal, group=group))
        rows.append([label, *cells, fewer(results, "group_balanced", group), by_deal])
    return rows


def _facts(results: Results) -> list[list[Cell]]:
    def heard(model: str) -> Cell:
        return results.cell(PERSONALISED, own(model))

    pairs = [
        (ours["listening"], before["alone"])
        for fleet, alone in zip(results.figures(PERSONALISED), results.figures("alone"), strict=True)
        for ours, before in zip(fleet["devices"], alone["devices"], strict=True)
    ]
    minutes = [seconds / 60 for seconds in results.figures("alone")[0]["seconds"]]
    return [
        ["speech of a device, least, min", round(min(minutes), 1)],
        ["speech of a device, most, min", round(max(minutes), 1)],
        ["what devices listen with, server's test, %", heard("strangers")],
        ["devices", len(pairs)],
        ["devices worse on their own test than alone", sum(ours > alone for ours, alone in pairs)],
        ["fewer errors by traditional fine-tuning, %", fewer(results, "local")],
        ["group-balanced over traditional, 20 speakers, points", results.cell(PERSONALISED, _apart)],
        ["global, phrases trained on, %", heard("global_heard")],
        ["group-balanced, phrases trained on, %", heard("group_balanced_heard")],
        ["fewer errors on phrases trained on, %", fewer(results, "group_balanced_heard", of="global_heard")],
    ]


def _apart(figures: Figures) -> float:
    return own("group_balanced", 0)(figures) - own("local", 0)(figures)
