"""Figures of the table of speech recognition: error rates, speech trained on, and when a method has converged."""

from __future__ import annotations

from statistics import fmean
from typing import Any

import numpy as np

from fleet_protocol.arrays import Doubles
from studies.report import SMOOTHED, Results, smoothed
from studies.run import Figures
from studies.selection.runs import PAIRS

_AVERAGED = [pair for pair in PAIRS if pair.base == "FedAvg"]
SETTINGS = tuple((pair.switch, pair.rounds) for pair in _AVERAGED)  # R and rounds, as published
MU = 0.1
_PROX = next(pair for pair in PAIRS if pair.base == f"FedProx {MU:g}")
# What the paper saves, in per cent: of all rounds, and to convergence.
SAVED = {f"{pair.switch}/{pair.rounds}": round(pair.total, 1) for pair in _AVERAGED}
SAVED_TO_CONVERGENCE = {f"{pair.switch}/{pair.rounds}": round(pair.saved, 1) for pair in _AVERAGED}
SAVED_PROX, SAVED_PROX_TO_CONVERGENCE = (round(saved, 1) for saved in (_PROX.total, _PROX.saved))
BASELINES = {"FedAvg": "uniform", "FedProx": "size_proportional"}
GROUPS = ("20 speakers", "40 speakers", "60 speakers")
_SETTLED = 1.03  # converged: within three per cent of the error of the end
DRAWN_FLEETS = 500


def compared(results: Results) -> list[tuple[str, str]]:
    """Return the baselines and settings that were run."""
    settings = ["{}/{}".format(*setting) for setting in SETTINGS]
    return [(base, one) for base in BASELINES for one in settings if f"{base}, {one}" in results.by_name]


def published_savings(baseline: str, setting: str) -> tuple[float | str, float | str, float | str]:
    """Return what the paper saves, in per cent: of all rounds, to convergence of all rounds, and of convergence.

    Its FedAvg does not converge, so it takes all of FedAvg's rounds; its FedProx does.
    """
    if baseline == "FedAvg":
        return SAVED[setting], SAVED_TO_CONVERGENCE[setting], ""
    return (SAVED_PROX, "", SAVED_PROX_TO_CONVERGENCE) if setting == "{}/{}".format(*SETTINGS[0]) else ("", "", "")


def own(figures: Figures, model: str) -> float:
    """Return a model's mean error rate over the devices' own tests."""
    return fmean(entry[model] for entry in figures["devices"])


def speech(figures: Figures) -> float:
    """Return the seconds of speech that all rounds trained on: the paper's training time, without a machine in it."""
    return float(sum(entry["seconds"] for entry in figures["rounds"]))


def smooth(figures: Figures) -> Doubles:
    """Return the error rate on the development set, means of five rounds; the first is that of rounds 1 to 5."""
    return smoothed([entry["development"] for entry in figures["rounds"]])


def development(figures: Figures) -> float:
    """Return the error rate on the development set after the last rounds."""
    return float(smooth(figures)[-1])


def tested(figures: Figures) -> float:
    """Return the error rate on the server's test."""
    return float(figures["server_test"])


def converged(figures: Figures) -> tuple[int, float]:
    """Return after how many rounds the error rate is within three per cent of its end, and the speech until then."""
    return reached(figures, _SETTLED * development(figures))


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
        worse = max(development(first), development(second))
        same = reached(second, worse)[1] / reached(first, worse)[1]
        found.append((speech(second) / speech(first), converged(second)[1] / speech(first), same))
    columns = [[100 * (1 - value) for value in column] for column in zip(*found, strict=True)]
    return columns[0], columns[1], columns[2]


def saved_converging(results: Results, base: str, other: str) -> list[float]:
    """Return what a method saves of another's speech in per cent, each until its own convergence, seed by seed."""
    pairs = zip(results.figures(base), results.figures(other), strict=True)
    return [100 * (1 - converged(second)[1] / converged(first)[1]) for first, second in pairs]


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


def fewer_by_deal(results: Results, name: str, model: str, group: int | None) -> list[float]:
    """Return the same for every seed."""
    pairs = zip(*(group_errors(results, name, one, group) for one in (model, "global")), strict=True)
    return [100 * (1 - after / before) for after, before in pairs]


def fewer_heard(results: Results, name: str) -> float:
    """Return by how much a personal model's error is below the global one's on recordings trained on, in %."""
    after = fmean(results.values(name, lambda one: own(one, "group_balanced_heard")))
    before = fmean(results.values(name, lambda one: own(one, "global_heard")))
    return 100 * (1 - after / before)


def with_alone(results: Results, name: str) -> list[dict[str, Any]]:
    """Return the entries of every deal's devices, with the error rate of training alone."""
    pairs = zip(results.figures(name), results.figures("alone"), strict=True)
    return [
        one | {"alone": other["alone"]}
        for fleet, alone in pairs
        for one, other in zip(fleet["devices"], alone["devices"], strict=True)
    ]
