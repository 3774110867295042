"""What the project claims of the recommended plan, and whether its ablation bears that out."""

from __future__ import annotations

from statistics import fmean

from studies.ablation.variants import PLAN
from studies.gained import WITHOUT, own_accuracies, own_and_strangers, worse_than_alone
from studies.in_short import in_short
from studies.report import Claim, Results, claims_table, gain, mean_and_spread

# What the plan leaves out or exchanges, and what is claimed of the part.
PARTS = {
    "no rehearsal": "Rehearsal earns its place in the plan",
    "rehearsal by the fleet's opinion": "Rehearsal by labels is better than by the fleet's opinion",
    "no personalisation": "Personalisation earns its place in the plan",
}
_EARNS = 2.0  # points


def short(results: Results) -> str:
    """Return what a device has by taking part, and what it has without."""
    (own, strangers, worse), (alone_own, alone_strangers, _) = (
        cells(results, PLAN, kind) for kind in ("listening", "alone")
    )
    return in_short(
        f"A device that takes part recognises {own} % of its own clips and {strangers} % of strangers' (alone: "
        f"{alone_own} and {alone_strangers}); {worse} devices do worse than alone.",
    )


def plan_claims(results: Results) -> str:
    """Return our own claims of the plan.

    A part earns its place if own clips or strangers lose 2 points without it. Devices gain if the plan is ahead of
    every model that is made without a fleet, on both, and no device is worse than alone.
    """
    parts = [_earned(results, name, claim) for name, claim in PARTS.items()]
    return claims_table([_gained(results), *parts, _under_attack(results)])


def judged(results: Results, name: str, kind: str = "listening") -> tuple[list[float], list[float]]:
    """Return a kind of model's accuracy on own and on strangers' clips, in %, seed by seed."""
    found = [own_and_strangers(figures, kind) for figures in results.figures(name)]
    return [own for own, _ in found], [strangers for _, strangers in found]


def cells(results: Results, name: str, kind: str = "listening") -> list[str]:
    """Return a kind of model's figures: own, strangers, and devices worse than alone."""
    alone = [own_accuracies(figures, "alone") for figures in results.figures(PLAN)]
    worse = [
        worse_than_alone(figures, kind, before) for figures, before in zip(results.figures(name), alone, strict=True)
    ]
    own, strangers = judged(results, name, kind)
    return [
        mean_and_spread(own),
        mean_and_spread(strangers),
        "" if kind == "alone" else f"{fmean(worse):.1f}",
    ]


def _gained(results: Results) -> Claim:
    own, strangers, worse = cells(results, PLAN)
    without = [cells(results, PLAN, kind) for kind in WITHOUT.values()]
    ahead = all(_ahead(judged(results, PLAN), judged(results, PLAN, kind)) for kind in WITHOUT.values())
    return Claim(
        f"A device gains by taking part: the plan is ahead of {', '.join(WITHOUT)}",
        "none",
        f"own clips {own} % against {', '.join(row[0] for row in without)}; strangers {strangers} % against "
        f"{', '.join(row[1] for row in without)}; {worse} devices worse than alone",
        "no" if not ahead else "yes" if worse == "0.0" else "in part",
        ""
        if worse == "0.0"
        else f"the one that loses most loses {_most_lost(results):.1f} points of its own clips, "
        "which are few: about a dozen",
    )


def _most_lost(results: Results) -> float:
    """Return by how many points the plan leaves a device behind what it has alone, at most."""
    found = results.figures(PLAN)
    pairs = (zip(own_accuracies(one, "alone"), own_accuracies(one), strict=True) for one in found)
    return 100 * max(alone - ours for of_seed in pairs for alone, ours in of_seed)


def _earned(results: Results, name: str, claim: str) -> Claim:
    pairs = list(zip(judged(results, name), judged(results, PLAN), strict=True))
    own, strangers = (gain(without, plan) for without, plan in pairs)
    lost = max(fmean(plan) - fmean(without) for without, plan in pairs)
    ours = f"{name}: own clips {own} points, strangers {strangers}"
    return Claim(claim, "none", ours, "yes" if lost >= _EARNS else "no", "at equal compute")


def _under_attack(results: Results) -> Claim:
    robust, mean = (f"{name}, attackers" for name in (PLAN, "a weighted mean"))
    own, strangers, worse = zip(cells(results, robust), cells(results, mean), strict=True)
    return Claim(
        "A robust rule earns its place where a fifth of the devices attacks",
        "none",
        f"own clips {own[0]} % against {own[1]} with a weighted mean, strangers {strangers[0]} % against "
        f"{strangers[1]}; {worse[0]} devices worse than alone against {worse[1]}",
        "yes" if _ahead(judged(results, robust), judged(results, mean)) else "no",
    )


def _ahead(ours: tuple[list[float], list[float]], theirs: tuple[list[float], list[float]]) -> bool:
    return all(fmean(a) > fmean(b) for a, b in zip(ours, theirs, strict=True))
