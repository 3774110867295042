"""FedMLAC's table: the names of its runs, the figures that are taken from them, and what the paper reports."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from benchmarks.papers.report import Results
from benchmarks.papers.run import Figures

BASELINES, FEDMLAC = ("FedAvg", "FedProx", "FedOPT"), "FedMLAC"
METHODS = (*BASELINES, FEDMLAC)
CLEAN, HALF_WRONG = TUNED_ON = ("clean", "wrong 50%")
NOISE, WRONG = ("10 dB on devices", "10 dB everywhere"), ("wrong 30%", HALF_WRONG)
CONDITIONS = (CLEAN, *WRONG, *NOISE)
LONGER, NO_LPA, REHEARSED = "FedAvg, twice the rounds", "FedMLAC without LPA", "FedMLAC with public labels"
FLEETS_OF_FIVE, SCORES = "five networks", "zero_shot, five networks"
# Bai et al. 2025, tables 4, 6 and 7: accuracy on Speech Commands in per cent, in METHODS' order. The paper does not say
# whether its test clips have noise too.
_NOISY = (61.26, 56.84, 67.01, 71.27)
PUBLISHED: dict[str, tuple[float, ...]] = {
    CLEAN: (80.19, 80.43, 83.31, 84.59),
    "wrong 30%": (74.68, 76.12, 78.19, 81.61), HALF_WRONG: (69.70, 68.72, 74.03, 77.06),
    NOISE[0]: _NOISY, NOISE[1]: _NOISY,
}  # fmt: skip
_GUESSED = 10.0  # in per cent, of ten words


def shared(figures: Figures) -> float:
    """Return the shared model's last accuracy, in per cent; that of guessing where the training diverged."""
    return 100 * float(figures["rounds"][-1]["accuracy"]) if "diverged" not in figures else _GUESSED


def local(figures: Figures) -> float:
    """Return the local models' accuracy on strangers' clips, the paper's measure: mean over devices, in per cent."""
    return _mean(figures, "local_strangers")


def local_on_own(figures: Figures) -> float:
    """Return the local models' accuracy on own clips that nothing was trained on: mean over devices, in per cent."""
    return _mean(figures, "local_own")


def thousands(figures: Figures) -> float:
    """Return on how many thousand clips the rounds trained; a simulated second is a thousand."""
    return float(sum(entry["device_seconds"] for entry in figures["rounds"]))


def quickest(results: Results, method: str, trials: Sequence[str]) -> float:
    """Return how long the quickest of a method's trials took, in seconds: others may have shared the processor."""
    names = [name for name in results.by_name if name.startswith(tuple(f"{method} {trial}" for trial in trials))]
    return min(outcome.seconds for name in names for _, outcome in results.by_name[name])


def second_half(results: Results, name: str) -> float:
    """Return by how many points the shared model improved in the second half of the rounds, as the mean over seeds."""
    gained = []
    for figures in results.figures(name):
        tested = [100 * entry["accuracy"] for entry in figures["rounds"] if "accuracy" in entry]
        gained.append(tested[-1] - tested[max(0, len(tested) // 2 - 1)])
    return fmean(gained)


def has(results: Results, name: str) -> bool:
    """Return whether there are runs of a name."""
    return name in results.by_name


def lost(results: Results, method: str, condition: str) -> list[float]:
    """Return the points that a method's local models lose to a condition, seed by seed."""
    clean, hurt = (results.values(f"{method}, {name}", local) for name in (CLEAN, condition))
    return [before - after for before, after in zip(clean, hurt, strict=True)]


def published_loss(method: str, condition: str) -> float:
    """Return the points that a method loses to a condition in the paper."""
    place = METHODS.index(method)
    return PUBLISHED[CLEAN][place] - PUBLISHED[condition][place]


def trial_score(results: Results, method: str, trial: str) -> float:
    """Return what a trial is judged by, in per cent: the local models' mean over both conditions.

    Of ``zero_shot``, which has one condition, the mean of own and strangers' clips.
    """
    if method == SCORES:
        return fmean(50 * (found["own"] + found["strangers"]) for found in results.figures(f"{method} {trial}"))
    return fmean(fmean(results.values(f"{method} {trial}, {name}", local)) for name in TUNED_ON)


def _mean(figures: Figures, name: str) -> float:
    return 100 * fmean(entry[name] for entry in figures["devices"]) if "diverged" not in figures else _GUESSED
