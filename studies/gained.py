"""What devices listen with after a run of the simulator, and what they would listen with without a fleet."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from studies.run import Figures
from studies.study import Cell, Results, measured

# Kinds of model that a run with baselines judges (docs/simulator.md).
WITHOUT = {"alone": "alone", "public only": "public", "own and public": "both"}
_GUESSED = 10.0  # in per cent, of ten words


def own_accuracies(figures: Figures, kind: str = "listening") -> list[float]:
    """Return a kind of model's accuracy, 0..1, on every device's own clips; devices that have none are left out."""
    return [float(entry[f"{kind}_own"]) for entry in _judged(figures)]


def own_and_strangers(figures: Figures, kind: str = "listening") -> tuple[float, float]:
    """Return a kind of model's accuracy on own and on strangers' clips, means over devices in per cent.

    Those of guessing where the training diverged.
    """
    if "diverged" in figures:
        return _GUESSED, _GUESSED
    strangers = [float(entry[f"{kind}_strangers"]) for entry in _judged(figures)]
    return 100 * fmean(own_accuracies(figures, kind)), 100 * fmean(strangers)


def listened(results: Results, name: str, kind: str = "listening") -> list[Cell]:
    """Return both as cells, over the seeds of a name's runs that judged this kind."""
    runs = zip(results.seeds(name), results.figures(name), strict=True)
    found = {
        seed: own_and_strangers(figures, kind)
        for seed, figures in runs
        if "diverged" in figures or any(f"{kind}_own" in entry for entry in figures["devices"])
    }
    return [measured({seed: pair[place] for seed, pair in found.items()}) for place in (0, 1)]


def worse_than_alone(figures: Figures, kind: str, alone: Sequence[float]) -> int:
    """Return how many devices recognise fewer own clips than alone; all of them where the training diverged."""
    if "diverged" in figures:
        return len(alone)
    return sum(now < before for now, before in zip(own_accuracies(figures, kind), alone, strict=True))


def _judged(figures: Figures) -> list[dict[str, float]]:
    return [entry for entry in figures["devices"] if entry["listening_own"] is not None]
