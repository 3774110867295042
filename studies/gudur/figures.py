"""What the zero-shot table reads out of its runs: the scores' gains, and the models that users listen with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import fmean

from studies.gudur.runs import ALONE, SCORES, WITHOUT, fleet_name
from studies.report import Results, gain
from studies.run import Figures

ALL_ROUNDS, FIRST_ROUNDS, LAST_ROUNDS = slice(None), slice(3), slice(-3, None)
_FELL = 20.0  # points from one round to the next
_FAILED = 40.0  # % of own clips, below which a network alone counts as failed


def accuracy(kind: str, user: int | None = None, rounds: slice = ALL_ROUNDS) -> Callable[[Figures], float]:
    """Return what takes a mean accuracy in % out of a run's figures.

    Args:
        kind: such as ``local_accuracy``; rounds that were not judged by it do not count.
        user: counts from 1; None: the mean over all.
        rounds: which count.
    """

    def mean(figures: Figures) -> float:
        rows = (row for entry in figures["rounds"][rounds] for row in entry["users"])
        return fmean(row[kind] for row in rows if kind in row and user in (None, row["user"]))

    return mean


def gains(results: Results, name: str, rounds: slice = ALL_ROUNDS, user: int | None = None) -> list[float]:
    """Return by how many points the fleet's scores are better than the users' own models, seed by seed."""
    kinds = ("local_accuracy", "global_accuracy")
    local, fleet = (results.values(name, accuracy(kind, user, rounds)) for kind in kinds)
    return [after - before for before, after in zip(local, fleet, strict=True)]


def heard(name: str, what: str) -> Callable[[Figures], float]:
    """Return what takes the mean accuracy in % of the models that users listen with out of a run's figures.

    Args:
        name: of the run; it says whether there was a fleet.
        what: ``own`` (held-out clips of the user) or ``strangers``.
    """
    if name.split(", rate")[0].endswith(WITHOUT):
        return lambda figures: fmean(user[what] for user in figures["users"])
    key = {"own": "own_after", "strangers": "held_out_after"}[what]
    return lambda figures: fmean(user[key] for user in figures["rounds"][-1]["users"])


def listening(results: Results, name: str) -> list[float]:
    """Return what a form is judged and tuned by, seed by seed: the mean of own and strangers', in %."""
    own, strangers = (results.values(name, heard(name, what)) for what in ("own", "strangers"))
    return [(one + other) / 2 for one, other in zip(own, strangers, strict=True)]


def over_alone(results: Results, name: str, ours: Sequence[float], alone: str, theirs: Sequence[float]) -> str:
    """Return what a run gains over the models without a fleet, seed by seed, with the seeds that the run has.

    Args:
        results: of all runs.
        name: of the run.
        ours: its figure of every seed.
        alone: name of the runs without a fleet.
        theirs: the same figure of these.
    """
    base = dict(zip(results.seeds(alone), theirs, strict=True))
    return gain(ours, [base[seed] for seed in results.seeds(name)])


def fallen(figures: Figures) -> list[tuple[int, str]]:
    """Return which users' models lost 20 points or more on own clips from one round to the next, and when."""
    found = []
    for before, after in pairwise(figures["rounds"]):
        for was, now in zip(before["users"], after["users"], strict=True):
            if was["own_after"] - now["own_after"] >= _FELL:
                when = f"in round {after['round']} ({was['own_after']:.0f} to {now['own_after']:.0f} %)"
                found.append((now["user"], when))
    return found


def failures(results: Results, application: str) -> str:
    """Return how many networks of ten users alone failed, and what the others have; nothing where none did."""
    alone, fleet = (fleet_name(application, 10, form) for form in (ALONE, SCORES))
    listens = {run.seed: outcome.figures["rounds"][-1]["users"] for run, outcome in results.by_name[fleet]}
    count, pairs = 0, []
    for run, outcome in results.by_name[alone]:
        for row, base in zip(listens[run.seed], outcome.figures["users"], strict=True):
            count += 1
            if base["own"] >= _FAILED:
                pairs.append((row["own_after"] + row["held_out_after"], base["own"] + base["strangers"]))
    if not pairs or len(pairs) == count:
        return ""
    ours, theirs = (fmean(column) / 2 for column in zip(*pairs, strict=True))
    return (
        f"{count - len(pairs)} of {count} networks alone failed (below {_FAILED:g} % on own clips); of the other users "
        f"the model that listens has {ours:.1f} %, alone {theirs:.1f} %."
    )
