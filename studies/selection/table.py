"""Devices of unequal data: what dynamic selection saves, and what personal models gain (Xu et al. 2025).

FedAvg draws the devices evenly, FedProx by their clips; dynamic selection takes the place of either. Its saving is
counted by the draws alone, then by training. Devices then fine-tune what that came to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np

from studies.in_short import in_short
from studies.report import (
    SMOOTHED,
    Claim,
    Results,
    bold,
    claims_table,
    markdown_table,
    mean_and_spread,
    smoothed,
)
from studies.run import Figures
from studies.selection.personal import personal_claims, personal_table
from studies.selection.runs import (
    DRAWN,
    PAIRS,
    PEOPLE,
    PERSONAL_RATE,
    PERSONAL_RATES,
    RATE,
    RATES,
    SEEDS,
    SERVER_MODELS,
    START,
    START_PASSES,
    TUNING_ROUNDS,
    TUNING_SEEDS,
    Pair,
    trial,
)
from studies.selection.runs import runs as runs

TITLE = "Dynamic selection and group-balanced personalisation (Xu et al. 2025)"
PAPER = "Xu et al. 2025"

BAND = 0.01
"""How far from its end a curve may be once it has converged: a point."""
EXPECTED = "The draws alone let expect (95 % of pairs of runs)"
EQUAL = 1.0
"""Points by which models of equal accuracy may differ."""


def section(results: Results) -> str:
    """Return the tables of time and of personal models, the tuning, and the claims."""
    return "\n".join(
        [
            _short(results),
            _setting(results),
            "### What the draws save, without any training",
            _drawn(results),
            "### Device time: of all rounds, to convergence, to the same accuracy",
            _time(results),
            "### Personal models, by the devices' people",
            personal_table(results),
            "### Tuning of the learning rates",
            _tuning(results),
            claims_table([*_time_claims(results), *personal_claims(results)]),
        ]
    )


def _short(results: Results) -> str:
    saved, *_, equal = _time_claims(results)
    fewer, *_ = personal_claims(results)
    return in_short(
        f"A dynamic draw of the devices saves {saved.ours} % of their time against an even one over all rounds "
        f"(published: {saved.published}); the model differs by {equal.ours}. Group-balanced personal models make "
        f"{fewer.ours} fewer errors than the shared one.",
    )


def _setting(results: Results) -> str:
    devices = results.figures(method_run(PAIRS[0].dynamic))[0]["devices"]
    sizes = [int(entry["clips"]) for entry in devices]
    seeds = results.seeds(PAIRS[0].base)
    start = mean_and_spread([100 * value for value in results.values(START, lambda figures: figures["strangers"])])
    return (
        f"Ten devices with 20, 40 or 60 people (five, three and two devices), as published; their clips of ten "
        f"keywords to train on are {min(sizes)} to {max(sizes)} (of seed {seeds[0]}). {PEOPLE['strangers']} others "
        f"judge the shared model; {PEOPLE['public']} more are public: {START_PASSES} passes over their clips make "
        f"the start, a `cnn2` with {start} % (the paper: 125 hours of other corpora, a network of 1,428 outputs). "
        "Three devices in a round, each with one pass over its clips. R, from which round on dynamic selection prefers "
        "large devices, and rounds are as published; mu is FedProx' weight. FedProx averages "
        f"plainly, FedAvg by clips. Seeds {seeds[0]} to {seeds[-1]}. Published figures are of speech recognition with "
        "7 to 24 hours on a device, of one run each.\n\n"
        "Device time is the number of clips trained on, as the paper's is the time of one GPU for all devices (603 s "
        "for the 40 hours of a FedAvg round).\n"
    )


def method_run(name: str) -> str:
    """Return the name of the runs that show a method's rounds; ``local`` where devices fine-tune its model."""
    return f"{name}, local" if name in SERVER_MODELS else name


def _drawn(results: Results) -> str:
    figures = results.figures(DRAWN)[0]
    hours = figures["hours"]
    rows = []
    for pair, (whole, until) in zip(PAIRS, _by_pair(figures), strict=True):
        before, after = pair.converged
        rows.append(
            [
                f"{pair.dynamic} of {pair.rounds} rounds",
                _range(whole),
                f"{pair.total:.1f}",
                f"round {after} against {before or f'all {pair.rounds}'}",
                _range(until),
                f"{pair.saved:.1f}",
            ]
        )
    header = [
        "",
        "all rounds: expected (95 % of pairs of runs), %",
        "published",
        "to the published convergence",
        "expected (95 %), %",
        "published",
    ]
    early, late = (100 * (hours[name] / hours["even"] - 1) for name in ("early", "late"))
    return (
        "The aggregator's own selector draws devices of the paper's hours. A round of the early phase has "
        f"{-early:.0f} % fewer hours than an even draw, one of the late phase {late:.0f} % more, as has any draw by "
        "size. So over all rounds dynamic selection can only save what the early phase leaves out. To convergence it "
        "saves the rounds after that, too, which a method that is not stopped goes on to train. Published figures are "
        "of one pair of runs each.\n\n" + markdown_table(header, rows)
    )


def _by_pair(figures: Figures) -> list[list[dict[str, float]]]:
    """Return the cases of every pair: all rounds, and to the published convergence."""
    return [figures["saved"][2 * place : 2 * place + 2] for place in range(len(PAIRS))]


def _range(case: dict[str, float]) -> str:
    return f"{100 * case['mean']:.1f} ({100 * case['low']:.0f} to {100 * case['high']:.0f})"


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
    return float(sum(entry["device_seconds"] for entry in figures["rounds"][:rounds]))


def reached(base: Sequence[float], other: Sequence[float]) -> tuple[int, int]:
    """Return the rounds after which two runs have the same accuracy: the lower one of what both have at the end."""
    curves = [smoothed(base), smoothed(other)]
    wanted = min(curve[-1] for curve in curves)
    first, second = (int(np.argmax(curve >= wanted)) + SMOOTHED for curve in curves)
    return first, second


def compared(base: Figures, dynamic: Figures, pair: Pair) -> dict[str, float]:
    """Return what dynamic selection saves in a pair of runs, in %, and what that is counted from.

    Returns:
        ``total``: of all rounds; ``converged``: to its convergence, of all rounds of the base, or where the paper's
        base converged, of those to its convergence; ``stopped``: the base to that, of all its rounds; ``same``: to the
        same accuracy; ``base`` and ``dynamic``: accuracy at the end, %; ``rounds base`` and ``rounds dynamic``: to
        convergence, all where there is none; ``not converged``: how many of the two; ``clips base`` and
        ``clips dynamic``: trained on in all rounds, in thousands.
    """
    rounds = pair.rounds
    curves = [[entry["accuracy"] for entry in figures["rounds"][:rounds]] for figures in (base, dynamic)]
    ends = [converged(curve) for curve in curves]
    until = [end or rounds for end in ends]
    whole, same = spent(base, rounds), reached(*curves)
    return {
        "total": 100 * (1 - spent(dynamic, rounds) / whole),
        "converged": 100 * (1 - spent(dynamic, until[1]) / (spent(base, until[0]) if pair.converged[0] else whole)),
        "stopped": 100 * (1 - spent(base, until[0]) / whole),
        "same": 100 * (1 - spent(dynamic, same[1]) / spent(base, same[0])),
        "clips base": whole,
        "clips dynamic": spent(dynamic, rounds),
        "base": 100 * float(smoothed(curves[0])[-1]),
        "dynamic": 100 * float(smoothed(curves[1])[-1]),
        "rounds base": float(until[0]),
        "rounds dynamic": float(until[1]),
        "not converged": float(ends.count(None)),
    }


def of_pair(results: Results, pair: Pair) -> dict[str, list[float]]:
    """Return :func:`compared`, figure by figure, of every seed."""
    both = (results.figures(pair.base), results.figures(method_run(pair.dynamic)))
    found = [compared(base, dynamic, pair) for base, dynamic in zip(*both, strict=True)]
    return {name: [one[name] for one in found] for name in found[0]}


def _time(results: Results) -> str:
    found = {pair: of_pair(results, pair) for pair in PAIRS}
    header = [
        "",
        "accuracy at the end, %: own selection",
        "dynamic",
        "thousand clips of all rounds: own selection",
        "dynamic",
        "saved, %",
        "published",
        "saved to the same accuracy, %",
    ]
    rows = [
        [
            f"{pair.dynamic} of {pair.rounds} rounds",
            *(mean_and_spread(of[name]) for name in ("base", "dynamic")),
            *(mean_and_spread(of[name], 0) for name in ("clips base", "clips dynamic", "total")),
            f"{pair.total:.1f}",
            mean_and_spread(of["same"], 0),
        ]
        for pair, of in found.items()
    ]
    return (
        "Total against total: both methods to their last round. The same accuracy: the lower one of what both have at "
        f"the end, as means of {SMOOTHED} tests.\n\n" + markdown_table(header, rows) + "\n" + _to_convergence(found)
    )


def _to_convergence(found: Mapping[Pair, Mapping[str, list[float]]]) -> str:
    header = [
        "",
        "rounds to convergence: own selection",
        "dynamic",
        "saved, %",
        "published",
        "saved by stopping the own selection, %",
    ]
    rows = [
        [
            f"{pair.dynamic} of {pair.rounds} rounds, to convergence",
            *(mean_and_spread(of[name], 0) for name in ("rounds base", "rounds dynamic", "converged")),
            f"{pair.saved:.1f}",
            mean_and_spread(of["stopped"], 0),
        ]
        for pair, of in found.items()
    ]
    without = [value for of in found.values() for value in of["not converged"]]
    return (
        "To convergence against all: dynamic selection up to its convergence against all rounds of FedAvg, which is "
        "the paper's figure of 24 to 28 %. FedProx stops at its convergence, too, as in the paper. The paper states no "
        "rule. Here a run has converged when the mean of five tests stays within a point of its end, and does so "
        f"{SMOOTHED} rounds before it. Runs that do not, {sum(without):.0f} of {2 * len(without)}, count with all "
        "rounds. The last column is what the same rule saves without dynamic selection.\n\n"
        + markdown_table(header, rows)
    )


def _tuning(results: Results) -> str:
    rows: list[list[Any]] = []
    for name in RATE:
        cells = {rate: fmean(results.values(trial(name, rate), ended)) for rate in RATES}
        rows.append([name, *(bold(f"{value:.1f}", rate == RATE[name]) for rate, value in cells.items())])
    for personal, chosen in PERSONAL_RATE.items():
        names = {rate: trial(f"{SERVER_MODELS[0]}, {personal}", rate) for rate in PERSONAL_RATES}
        cells = {rate: fmean(results.values(name, _personal)) for rate, name in names.items()}
        printed = [bold(f"{value:.1f}", rate == chosen) for rate, value in cells.items()]
        rows.append([f"fine-tuning: {personal}", *printed])
    pairs = zip(RATES, PERSONAL_RATES, strict=True)
    header = ["", *(f"{rate:g}, fine-tuning {personal:g}" for rate, personal in pairs)]
    return (
        f"{TUNING_ROUNDS} rounds, seeds {' and '.join(map(str, TUNING_SEEDS))}: accuracy in %, of the shared model on "
        "the 60 people after the last five rounds, of fine-tuned models on the devices' own clips. As many trials for "
        "each. R = 40 and 50 take the rate of R = 30, mu = 0.1 that of 0.01.\n\n"
        + markdown_table(header, rows)
        + f"\nLimits: {len(SEEDS)} deals of the people of one corpus, one network, keywords in place of sentences; "
        f"{RATES[-1]:g} and {PERSONAL_RATES[-1]:g} are the largest rates that were tried; a group trains at the rate "
        "of the rounds.\n"
    )


def ended(figures: Figures) -> float:
    """Return the mean accuracy of the last five tests, in %."""
    return 100 * float(smoothed([entry["accuracy"] for entry in figures["rounds"]])[-1])


def _personal(figures: Figures) -> float:
    return 100 * fmean(entry["personal"] for entry in figures["devices"])


def _time_claims(results: Results) -> list[Claim]:
    found = [of_pair(results, pair) for pair in PAIRS]
    cases = _by_pair(results.figures(DRAWN)[0])
    claims = []
    for key, place, title in (
        ("total", 0, "Dynamic selection saves device time over all rounds: against {}, %"),
        ("converged", 1, "It saves device time to convergence: against {}, %"),
    ):
        for base in ("FedAvg", "FedProx"):
            of_base = [number for number, pair in enumerate(PAIRS) if pair.base.startswith(base)]
            published = [PAIRS[n].saved if place else PAIRS[n].total for n in of_base]
            ours = [fmean(found[n][key]) for n in of_base]
            why = f"{EXPECTED} {'; '.join(_range(cases[n][place]) for n in of_base)}."
            inside = sum(_within(cases[n][place], theirs) for n, theirs in zip(of_base, published, strict=True))
            why += f" Within the range in brackets: {inside} of {len(of_base)} published."
            if place:
                stopped = ", ".join(f"{fmean(found[n]['stopped']):.0f}" for n in of_base)
                why += f" The rule that stops runs saves {stopped} % of {base} alone."
            claims.append(Claim(title.format(base), _listed(published), _listed(ours), _saved(ours, published), why))
    points = [fmean(one["dynamic"]) - fmean(one["base"]) for one in found]
    equal = max(abs(value) for value in points) <= EQUAL
    claims.append(
        Claim(
            "Dynamic selection makes an equally accurate model",
            "comparable error rates",
            ", ".join(f"{value:+.1f}" for value in points) + " points",
            "yes" if equal else "in part",
            f"Of five pairs, seeds {SEEDS[0]} to {SEEDS[-1]}; equal is at most {EQUAL:g} point.",
        )
    )
    return claims


def _within(case: Mapping[str, float], percent: float) -> bool:
    """Return whether 95 % of pairs of runs are around a figure."""
    return case["low"] <= percent / 100 <= case["high"]


def _listed(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.1f}" for value in values)


def _saved(ours: Sequence[float], published: Sequence[float]) -> str:
    """Return whether a saving is reproduced: in every setting as large as published; in part: at all in each."""
    if all(mine >= theirs for mine, theirs in zip(ours, published, strict=True)):
        return "yes"
    return "in part" if min(ours) > 0 else "no"
