"""The text of the part of FedMLAC's table in which every device is visited often."""

from __future__ import annotations

from collections.abc import Sequence

from studies.fedmlac.figures import (
    FEDMLAC,
    FLEETS_OF_FIVE,
    HALF_WRONG,
    METHODS,
    OFTEN,
    PAPERS_RATE,
    PUBLISHED,
    TUNED_ON,
    Tuning,
    Where,
    at_the_end,
    has,
    local,
    local_on_own,
    often,
    stopped,
    stops,
)
from studies.gained import WITHOUT, own_and_strangers_cells
from studies.report import Results, bold, markdown_table, mean_and_spread


def often_visited(results: Results) -> str:
    """Return the part's text; none where it was not run."""
    if not has(results, often(FEDMLAC, HALF_WRONG)):
        return ""
    rounds = [int(entry["round"]) for entry in stops(results.figures(often(FEDMLAC, HALF_WRONG))[0])]
    return (
        f"The same devices and clips, {rounds[-1]} rounds of all devices. The devices' models were judged after\n"
        f"{', '.join(map(str, rounds))} of them. A server that stops keeps the round of these whose shared model\n"
        "knows most of the public set, on which no method trains in the rounds. By the paper's measure, in %;\n"
        "the paper does not say whose clips it tests on. A cell without a spread is of one seed.\n\n"
        + _by_local_models(results)
        + "\nThe local models on strangers' clips, over the visits:\n\n"
        + _over_visits(results, rounds)
        + "\nBy the model that a device listens with. Those without a fleet are the ones above, of fewer passes:\n\n"
        + _listening(results)
        + "\nFive networks in this fleet, half of the labels wrong; local models are judged before the fine-tuning:\n\n"
        + _five(results)
    )


def _there(results: Results) -> list[tuple[str, str]]:
    """Return conditions and methods that were run."""
    return [(c, method) for c in TUNED_ON for method in (*METHODS, PAPERS_RATE) if has(results, often(method, c))]


def _cell(results: Results, name: str, key: str, where: Where) -> str:
    return mean_and_spread(results.values(name, lambda figures: 100 * where(figures)[key]))


def _by_local_models(results: Results) -> str:
    rows = []
    for condition, method in _there(results):
        name = often(method, condition)
        after = " and ".join(f"{stopped(figures)['round']:.0f}" for figures in results.figures(name))
        rows.append(
            [
                f"{condition}, {method}",
                mean_and_spread(results.values(name, local)) + _published(condition, method),
                mean_and_spread(results.values(name, local_on_own)),
                _cell(results, name, "accuracy", at_the_end),
                after,
                *(_cell(results, name, key, stopped) for key in ("local_strangers", "local_own", "accuracy")),
            ]
        )
    header = [
        "",
        "local models (published)",
        "on own clips",
        "shared model",
        "stopped after",
        "local models then",
        "on own clips then",
        "shared model then",
    ]
    return markdown_table(header, rows)


def _published(condition: str, method: str) -> str:
    """Return the paper's figure in brackets; that rate is all methods' there."""
    return f" ({PUBLISHED[condition][METHODS.index(method)]:.1f})" if method in METHODS else ""


def _over_visits(results: Results, rounds: Sequence[int]) -> str:
    rows = []
    for condition, method in _there(results):
        found = [stops(figures) for figures in results.figures(often(method, condition))]
        by_stop = zip(*([100 * entry["local_strangers"] for entry in one] for one in found), strict=True)
        rows.append([f"{condition}, {method}", *map(mean_and_spread, by_stop)])
    return markdown_table(["", *map(str, rounds)], rows)


def _own_and_strangers(results: Results, name: str, where: Where) -> list[str]:
    if not has(results, name):
        return ["", ""]
    return [_cell(results, name, key, where) for key in ("listening_own", "listening_strangers")]


def _listening(results: Results) -> str:
    rows = [
        [label, *(cell for c in TUNED_ON for cell in own_and_strangers_cells(results, f"{FEDMLAC}, {c}", kind))]
        for label, kind in WITHOUT.items()
    ]
    for method in METHODS:
        if any(has(results, often(method, c)) for c in TUNED_ON):
            for label, where in ((method, at_the_end), (f"{method}, stopped", stopped)):
                rows.append(
                    [label, *(cell for c in TUNED_ON for cell in _own_and_strangers(results, often(method, c), where))]
                )
    return markdown_table(["", *(f"{what}, {c}" for c in TUNED_ON for what in ("own", "strangers"))], rows)


def _five(results: Results) -> str:
    name, before = often(f"{FEDMLAC}, {FLEETS_OF_FIVE}", HALF_WRONG), f"{FEDMLAC}, {FLEETS_OF_FIVE}, {HALF_WRONG}"
    rows = [[label, *own_and_strangers_cells(results, before, kind), "", ""] for label, kind in WITHOUT.items()]
    for label, where in ((FEDMLAC, at_the_end), (f"{FEDMLAC}, stopped", stopped)):
        cells = [_cell(results, name, key, where) for key in ("local_own", "local_strangers")]
        rows.append([label, *_own_and_strangers(results, name, where), *cells])
    return markdown_table(["", "own", "strangers", "local models, own", "local models, strangers"], rows)


def often_tuning(results: Results, tuning: Tuning) -> str:
    """Return the trials' table; none where there were no trials."""
    if not has(results, often(f"{FEDMLAC} {tuning.chosen[FEDMLAC]}", HALF_WRONG)):
        return ""
    rows = []
    for method, trials in tuning.trials.items():
        names = {trial: often(f"{method} {trial}", HALF_WRONG) for trial in trials}
        scores = {trial: mean_and_spread(results.values(name, local)) for trial, name in names.items()}
        rows.append([method, *(bold(f"{t}: {score}", t == tuning.chosen[method]) for t, score in scores.items())])
    visits = len(results.figures(often(f"{FEDMLAC} {tuning.chosen[FEDMLAC]}", HALF_WRONG))[0]["rounds"])
    return (
        f"\nFor the devices that are {OFTEN}: seed {' and '.join(map(str, tuning.seeds))}, {visits} visits, the local\n"
        "models with half of the labels wrong. Ten runs of other lengths, shares and fleets came first, with the same\n"
        "seed: three of FedAvg and seven of FedMLAC. FedProx was left out: above it is FedAvg's equal.\n\n"
        + markdown_table(["", *("trial",) * max(map(len, tuning.trials.values()))], rows)
    )
