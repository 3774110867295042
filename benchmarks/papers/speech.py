"""Speech recognition by CTC among ten devices of unequal data: the task of Xu et al. 2025 itself.

Devices' speakers are dealt 5 : 3 : 2 with 20, 40 and 60 of them, as published. FedAvg draws devices evenly, FedProx by
their data; dynamic selection takes the place of either. Devices then fine-tune what that came to.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from statistics import fmean
from typing import Any

import numpy as np

from benchmarks.papers.report import (
    SMOOTHED,
    Claim,
    Results,
    claims_table,
    markdown_table,
    mean_and_spread,
    smoothed,
)
from benchmarks.papers.run import Call, Figures, Run
from benchmarks.papers.scale import Scale
from benchmarks.papers.selection_clips import FRACTION, HOURS
from benchmarks.papers.selection_personal import FEWER, PUBLISHED
from benchmarks.papers.selection_runs import PAIRS
from benchmarks.papers.speech_data import Counts
from benchmarks.papers.speech_fleet import Method, Personal
from benchmarks.papers.speech_runs import centrally, draws, shared_model, without_fleet
from benchmarks.papers.speech_start import Pretraining
from fleet_protocol.arrays import Doubles
from fleet_protocol.messages import Choice

TITLE = "Speech recognition by CTC among devices of unequal data (Xu et al. 2025)"
PAPER = "Xu et al. 2025, CTC"

_AVERAGED = [pair for pair in PAIRS if pair.base == "FedAvg"]
SETTINGS = tuple((pair.switch, pair.rounds) for pair in _AVERAGED)  # R and rounds, as published
MU = 0.1
_PROX = next(pair for pair in PAIRS if pair.base == f"FedProx {MU:g}")
RATE, PERSONAL_RATE = 0.0007, 0.0003
PERSONAL = Personal(PERSONAL_RATE, 3, {"groups": 3, "most_rounds": 5, "least_rounds": 1})
ALONE_PASSES = 8  # at most as many as a device has in its fine-tuning
CENTRAL_PASSES = 15  # three devices of ten in each of fifty rounds
COUNTS = Counts(train=2, development=(40, 3))
PRETRAINING = Pretraining()
NETWORK = ("--features", "utterance", "--width", "0.25", "--batch", "8")
SEEDS = (1, 2)
DRAWN_FLEETS = 500
# What the paper saves, in per cent: of all rounds, and to convergence.
SAVED = {f"{pair.switch}/{pair.rounds}": round(pair.total, 1) for pair in _AVERAGED}
SAVED_TO_CONVERGENCE = {f"{pair.switch}/{pair.rounds}": round(pair.saved, 1) for pair in _AVERAGED}
SAVED_PROX, SAVED_PROX_TO_CONVERGENCE = (round(saved, 1) for saved in (_PROX.total, _PROX.saved))
BASELINES = {"FedAvg": "uniform", "FedProx": "size_proportional"}
GROUPS = ("20 speakers", "40 speakers", "60 speakers")
_SETTLED = 1.03  # converged: within three per cent of the error of the end


def runs(scale: Scale) -> list[Run]:
    """Return a run of each method and one of devices alone for every seed, and one of draws without training."""
    shared: dict[str, Any] = {
        "archive": scale.data("gsc_v2_logmel_jpg.zip"), "bundle": scale.bundles(["dcnn_ctc"], *NETWORK)["dcnn_ctc"],
        "folder": scale.output / "bundles", "counts": COUNTS, "pretraining": PRETRAINING,
    }  # fmt: skip
    found = [_draws("published hours", HOURS), _draws("equal speakers", [float(one) for one in COUNTS.devices])]
    settings = SETTINGS if scale.full else SETTINGS[:1]
    for seed in SEEDS:
        given = shared | {"seed": seed}
        alone = given | {"personal": PERSONAL, "passes": ALONE_PASSES}
        found.append(Run("alone", seed, Call(without_fleet, alone), 60, f"speech {seed}"))
        if seed == SEEDS[0] or scale.full:
            central = given | {"rate": RATE, "passes": CENTRAL_PASSES}
            found.append(Run("central", seed, Call(centrally, central), 80, f"speech {seed}"))
        for baseline in BASELINES:
            for switch, rounds in settings:
                for name, dynamic in ((baseline, False), (f"{baseline}, dynamic", True)):
                    method = method_of(baseline, switch if dynamic else 0)
                    personal = PERSONAL if dynamic and baseline == "FedAvg" else None
                    arguments = given | {"method": method, "rounds": rounds, "personal": personal}
                    name = f"{name}, {switch}/{rounds}"
                    found.append(Run(name, seed, Call(shared_model, arguments), 200, f"speech {seed}"))
    return found


def method_of(baseline: str, switch_round: int = 0, rate: float = RATE) -> Method:
    """Return a baseline with its own selection; or dynamic selection, where there is an R."""
    settings: dict[str, Any] = {"fraction": FRACTION}
    choice = Choice(BASELINES[baseline], settings)
    if switch_round:
        choice = Choice("dynamic", settings | {"switch_round": switch_round})
    return Method(choice, rate) if baseline == "FedAvg" else Method(choice, rate, proximal=MU, by_size=False)


def _draws(name: str, sizes: Sequence[float]) -> Run:
    arguments = {
        "sizes": [100 * size for size in sizes], "settings": SETTINGS, "fraction": FRACTION, "published": SAVED,
        "seeds": DRAWN_FLEETS,
    }  # fmt: skip
    return Run(f"draws, {name}", 0, Call(draws, arguments), 30)


def section(results: Results) -> str:
    """Return the tables, and what did not hold."""
    setting = "{}/{}".format(*SETTINGS[0])
    return "\n".join(
        [
            _what(results),
            "",
            "### Global models: character error rates, %",
            _error_table(results, setting),
            "### Training until the end and until convergence",
            _time_table(results, setting),
            _TIME_SAYS,
            "### Data trained on, by draws alone",
            _draws_table(results),
            _DRAWS_SAY,
            "",
            "### Models of the devices: character error rates on their own tests, %",
            _devices_table(results, setting),
            claims_table(_claims(results, setting)),
        ]
    )


def _what(results: Results) -> str:
    seeds = results.seeds("alone")
    seconds = results.figures("alone")[0]["seconds"]
    return (
        f"Phrases of two or three words (digits, commands, or both) of one speaker, made of Speech Commands' log-mel "
        f"pictures; `dcnn_ctc` at a quarter of the published width writes letters. Ten devices have 20, 40 or 60 "
        f"speakers, as published, and {min(seconds) / 60:.1f} to {max(seconds) / 60:.1f} minutes of speech to train on "
        f"(published: 7 to 24 hours of Mandarin); {COUNTS.test} phrases of each speaker, of other recordings, are the "
        f"device's own test. {COUNTS.development[0]} other speakers are the server's development set, "
        f"{COUNTS.server_test[0]} its test, as published; speakers never heard are those. The start was trained on "
        f"{PRETRAINING.speakers} further speakers ({PRETRAINING.aligned} passes with letters at their places, "
        f"{PRETRAINING.passes} of CTC by Adam, {PRETRAINING.settled} by momentum SGD). "
        f"Three devices in a round, one pass, R of {SETTINGS[0][0]} in {SETTINGS[0][1]} "
        f"rounds; mu {MU:g}. FedProx averages plainly, as published. Deals {' and '.join(map(str, seeds))}."
        f"\n\n{TUNING}"
    )


TUNING = """Tuning was by another deal (seed 101), with three rates for each method (0.0007, 0.0015, 0.003), seven
rounds each (R = 4), by the error on the development set. Means of the last four rounds: FedAvg 22.6, 22.3, 23.5 %,
with dynamic selection 22.2, 22.8, 22.9 %; FedProx 21.8, 22.1, 21.4 %, with dynamic selection 22.3, 22.3, 22.9 %. The
differences are within the spread, so all have 0.0007, the best on average. The start of these trials had 30 passes by
Adam and the last eight with three phrases of each speaker. Fine-tuning had 0.0003, 0.0005 and 0.001 (six passes on
three of the devices): errors of 25.2, 25.2 and 25.8 %, after 24.1 % before."""
_TIME_SAYS = f"""The paper's time is its machine's; ours is the speech trained on, which no other program changes.
Convergence: the error rate on the development set, mean of {SMOOTHED} rounds, is first within 3 % of its end. The paper
compares that with all rounds of FedAvg. To the same error: both until the worse one's end.
"""
_DRAWS_SAY = f"""{DRAWN_FLEETS} fleets each, nothing is trained: what a round costs depends on the draw alone.
Published hours: the devices of the paper's table 2; equal speakers: 20, 40 and 60, exactly 1 : 2 : 3."""


def _error_table(results: Results, setting: str) -> str:
    header = ["model", "server's test", "server's development", "devices' own tests", "processor s"]
    server = ("server_test", "development")
    rows: list[list[Any]] = [[
        "start (public speech only)", *(results.cell("alone", itemgetter(part)) for part in server),
        results.cell("alone", lambda one: own(one, "start")), "",
    ], [
        f"alone, {ALONE_PASSES} passes", "", "", results.cell("alone", lambda one: own(one, "alone")),
        results.cell("alone", itemgetter("processor_s"), 1, 0),
    ], [
        f"all devices' phrases in one place, {CENTRAL_PASSES} passes",
        *(results.cell("central", itemgetter(part)) for part in server),
        results.cell("central", lambda one: own(one, "global")),
        results.cell("central", itemgetter("processor_s"), 1, 0),
    ]]  # fmt: skip
    rows += [
        [
            name, results.cell(name, itemgetter("server_test")), results.cell(name, _development),
            results.cell(name, lambda one: own(one, "global")),
            results.cell(name, lambda one: sum(entry["processor_s"] for entry in one["rounds"]), 1, 0),
        ] for name in _methods(setting)
    ]  # fmt: skip
    return markdown_table(header, rows)


def _methods(setting: str) -> list[str]:
    return [name for baseline in BASELINES for name in (f"{baseline}, {setting}", f"{baseline}, dynamic, {setting}")]


def _time_table(results: Results, setting: str) -> str:
    header = [
        "method", "speech of all rounds, min", "saved, %", "published", "rounds to convergence", "speech to it, min",
        "saved against all of the baseline's, %", "published", "saved to the same error, %",
    ]  # fmt: skip
    published = {
        "FedAvg": (SAVED[setting], SAVED_TO_CONVERGENCE[setting]), "FedProx": (SAVED_PROX, SAVED_PROX_TO_CONVERGENCE),
    }  # fmt: skip
    rows: list[list[Any]] = []
    for baseline in BASELINES:
        base, other = f"{baseline}, {setting}", f"{baseline}, dynamic, {setting}"
        columns = [mean_and_spread(values) for values in savings(results, base, other)]
        for name in (base, other):
            whole, stop, same = columns if name == other else ["", "", ""]
            theirs = published[baseline] if name == other else ("", "")
            rows.append([
                name, results.cell(name, speech, 1 / 60), whole, theirs[0],
                results.cell(name, lambda one: converged(one)[0], 1, 0),
                results.cell(name, lambda one: converged(one)[1], 1 / 60), stop, theirs[1], same,
            ])  # fmt: skip
    return markdown_table(header, rows)


def own(figures: Figures, model: str) -> float:
    """Return a model's mean error rate over the devices' own tests."""
    return fmean(entry[model] for entry in figures["devices"])


def speech(figures: Figures) -> float:
    """Return the seconds of speech that all rounds trained on: the paper's training time, without a machine in it."""
    return float(sum(entry["seconds"] for entry in figures["rounds"]))


def smooth(figures: Figures) -> Doubles:
    """Return the error rate on the development set, means of five rounds; the first is that of rounds 1 to 5."""
    return smoothed([entry["development"] for entry in figures["rounds"]])


def _development(figures: Figures) -> float:
    return float(smooth(figures)[-1])


def converged(figures: Figures) -> tuple[int, float]:
    """Return after how many rounds the error rate is within three per cent of its end, and the speech until then."""
    return reached(figures, _SETTLED * _development(figures))


def reached(figures: Figures, wanted: float) -> tuple[int, float]:
    """Return after how many rounds an error rate was first reached, and the seconds of speech until then."""
    number = int(np.argmax(smooth(figures) <= wanted)) + SMOOTHED
    return number, float(sum(entry["seconds"] for entry in figures["rounds"][:number]))


def savings(results: Results, base: str, other: str) -> tuple[list[float], list[float], list[float]]:
    """Return what a method saves of another's speech, in per cent, seed by seed.

    All rounds against all; until convergence against all, as published; and both until the worse one's error rate.
    """
    found: list[tuple[float, float, float]] = []
    for first, second in zip(results.figures(base), results.figures(other), strict=True):
        worse = max(_development(first), _development(second))
        same = reached(second, worse)[1] / reached(first, worse)[1]
        found.append((speech(second) / speech(first), converged(second)[1] / speech(first), same))
    columns = [[100 * (1 - value) for value in column] for column in zip(*found, strict=True)]
    return columns[0], columns[1], columns[2]


def _draws_table(results: Results) -> str:
    header = ["R / rounds", "published", *(f"{who}: {what}" for who in _DRAWN for what in _DRAWN_FIGURES)]
    rows = []
    for name, saved in SAVED.items():
        cells = []
        for who in _DRAWN:
            one = results.figures(f"draws, {who}")[0][name]
            cells += [
                f"{one['mean']:.1f} ± {one['spread']:.1f}", f"{100 * one['share']:.0f}",
                f"{one['mean_prox']:.1f} ± {one['spread_prox']:.1f}",
            ]  # fmt: skip
        rows.append([name, saved, *cells])
    return markdown_table(header, rows)


_DRAWN = ("published hours", "equal speakers")
_DRAWN_FIGURES = ("saved, %", "fleets that save as much as published, %", "saved against a draw by size, %")


def _devices_table(results: Results, setting: str) -> str:
    header = [
        "devices", "start", "alone", "global", "traditional", "group-balanced",
        "fewer errors than global, %", "published: global, traditional, theirs",
    ]  # fmt: skip
    name = f"FedAvg, dynamic, {setting}"
    rows = []
    for group, label in enumerate((*GROUPS, "all")):
        wanted = group if group < len(GROUPS) else None
        cells = [mean_and_spread(group_errors(results, run, model, wanted)) for run, model in (
            ("alone", "start"), ("alone", "alone"), (name, "global"), (name, "local"), (name, "group_balanced"),
        )]  # fmt: skip
        text = " / ".join(f"{errors[group]:.2f}" for errors in PUBLISHED.values())
        rows.append([label, *cells, f"{fewer(results, name, 'group_balanced', wanted):.1f}", text])
    return markdown_table(header, rows)


def group_errors(results: Results, name: str, model: str, group: int | None) -> list[float]:
    """Return a model's mean error rate on the devices of a group by speakers (None: all), in %, seed by seed."""
    found = []
    for figures in results.figures(name):
        sizes = sorted({entry["utterances"] for entry in figures["devices"]})
        kept = [entry[model] for entry in figures["devices"] if group in (None, sizes.index(entry["utterances"]))]
        found.append(100 * fmean(kept))
    return found


def fewer(results: Results, name: str, model: str, group: int | None) -> float:
    """Return by how much a model's error rate is below the global model's, in % of that one."""
    after, before = (fmean(group_errors(results, name, one, group)) for one in (model, "global"))
    return 100 * (1 - after / before)


def _claims(results: Results, setting: str) -> list[Claim]:
    """Return the paper's claims on this task; ``reproduced`` follows from the figures by the rules in the text."""
    first, prox = f"FedAvg, dynamic, {setting}", f"FedProx, dynamic, {setting}"
    avg_saved, avg_converged, avg_same = (fmean(column) for column in savings(results, f"FedAvg, {setting}", first))
    prox_saved, prox_converged, prox_same = (fmean(column) for column in savings(results, f"FedProx, {setting}", prox))
    drawn = results.figures("draws, published hours")[0]
    means = ", ".join(f"{drawn[name]['mean']:.1f}" for name in SAVED)
    shares = ", ".join(f"{100 * drawn[name]['share']:.0f}" for name in SAVED)
    by_draws = (
        f"with the paper's own hours, {DRAWN_FLEETS} fleets save {means} % on average against an even draw, and "
        f"{shares} % of them as much as published: one run each says little"
    )
    return [
        Claim(
            "dynamic selection needs less training than FedAvg, all rounds against all",
            ", ".join(f"{value} %" for value in SAVED.values()), f"{avg_saved:.1f} % ({setting}); by draws {means} %",
            _level(avg_saved, SAVED[setting]), by_draws,
        ),
        Claim(
            "less than FedProx, all rounds against all", f"{SAVED_PROX} %", f"{prox_saved:.1f} % ({setting})",
            _level(prox_saved, SAVED_PROX), f"{DRAWN_FLEETS} fleets save {drawn[setting]['mean_prox']:.1f} ± "
            f"{drawn[setting]['spread_prox']:.1f} %: a draw by size is always for large devices",
        ),
        Claim(
            "until convergence, against all of FedAvg's rounds", "24 to 28 %", f"{avg_converged:.1f} %",
            _level(avg_converged, 24.0), f"both until the same error: {avg_same:.1f} % saved",
        ),
        Claim(
            "until convergence, against FedProx", "26 to 27 %", f"{prox_converged:.1f} % of all its rounds",
            _level(prox_converged, 26.0), f"both until the same error: {prox_same:.1f} % saved",
        ),
        _equal_error(results, setting),
        _global_error(results, first),
        *_personal_claims(results, first),
    ]  # fmt: skip


def _level(ours: float, published: float) -> str:
    """Return ``yes`` where at least nine tenths of the published figure are reached, ``in part`` above nothing."""
    return "yes" if ours >= 0.9 * published else "in part" if ours > 0 else "no"


def _equal_error(results: Results, setting: str) -> Claim:
    points = [
        fmean(results.values(f"{name}, dynamic, {setting}", _tested))
        - fmean(results.values(f"{name}, {setting}", _tested))
        for name in BASELINES
    ]
    worst = 100 * max(points)
    return Claim(
        "the same error with dynamic selection", "equal",
        ", ".join(f"{100 * value:+.1f} points ({name})" for value, name in zip(points, BASELINES, strict=True)),
        "yes" if worst <= 1.0 else "no", "on the server's test; equal: at most one point more",
    )  # fmt: skip


def _tested(figures: Figures) -> float:
    return float(figures["server_test"])


def _global_error(results: Results, name: str) -> Claim:
    groups = [fmean(group_errors(results, name, "global", group)) for group in range(len(GROUPS))]
    return Claim(
        "error of the global model on the devices' tests", "13 to 20 %",
        f"{min(groups):.1f} to {max(groups):.1f} % by group", "yes" if max(groups) <= 20 else "no",
        f"from a start of {fmean(group_errors(results, 'alone', 'start', None)):.1f} %; all devices' phrases in one "
        f"place, passed over as often, come to {fmean(group_errors(results, 'central', 'global', None)):.1f} %",
    )  # fmt: skip


def _personal_claims(results: Results, name: str) -> list[Claim]:
    ours = fewer(results, name, "group_balanced", None)
    groups = [fewer(results, name, "group_balanced", group) for group in range(len(GROUPS))]
    small = [fmean(group_errors(results, name, model, 0)) for model in ("local", "group_balanced")]
    large = [fmean(group_errors(results, name, model, 2)) for model in ("local", "group_balanced")]
    return [
        Claim(
            "personal models make fewer errors than the global one", f"{FEWER:.0f} %", f"{ours:.1f} %",
            _level(ours, FEWER), f"traditional: {fewer(results, name, 'local', None):.1f} %",
        ),
        Claim(
            "most on the smallest devices", "15.5 %, 10.2 %, 6.8 %", ", ".join(f"{value:.1f} %" for value in groups),
            "yes" if groups[0] == max(groups) else "no", "groups of 20, 40 and 60 speakers",
        ),
        Claim(
            "group-balanced beats traditional fine-tuning on the smallest devices", "15.42 against 15.69 %",
            f"{small[1]:.1f} against {small[0]:.1f} %", "yes" if small[1] < small[0] else "no",
            f"as many passes in both; on the largest {large[1]:.1f} against {large[0]:.1f} %",
        ),
    ]  # fmt: skip
