"""FedMLAC's table: the names of its runs, the figures that are taken from them, and what the paper reports."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from studies.report import Results
from studies.run import Figures

BASELINES, FEDMLAC = ("FedAvg", "FedProx", "FedOPT"), "FedMLAC"
METHODS = (*BASELINES, FEDMLAC)
CLEAN, HALF_WRONG = TUNED_ON = ("clean", "wrong 50%")
NOISE, WRONG = ("10 dB on devices", "10 dB everywhere"), ("wrong 30%", HALF_WRONG)
CONDITIONS = (CLEAN, *WRONG, *NOISE)
NO_LPA = "FedMLAC without LPA"
OFTEN, PAPERS_RATE = "visited often", "FedAvg, rate 0.01"
SOME = "30% of the devices in a round"
FLEETS_OF_FIVE, SCORES = "five networks", "zero_shot, five networks"
# Bai et al. 2025, tables 4, 6 and 7: accuracy on Speech Commands in per cent, in METHODS' order. The paper does not say
# whether its test clips have noise too.
_NOISY = (61.26, 56.84, 67.01, 71.27)
PUBLISHED: dict[str, tuple[float, ...]] = {
    CLEAN: (80.19, 80.43, 83.31, 84.59),
    "wrong 30%": (74.68, 76.12, 78.19, 81.61),
    HALF_WRONG: (69.70, 68.72, 74.03, 77.06),
    NOISE[0]: _NOISY,
    NOISE[1]: _NOISY,
}
# Table 5: with all devices in a round, clean; FedMLAC over each of BASELINES.
ALL_DEVICES_LEAD = (3.18, 3.03, 0.92)
Where = Callable[[Figures], dict[str, float]]
_GUESSED = 10.0  # in per cent, of ten words


@dataclass(frozen=True)
class Tuning:
    """What was tried.

    Attributes:
        seeds: it was tried on.
        trials: by method.
        chosen: of these.
    """

    seeds: Sequence[int]
    trials: Mapping[str, Sequence[str]]
    chosen: Mapping[str, str]


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


def some(of: str, condition: str) -> str:
    """Return the name of a run whose rounds are of some of the devices."""
    return f"{of}, {SOME}, {condition}"


def often(of: str, condition: str) -> str:
    """Return the name of a run whose devices are visited often."""
    return f"{OFTEN}: {of}, {condition}"


def stops(figures: Figures) -> list[dict[str, float]]:
    """Return the rounds after which the devices' models were judged."""
    return [entry for entry in figures["rounds"] if "public" in entry]


def often_visits(results: Results) -> int:
    """Return how often the devices were visited that are visited often."""
    return int(at_the_end(results.figures(often(FEDMLAC, HALF_WRONG))[0])["round"])


def at_the_end(figures: Figures) -> dict[str, float]:
    """Return the last of the rounds after which the devices' models were judged."""
    return stops(figures)[-1]


def stopped(figures: Figures) -> dict[str, float]:
    """Return the one whose shared model knew most of the public set: there a server would have stopped."""
    return max(stops(figures), key=lambda entry: entry["public"])


def often_means(results: Results, condition: str, key: str, where: Where = at_the_end) -> dict[str, float]:
    """Return means over seeds where devices are visited often, in per cent, by method.

    Args:
        results: of all runs.
        condition: methods that were not run under it are left out; all are where nothing was visited often.
        key: which figure: ``accuracy`` of the shared model, ``local_strangers``, ``local_own`` and the like.
        where: which of the rounds after which devices were judged.
    """
    names = {of: often(of, condition) for of in (*METHODS, PAPERS_RATE) if has(results, often(of, condition))}
    return {of: fmean(100 * where(one)[key] for one in results.figures(name)) for of, name in names.items()}


def quickest(results: Results, name: str) -> float:
    """Return how long the quickest of a name's runs took, in seconds."""
    return min(outcome.seconds for _, outcome in results.by_name[name])


def has(results: Results, name: str) -> bool:
    """Return whether there are runs of a name."""
    return name in results.by_name


def lost(results: Results, method: str, condition: str) -> list[float]:
    """Return the points that a method's local models lose to a condition, seed by seed."""
    clean, hurt = (_by_seed(results, f"{method}, {name}") for name in (CLEAN, condition))
    return [clean[seed] - after for seed, after in hurt.items() if seed in clean]


def _by_seed(results: Results, name: str) -> dict[int, float]:
    return dict(zip(results.seeds(name), results.values(name, local), strict=True))


def published_loss(method: str, condition: str) -> float:
    """Return the points that a method loses to a condition in the paper."""
    place = METHODS.index(method)
    return PUBLISHED[CLEAN][place] - PUBLISHED[condition][place]


def _mean(figures: Figures, name: str) -> float:
    return 100 * fmean(entry[name] for entry in figures["devices"]) if "diverged" not in figures else _GUESSED
