"""What this study's runs come to: by the paper's measure, and by the models that devices listen with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from statistics import fmean
from typing import Any

from studies.fedmlac.calls import CHOSEN, STOPS, TRIALS
from studies.fedmlac.methods import (
    BASELINES,
    CLEAN,
    CONDITIONS,
    FEDMLAC,
    FLEETS_OF_FIVE,
    HALF_WRONG,
    METHODS,
    NO_LPA,
    OFTEN,
    PAPERS_RATE,
    SCORES,
    SOME,
    TUNED_ON,
    WRONG,
    often,
)
from studies.run import Figures
from studies.study import WITHOUT, Cell, Figure, Picture, Results, Summary, Table, own_and_strangers, share

Where = Callable[[Figures], Mapping[str, Any]]
_GUESSED = 10.0  # in per cent, of ten words
_OWN_AND_STRANGERS = [f"{what}, {condition}" for condition in TUNED_ON for what in ("own", "strangers")]


def summary(results: Results) -> Summary:
    """Return the study's tables and pictures."""
    tables = {
        "local": _by_condition(results, "Local models on strangers' clips, %.", local),
        "local-on-own": _by_condition(results, "Local models on their device's own clips, %.", local_on_own),
        "shared": _by_condition(results, "The models that travel, on strangers' clips, %.", shared),
        "lost": _lost(results),
        "leads": _leads(results),
        "over-alone": _over_alone(results),
        "listening": _listening(results),
        "listening-leads": _listening_leads(results),
        "time": _time(results),
        "five": _five(results),
        "five-local": _five_local(results),
        "reasons": _reasons(results),
        "course": _course(results),
    }
    pictures = {"rounds": _over_rounds(results)}
    if results.seeds(often(FEDMLAC, HALF_WRONG)):
        tables |= {
            "often": _often(results),
            "often-visits": _often_visits(results),
            "often-listening": _often_listening(results),
            "often-five": _often_five(results),
            "often-tuning": _often_tuning(results),
        }
        pictures["often"] = _over_visits(results)
    return Summary(tables, pictures)


def shared(figures: Figures) -> float:
    """Return the shared model's last accuracy, in per cent; that of guessing where the training diverged."""
    return 100 * float(figures["rounds"][-1]["accuracy"]) if "diverged" not in figures else _GUESSED


def local(figures: Figures) -> float:
    """Return the local models' accuracy on strangers' clips, the paper's measure: mean over devices, in per cent."""
    return _mean(figures, "local_strangers")


def local_on_own(figures: Figures) -> float:
    """Return the local models' accuracy on own clips that nothing was trained on: mean over devices, in per cent."""
    return _mean(figures, "local_own")


def _mean(figures: Figures, name: str) -> float:
    return 100 * fmean(entry[name] for entry in figures["devices"]) if "diverged" not in figures else _GUESSED


def _judged(what: str, kind: str = "listening") -> Figure:
    """Return what takes a kind of model's accuracy on ``own`` or ``strangers`` clips out of a run, in per cent."""
    return lambda figures: own_and_strangers(figures, kind)[what == "strangers"]


def stops(figures: Figures) -> list[dict[str, float]]:
    """Return the rounds after which the devices' models were judged."""
    return [entry for entry in figures["rounds"] if "public" in entry]


def at_the_end(figures: Figures) -> dict[str, float]:
    """Return the last of the rounds after which the devices' models were judged."""
    return stops(figures)[-1]


def stopped(figures: Figures) -> dict[str, float]:
    """Return the one whose shared model knew most of the public set: there a server would have stopped."""
    return max(stops(figures), key=lambda entry: entry["public"])


def _at(key: str, where: Where) -> Figure:
    return lambda figures: 100 * float(where(figures)[key])


def _by_condition(results: Results, title: str, figure: Figure) -> Table:
    conditions = (*CONDITIONS, *(f"{SOME}, {name}" for name in TUNED_ON))
    rows = [[c, *(results.cell(f"{method}, {c}", figure, 1) for method in METHODS)] for c in conditions]
    return Table(title, ["", *METHODS], [row for row in rows if any(row[1:])])


def _lost(results: Results) -> Table:
    rows = [
        [c, *(results.gain(f"{method}, {CLEAN}", f"{method}, {c}", local, 1) for method in METHODS)]
        for c in CONDITIONS[1:]
    ]
    return Table("Points that the local models lose to a condition.", ["", *METHODS], rows)


def _leads(results: Results) -> Table:
    """Return what FedMLAC's local models have more than those of others."""
    of = {condition: f"{{}}, {condition}" for name in TUNED_ON for condition in (name, f"{SOME}, {name}")}
    of |= {f"{OFTEN}, {name}": often("{}", name) for name in TUNED_ON}
    others = (*BASELINES, PAPERS_RATE)
    rows = [
        [f"{label}{on}", *(results.gain(run.format(FEDMLAC), run.format(other), figure, 1) for other in others)]
        for label, run in of.items()
        for on, figure in (("", local), (", own clips", local_on_own))
    ]
    return Table("FedMLAC's local models over those of others, points.", ["", *others], [r for r in rows if any(r[1:])])


_FIVE = f"{FEDMLAC}, {FLEETS_OF_FIVE}"


def _over_alone(results: Results) -> Table:
    """Return what the own models have more than models alone that took as many passes, before they are fine-tuned."""
    fleets = {"one network": FEDMLAC, "five networks": _FIVE}
    runs = [(f"{label}, {c}", f"{name}, {c}", f"{name}, {c}") for label, name in fleets.items() for c in TUNED_ON]
    runs += [(f"{OFTEN}, one network, {c}", often(FEDMLAC, c), f"{FEDMLAC}, {c}") for c in TUNED_ON]
    wrong = f"{OFTEN}, five networks, {HALF_WRONG}"
    runs.append((wrong, often(_FIVE, HALF_WRONG), f"{_FIVE}, {HALF_WRONG}"))
    kinds = {"own": local_on_own, "strangers": local}
    rows = [
        [label, *(results.gain(run, base, of, 1, before=_judged(on, "alone")) for on, of in kinds.items())]
        for label, run, base in runs
    ]
    without = f"{NO_LPA}, {FLEETS_OF_FIVE}, {CLEAN}"
    lpa = [results.gain(f"{_FIVE}, {CLEAN}", without, of, 1) for of in kinds.values()]
    rows.append(["LPA over none: five networks, clean", *lpa])
    return Table("FedMLAC's own models over alone, points.", ["", "own clips", "strangers"], rows)


def _pairs(results: Results, name: str, kind: str = "listening") -> list[Cell]:
    """Return own and strangers' clips under each condition."""
    return [results.cell(f"{name}, {c}", _judged(what, kind), 1) for c in TUNED_ON for what in ("own", "strangers")]


def _without(results: Results, judge: str) -> list[list[Cell]]:
    return [[label, *_pairs(results, judge, kind)] for label, kind in WITHOUT.items()]


def _heard(results: Results, title: str, names: Mapping[str, str], more: Sequence[Sequence[Cell]] = ()) -> Table:
    """Return a table of runs by their labels, beside what devices of FedMLAC's have without a fleet."""
    rows: list[Sequence[Cell]] = [[row[0], None, *row[1:]] for row in _without(results, names[FEDMLAC])]
    for label, name in names.items():
        there = next(figures for c in TUNED_ON for figures in results.figures(f"{name}, {c}"))
        thousands = round(sum(entry["samples"] for entry in there["rounds"]) / 1000)
        rows.append([label, thousands, *_pairs(results, name)])
    return Table(title, ["", "thousand clips", *_OWN_AND_STRANGERS], [*rows, *more])


def _listening(results: Results) -> Table:
    return _heard(results, "The models that devices listen with, %.", {method: method for method in METHODS})


def _five(results: Results) -> Table:
    names = {label: f"{label}, {FLEETS_OF_FIVE}" for label in (FEDMLAC, NO_LPA)}
    scores = [results.cell(SCORES, itemgetter(what)) for what in ("own", "strangers")]
    title = "Five networks: the models that devices listen with, %."
    return _heard(results, title, names, [["`zero_shot`", None, *scores, None, None]])


def _five_local(results: Results) -> Table:
    kinds = [(c, figure) for c in TUNED_ON for figure in (local_on_own, local)]
    rows = [
        [label, *(results.cell(f"{label}, {FLEETS_OF_FIVE}, {c}", figure, 1) for c, figure in kinds)]
        for label in (FEDMLAC, NO_LPA)
    ]
    return Table("Five networks: the local models, before they are fine-tuned, %.", ["", *_OWN_AND_STRANGERS], rows)


def _listening_leads(results: Results) -> Table:
    strangers, both = _judged("strangers"), _judged("strangers", "both")
    one = [results.gain(f"{FEDMLAC}, {c}", f"FedAvg, {c}", strangers, 1) for c in TUNED_ON]
    five = [results.gain(f"{_FIVE}, {c}", f"{_FIVE}, {c}", strangers, 1, before=both) for c in TUNED_ON]
    scores = results.gain(SCORES, f"{_FIVE}, {CLEAN}", lambda found: 100 * float(found["strangers"]), 1, before=both)
    rows = [
        ["one network: FedMLAC over FedAvg", *one],
        ["five networks: FedMLAC over own and public clips", *five],
        ["five networks: `zero_shot` over own and public clips", scores, None],
    ]
    return Table("The models that devices listen with, on strangers' clips, points.", ["", *TUNED_ON], rows)


def _time(results: Results) -> Table:
    """Return how many times as long FedMLAC's quickest run takes: others may have shared the processor."""
    mutual, single = (
        min(outcome.seconds for _, outcome in results.by_name[f"{method}, {WRONG[0]}"])
        for method in (FEDMLAC, "FedAvg")
    )
    return Table("Time.", ["", "times"], [["FedMLAC over FedAvg", round(mutual / single, 1)]])


def _reasons(results: Results) -> Table:
    rows = []
    for condition in TUNED_ON:
        mutual, single = f"{FEDMLAC}, {condition}", f"FedAvg, {condition}"
        over_alone = results.gain(mutual, mutual, local, 1, before=_judged("strangers", "alone"))
        plug_in = results.gain(mutual, mutual, shared, 1, before=local)
        fedavg = results.gain(single, single, local, 1, before=shared)
        rows.append([condition, over_alone, plug_in, fedavg, results.gain(mutual, single, local, 1)])
    columns = ["", "own models over alone", "plug-in over own models", "FedAvg: local over shared"]
    return Table("Points on strangers' clips.", [*columns, "own models over FedAvg's local"], rows)


def _course(results: Results) -> Table:
    shares = (0.1, 0.2, 0.5, 1.0)

    def after(share: float) -> Figure:
        def figure(figures: Figures) -> float:
            found = [entry["accuracy"] for entry in figures["rounds"] if "accuracy" in entry]
            return float(found[max(0, round(share * len(found)) - 1)])

        return figure

    rows = [
        [f"{condition}, {method}", *(results.cell(f"{method}, {condition}", after(share)) for share in shares)]
        for condition in TUNED_ON
        for method in ("FedAvg", FEDMLAC)
    ]
    return Table("The shared model, %.", ["", *(f"after {share:.0%} of the rounds" for share in shares)], rows)


def _there(results: Results) -> list[tuple[str, str]]:
    """Return the labels and names of the runs whose devices are visited often."""
    names = {f"{c}, {method}": often(method, c) for c in TUNED_ON for method in (*METHODS, PAPERS_RATE)}
    return [(label, name) for label, name in names.items() if results.seeds(name)]


def _often(results: Results) -> Table:
    rows = []
    keys = ("local_strangers", "local_own", "accuracy")
    for label, name in _there(results):
        after = " and ".join(f"{stopped(figures)['round']:.0f}" for figures in results.figures(name))
        end, then = ([results.cell(name, _at(key, where), 1) for key in keys] for where in (at_the_end, stopped))
        rows.append([label, *end, after, *then])
    columns = ["", "local models", "on own clips", "shared model", "stopped after", "local models then"]
    columns += ["on own clips then", "shared model then"]
    return Table("After all visits, and where a server would have stopped, %.", columns, rows)


def _often_visits(results: Results) -> Table:
    def after(number: int) -> Figure:
        return lambda found: next((one["local_strangers"] for one in stops(found) if one["round"] == number), None)

    rows = [[label, *(results.cell(name, after(number)) for number in STOPS)] for label, name in _there(results)]
    return Table("Local models on strangers' clips over the visits, %.", ["", *map(str, STOPS)], rows)


def _often_listening(results: Results) -> Table:
    rows = _without(results, FEDMLAC)
    kinds = [(c, key) for c in TUNED_ON for key in ("listening_own", "listening_strangers")]
    for method in METHODS:
        if any(results.seeds(often(method, c)) for c in TUNED_ON):
            for label, where in ((method, at_the_end), (f"{method}, stopped", stopped)):
                rows.append([label, *(results.cell(often(method, c), _at(key, where), 1) for c, key in kinds)])
    return Table("Visited often: the models that devices listen with, %.", ["", *_OWN_AND_STRANGERS], rows)


def _often_five(results: Results) -> Table:
    rows: list[list[Cell]] = [[*row[:1], *row[3:], None, None] for row in _without(results, _FIVE)]
    keys = ("listening_own", "listening_strangers", "local_own", "local_strangers")
    for label, where in ((FEDMLAC, at_the_end), (f"{FEDMLAC}, stopped", stopped)):
        rows.append([label, *(results.cell(often(_FIVE, HALF_WRONG), _at(key, where), 1) for key in keys)])
    columns = ["", "own", "strangers", "local models, own", "local models, strangers"]
    return Table("Visited often, five networks, half of the labels wrong, %.", columns, rows)


def _often_tuning(results: Results) -> Table:
    rows = [
        [f"{of}: {trial}", results.cell(often(f"{of} {trial}", HALF_WRONG), local, 1), "chosen" * (CHOSEN[of] == trial)]
        for of, trials in TRIALS.items()
        for trial in trials
    ]
    return Table("Visited often: local models with half of the labels wrong, %.", ["", "local models", ""], rows)


def _over_rounds(results: Results) -> Picture:
    lines = [results.curve(m, f"{m}, {c}", share("accuracy"), c) for c in TUNED_ON for m in METHODS]
    title = "Accuracy of the shared model on people whom no device has heard, over the rounds."
    return Picture("lines", title, "round", "accuracy, %", lines)


def _over_visits(results: Results) -> Picture:
    lines = {"FedAvg, shared": ("FedAvg", "accuracy"), "FedAvg, local": ("FedAvg", "local_strangers")}
    lines |= {"FedMLAC, plug-in": (FEDMLAC, "accuracy"), "FedMLAC, own": (FEDMLAC, "local_strangers")}
    found = [
        results.curve(line, often(method, c), share(key), c) for c in TUNED_ON for line, (method, key) in lines.items()
    ]
    title = "Visited often: shared and local models on people whom no device has heard, over the rounds."
    return Picture("lines", title, "round", "accuracy, %", found)
