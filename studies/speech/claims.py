"""The claims of Xu et al. 2025 on speech recognition; what is reproduced follows from the figures by stated rules."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from studies.in_short import in_short
from studies.report import Claim, Results, agreed, gain, mean_and_spread
from studies.selection.personal import FEWER
from studies.speech.figures import (
    BASELINES,
    DRAWN_FLEETS,
    GROUPS,
    SAVED,
    SAVED_PROX,
    compared,
    converged,
    development,
    fewer,
    fewer_by_deal,
    fewer_heard,
    group_errors,
    saved_converging,
    savings,
    tested,
)

_BEST = 18.0  # character errors in per cent below which the task counts as learnt


def short(results: Results, setting: str) -> str:
    """Return what a fleet makes of the start, for people never heard and for the devices' own."""
    best, name = _best(results), f"FedAvg, dynamic, {setting}"
    before, after = (100 * fmean(results.values(one, tested)) for one in ("alone", best))
    own = [
        fmean(group_errors(results, *one, None))
        for one in (("alone", "start"), ("alone", "alone"), (name, "global"), (name, "group_balanced"))
    ]
    return in_short(
        f"Character errors on people never heard: the start makes {before:.1f} %, the best global model "
        f"{after:.1f} %. On the devices' own tests: the start {own[0]:.1f} %, devices alone {own[1]:.1f} %, the global "
        f"model {own[2]:.1f} %, personal ones {own[3]:.1f} %.",
    )


def claims(results: Results, setting: str) -> list[Claim]:
    """Return the paper's claims on this task; ``reproduced`` follows from the figures by the rules in the text."""
    first = f"FedAvg, dynamic, {setting}"
    saved = {
        one: fmean(savings(results, f"{base}, {one}", f"{base}, dynamic, {one}")[0])
        for base, one in compared(results)
        if base == "FedAvg"
    }
    prox_saved = fmean(savings(results, f"FedProx, {setting}", f"FedProx, dynamic, {setting}")[0])
    drawn = results.figures("draws, published hours")[0]
    means = ", ".join(f"{drawn[name]['mean']:.1f}" for name in SAVED)
    shares = ", ".join(f"{100 * drawn[name]['share']:.0f}" for name in SAVED)
    by_draws = (
        f"with the paper's own hours, {DRAWN_FLEETS} fleets save {means} % on average against an even draw, and "
        f"{shares} % of them as much as published: one run each says little"
    )
    ours = ", ".join(f"{value:.1f} % ({one})" for one, value in saved.items())
    return [
        Claim(
            "Dynamic selection needs less training than FedAvg, all rounds against all",
            ", ".join(f"{value} %" for value in SAVED.values()),
            f"{ours}; by draws {means} %",
            agreed([_level(value, SAVED[one]) for one, value in saved.items()]),
            by_draws,
        ),
        Claim(
            "It needs less than FedProx, all rounds against all",
            f"{SAVED_PROX} %",
            f"{prox_saved:.1f} % ({setting})",
            _level(prox_saved, SAVED_PROX),
            f"{DRAWN_FLEETS} fleets save {drawn[setting]['mean_prox']:.1f} ± "
            f"{drawn[setting]['spread_prox']:.1f} %: a draw by size is always for large devices",
        ),
        _converged_claim(results, setting),
        _converging_claim(results, setting),
        _equal_error(results, setting),
        _best_error(results),
        _global_error(results, first),
        *_personal_claims(results, first),
    ]


def _converged_claim(results: Results, setting: str) -> Claim:
    """Return the claim of a saving to convergence; in part where FedAvg, stopped likewise, saves that much."""
    base, published = f"FedAvg, {setting}", 24.0
    _, columns, same = savings(results, base, f"FedAvg, dynamic, {setting}")
    saved, itself = fmean(columns), fmean(savings(results, base, base)[1])
    level = _level(saved, published)
    why = f"both until the same error: {mean_and_spread(same)} % saved"
    if itself >= published:
        level = "in part" if level == "yes" else level
        why = (
            f"FedAvg does not converge there, and does here: stopped at its own convergence it saves {itself:.1f} % of "
            f"its rounds itself; {why}"
        )
    claim = "It needs less until convergence than all of FedAvg's rounds"
    return Claim(claim, "24 to 28 %", f"{saved:.1f} %", level, why)


def _converging_claim(results: Results, setting: str) -> Claim:
    """Return the claim of a saving against FedProx; both are stopped where they have converged, as published."""
    base, other = f"FedProx, {setting}", f"FedProx, dynamic, {setting}"
    saved, same = saved_converging(results, base, other), savings(results, base, other)[2]
    stops = [", ".join(f"{converged(figures)[0]}" for figures in results.figures(name)) for name in (base, other)]
    return Claim(
        "It needs less until convergence than FedProx until its own",
        "26 to 27 %",
        f"{mean_and_spread(saved)} %",
        _level(fmean(saved), 26.0),
        f"deal by deal FedProx converges in round {stops[0]}, with dynamic selection in round {stops[1]}; both until "
        f"the same error: {mean_and_spread(same)} % saved",
    )


def _best_error(results: Results) -> Claim:
    """Return the claim of a global model below 18 %; the best one is chosen by the development set."""
    best = _best(results)
    errors, starts = (results.values(name, tested) for name in (best, "alone"))
    level = "yes" if 100 * max(errors) < _BEST else "in part" if 100 * fmean(errors) < _BEST else "no"
    return Claim(
        "Error of the best global model on the server's test",
        "in pictures only",
        f"{100 * fmean(errors):.1f} %: in the deals {_listed(errors)} ({best})",
        level,
        f"yes: below {_BEST:.0f} % in each deal, in part: on average; chosen by the development set. A deal's test has "
        f"20 speakers, and the start makes {_listed(starts)} on them. On the development set's 40 speakers "
        f"that model makes {100 * fmean(results.values(best, development)):.1f} %, on the devices' own tests "
        f"{fmean(group_errors(results, best, 'global', None)):.1f} %",
    )


def _best(results: Results) -> str:
    names = [f"{name}, {setting}" for base, setting in compared(results) for name in (base, f"{base}, dynamic")]
    return min(names, key=lambda name: fmean(results.values(name, development)))


def _level(ours: float, published: float) -> str:
    """Return ``yes`` where at least nine tenths of the published figure are reached, ``in part`` above nothing."""
    return "yes" if ours >= 0.9 * published else "in part" if ours > 0 else "no"


def _equal_error(results: Results, setting: str) -> Claim:
    points = [
        fmean(results.values(f"{name}, dynamic, {setting}", tested))
        - fmean(results.values(f"{name}, {setting}", tested))
        for name in BASELINES
    ]
    worst = 100 * max(points)
    return Claim(
        "The error is the same with dynamic selection",
        "equal",
        ", ".join(f"{100 * value:+.1f} points ({name})" for value, name in zip(points, BASELINES, strict=True)),
        "yes" if worst <= 1.0 else "no",
        "on the server's test; equal: at most one point more",
    )


def _global_error(results: Results, name: str) -> Claim:
    groups = [fmean(group_errors(results, name, "global", group)) for group in range(len(GROUPS))]
    return Claim(
        "Error of the global model on the devices' tests",
        "13 to 20 %",
        f"{min(groups):.1f} to {max(groups):.1f} % by group",
        "yes" if max(groups) <= 20 else "no",
        f"from a start of {fmean(group_errors(results, 'alone', 'start', None)):.1f} %; all devices' recordings in one "
        f"place, passed over as often, come to {fmean(group_errors(results, 'central', 'global', None)):.1f} % (first "
        "deal)",
    )


def _personal_claims(results: Results, name: str) -> list[Claim]:
    ours = fewer(results, name, "group_balanced", None)
    groups = [fewer_by_deal(results, name, "group_balanced", group) for group in range(len(GROUPS))]
    local, balanced = (group_errors(results, name, model, 0) for model in ("local", "group_balanced"))
    large = [fmean(group_errors(results, name, model, 2)) for model in ("local", "group_balanced")]
    return [
        Claim(
            "Personal models make fewer errors than the global one",
            f"{FEWER:.0f} %",
            f"{ours:.1f} %",
            _level(ours, FEWER),
            f"traditional: {fewer(results, name, 'local', None):.1f} %. On phrases of recordings trained on, "
            f"{fewer_heard(results, name):.1f} % fewer, from an error of "
            f"{fmean(group_errors(results, name, 'global_heard', None)):.1f} %: the passes learn little of them, and "
            "larger steps harm (tuning, above)",
        ),
        Claim(
            "They gain most on the smallest devices",
            "15.5 %, 10.2 %, 6.8 %",
            ", ".join(f"{mean_and_spread(values)} %" for values in groups),
            "yes" if fmean(groups[0]) == max(map(fmean, groups)) else "no",
            "groups of 20, 40 and 60 speakers, means and spreads over the deals",
        ),
        Claim(
            "Group-balanced beats traditional fine-tuning on the smallest devices",
            "15.42 against 15.69 %",
            f"{fmean(balanced):.1f} against {fmean(local):.1f} %",
            "yes" if fmean(balanced) < fmean(local) else "no",
            f"{gain(balanced, local)} points, deal by deal; as many passes in both; on the largest {large[1]:.1f} "
            f"against {large[0]:.1f} %",
        ),
    ]


def _listed(shares: Sequence[float]) -> str:
    return ", ".join(f"{100 * share:.1f} %" for share in shares)
