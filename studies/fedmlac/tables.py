"""The text of FedMLAC's tables: ours, and in brackets what the paper reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from studies.fedmlac.claims import RULE, claims, short
from studies.fedmlac.figures import (
    CLEAN,
    CONDITIONS,
    FEDMLAC,
    FLEETS_OF_FIVE,
    METHODS,
    NO_LPA,
    PUBLISHED,
    SCORES,
    SOME,
    TUNED_ON,
    WRONG,
    Tuning,
    has,
    local,
    local_on_own,
    lost,
    often,
    often_visits,
    published_loss,
    quickest,
    shared,
    some,
    thousands,
)
from studies.fedmlac.often_tables import often_tuning, often_visited
from studies.gained import WITHOUT, own_and_strangers, own_and_strangers_cells
from studies.report import Results, bold, gain, markdown_table, mean_and_spread
from studies.run import Figures


def tables(results: Results, tuning: Tuning, often_tuned: Tuning) -> str:
    """Return all of FedMLAC's tables; ``often_tuned``: what was tried with devices that are visited often."""
    parts = {
        "By the paper's measure: the mean of the local models": _by_local_models(results),
        "By the model that a device listens with": _listening(results),
        "Five networks in one fleet": _five(results),
        "Visited often": often_visited(results),
        "Where the difference comes from": _reasons(results),
        "Tuning": "" if results.full else _tuning(tuning) + often_tuning(results, often_tuned),
    }
    sections = [f"### {heading}\n{text}" for heading, text in parts.items() if text]
    return "\n".join([short(results), _setting(results), *sections, claims(results)])


def _setting(results: Results) -> str:
    figures, seeds = results.figures(f"{FEDMLAC}, {CLEAN}")[0], results.seeds(f"{FEDMLAC}, {CLEAN}")
    devices, visits = len(figures["devices"]), len(figures["rounds"])
    clips = fmean(entry["clips"] for entry in figures["devices"])
    later = f"; visited often {often_visits(results)}" if has(results, often(FEDMLAC, CLEAN)) else ""
    fewer = "; 3 where the row says so" if has(results, some(FEDMLAC, CLEAN)) else ""
    rows = [
        ["devices, in a round", f"{devices}, all{fewer}", "2,618, 20 %"],
        ["clips of a device to train on", f"{clips:.0f}", "40"],
        ["words", "10", "35"],
        ["visits of a device, of one pass", f"{visits}{later}", "about 1,000"],
        ["seeds", " and ".join(map(str, seeds)), "five runs"],
    ]
    return (
        "The baselines train `crnn_base`. With FedMLAC that is a device's own model, and `crnn_lite` the plug-in. The\n"
        "public set is 5 % of the speakers; only models that are fine-tuned and rows that say so train on it.\n\n"
        + markdown_table(["", "ours", "paper"], rows)
        + f"\n{RULE}\n"
    )


def _by_local_models(results: Results) -> str:
    header = ["", *METHODS]
    ours, on_own, shared_models, losses = [], [], [], []
    for condition in (*CONDITIONS, *(f"{SOME}, {name}" for name in TUNED_ON)):
        found = {method: f"{method}, {condition}" for method in METHODS}
        if not any(has(results, name) for name in found.values()):
            continue
        ours.append([condition, *(_beside(results, name, m, condition) for m, name in found.items())])
        on_own.append([condition, *(_cell(results, name, local_on_own) for name in found.values())])
        shared_models.append([condition, *(_cell(results, name, shared) for name in found.values())])
        if condition in CONDITIONS and condition != CLEAN:
            losses.append([condition, *(_lost(results, m, condition) for m in METHODS)])
    return (
        'The paper reports "the averaged performance of all local client models at the end of training". Of FedMLAC\n'
        "that is the own model; of the others the model after the device's pass over its clips, which it uploads.\n"
        "Test clips are by speakers whom no device has. Cells: ours ± spread (published), in %.\n\n"
        + markdown_table(header, ours)
        + "\nThe same models on their device's own clips that nothing was trained on:\n\n"
        + markdown_table(header, on_own)
        + "\nThe models that travel, on strangers' clips; of FedMLAC the plug-in:\n\n"
        + markdown_table(header, shared_models)
        + "\nPoints that the local models lose to each:\n\n"
        + markdown_table(header, losses)
    )


def _cell(results: Results, name: str, figure: object) -> str:
    assert callable(figure)
    return mean_and_spread(results.values(name, figure)) if has(results, name) else ""


def _beside(results: Results, name: str, method: str, condition: str) -> str:
    cell = _cell(results, name, local)
    published = PUBLISHED.get(condition)
    return f"{cell} ({published[METHODS.index(method)]:.1f})" if cell and published else cell


def _lost(results: Results, method: str, condition: str) -> str:
    if not has(results, f"{method}, {condition}"):
        return ""
    return f"{mean_and_spread(lost(results, method, condition))} ({published_loss(method, condition):.1f})"


def _rows(results: Results, of: Mapping[str, str], judge: str) -> list[list[str]]:
    """Return rows of models without a fleet, and of runs by their labels: own and strangers' under each condition."""
    rows = [
        [label, "", *(cell for c in TUNED_ON for cell in own_and_strangers_cells(results, f"{judge}, {c}", kind))]
        for label, kind in WITHOUT.items()
    ]
    for label, name in of.items():
        there = [c for c in TUNED_ON if has(results, f"{name}, {c}")]
        pairs = [own_and_strangers_cells(results, f"{name}, {c}") if c in there else ("", "") for c in TUNED_ON]
        cells = [cell for pair in pairs for cell in pair]
        rows.append([label, f"{fmean(results.values(f'{name}, {there[0]}', thousands)):.0f}", *cells])
    return rows


_HEADER = ["", "thousand clips", *(f"{what}, {name}" for name in TUNED_ON for what in ("own", "strangers"))]


def _listening(results: Results) -> str:
    return (
        "Every device takes three passes over its clips and public labels, from the round's model or, with FedMLAC,\n"
        "from its own. It listens with the better of the two on clips that it held out. Own are clips of the device\n"
        "that nothing was trained on or chosen by, with right labels; strangers are speakers whom no device has. The\n"
        "models without a fleet are `crnn_base`, trained for as many passes as FedMLAC's own models. \"Thousand\n"
        'clips" counts what was trained on in the rounds. FedMLAC trains two networks on a clip and asks both,\n'
        f"which takes {_slower(results):.1f} times as long.\n\n"
        + markdown_table(_HEADER, _rows(results, {method: method for method in METHODS}, FEDMLAC))
    )


def _slower(results: Results) -> float:
    """Return how many times as long FedMLAC's quickest run takes: others may have shared the processor."""
    mutual, single = (quickest(results, f"{method}, {WRONG[0]}") for method in (FEDMLAC, "FedAvg"))
    return mutual / single


def _five(results: Results) -> str:
    names = {label: f"{label}, {FLEETS_OF_FIVE}" for label in (FEDMLAC, NO_LPA)}
    rows = _rows(results, names, names[FEDMLAC])
    scores = [mean_and_spread([100 * found[key] for found in results.figures(SCORES)]) for key in ("own", "strangers")]
    rows.append(["`zero_shot`", "", *scores, "", ""])
    locals_ = [
        [label, *(_cell(results, f"{name}, {c}", figure) for c in TUNED_ON for figure in (local_on_own, local))]
        for label, name in names.items()
    ]
    return (
        "Each device has a random one of the paper's five networks; FedAvg, FedProx and FedOPT cannot run. The\n"
        "plug-in is `crnn_lite`. Models as above. `zero_shot` shares scores of the public set and trains on its\n"
        "labels as well; the simulator gives its users no wrong labels. The strategy `prototypes` has no\n"
        "networks to compare: its devices share a pretrained front end.\n\n"
        + markdown_table(_HEADER, rows)
        + "\nThe local models, before they are fine-tuned:\n\n"
        + markdown_table([_HEADER[0], *_HEADER[2:]], locals_)
    )


def _reasons(results: Results) -> str:
    rows = []
    for condition in TUNED_ON:
        judge = results.figures(f"{FEDMLAC}, {condition}")
        alone = [own_and_strangers(figures, "alone")[1] for figures in judge]
        own, plug_in = (
            results.values(f"{FEDMLAC}, {condition}", local),
            results.values(f"{FEDMLAC}, {condition}", shared),
        )
        single, fleets = (results.values(f"FedAvg, {condition}", figure) for figure in (local, shared))
        rows.append([condition, gain(own, alone), gain(plug_in, own), gain(single, fleets), gain(own, single)])
    header = [
        "points on strangers",
        "own models over alone",
        "plug-in over own models",
        "FedAvg: local over shared",
        "own models over FedAvg's local",
    ]
    return markdown_table(header, rows) + _courses(results)


def _courses(results: Results) -> str:
    rows = [
        [f"{condition}, {method}", *_course(results.figures(f"{method}, {condition}"))]
        for condition in TUNED_ON
        for method in ("FedAvg", FEDMLAC)
    ]
    header = ["the shared model, %", *(f"after {share} % of the rounds" for share in (10, 20, 50, 100))]
    return "\n" + markdown_table(header, rows)


def _course(figures: Sequence[Figures]) -> list[str]:
    found = [[entry["accuracy"] for entry in one["rounds"] if "accuracy" in entry] for one in figures]
    places = [[100 * one[max(0, round(share * len(one)) - 1)] for one in found] for share in (0.1, 0.2, 0.5, 1.0)]
    return [f"{fmean(values):.1f}" for values in places]


def _tuning(tuning: Tuning) -> str:
    rows = [
        [method, *(bold(trial, trial == tuning.chosen[method]) for trial in trials)]
        for method, trials in tuning.trials.items()
    ]
    return (
        f"Seed {' and '.join(map(str, tuning.seeds))}, as many trials of every method, of as many visits as above, by\n"
        "the mean of the local models, clean and with half of the labels wrong; of `zero_shot` by own and strangers'\n"
        "clips, clean. One choice serves all conditions. The command does not repeat these trials. The rate is\n"
        "followed by FedProx' mu, FedOPT's server rate, and FedMLAC's a. Not tuned: momentum 0.9, LPA's shares\n"
        "(0.1 and 0.1), FedMLAC's five passes of warm-up at 0.02. Thirteen runs in fleets of other sizes came first,\n"
        "with the same seed: six of FedAvg and seven of FedMLAC.\n\n" + markdown_table(["", *("trial",) * 5], rows)
    )
