"""Gudur & Perepu 2021: the runs with and without a fleet, the trials that chose their rates, and what they come to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise, product
from statistics import fmean
from typing import Any

from demo.devices import Report, new_classes
from fleet_simulator.experiment.faults import FaultsSection, attacking_devices
from studies.fleets import Scale
from studies.gudur.alone import KINDS, without_fleet
from studies.gudur.users import ALL_ARCHITECTURES, APPLICATIONS, POISONED_USERS, play
from studies.run import Call, Figures, Run
from studies.study import Cell, Figure, Picture, Results, Summary, Table, measured

SIZES = {3: 10, 10: 30}  # users and iterations
SCORES, LITERAL, LABELS = "scores", "scores, literal", "labels"
WITHOUT = tuple(KINDS)[:2]
ALONE, PUBLIC_ONLY = WITHOUT
# How many seeds each form has at the small scale, by the number of users; at the full scale all have five.
SEEDS = {3: {SCORES: 2, ALONE: 2, PUBLIC_ONLY: 2, LABELS: 1, LITERAL: 1}, 10: {SCORES: 2, ALONE: 2}}
SHARED = "sounds, 3 users, recordings shared"
POISONED = {"poisoned_impressions": "another class", "noise": "noise"}
SHARE = 1 / 3  # of the attackers
TUNING_SEEDS, TUNING_ROUNDS = (100, 101), 5
TRIALS = (0.02, 0.04, 0.08)
TUNED = (ALONE, PUBLIC_ONLY, SCORES, LABELS)
# What the tuning chose, by application.
RATES = {
    "keywords": {ALONE: 0.08, PUBLIC_ONLY: 0.08, SCORES: 0.04, LABELS: 0.08},
    "sounds": {ALONE: 0.02, PUBLIC_ONLY: 0.02, SCORES: 0.04, LABELS: 0.02},
}
TUNED_ALONE_SEED = TUNING_SEEDS[0]  # of ten users, over all rounds
POISONED_ROUNDS = 5
DISTILLED = 2  # passes over the public set after a round


def rate_of(application: str, form: str) -> float:
    """Return the chosen learning rate; the form to the letter takes that of the other."""
    return RATES[application][SCORES if form == LITERAL else form]


def trial(application: str, form: str, rate: float, users: int = 3) -> str:
    """Return the name of a tuning trial's runs."""
    return f"{application}, {form if users == 3 else f'{users} users, {form}'}, rate {rate:g}"


def fleet_name(application: str, users: int, form: str) -> str:
    """Return the name of the runs of a schedule."""
    return f"{application}, {users} users, {form}"


def attacked(attack: str | None) -> str:
    """Return the name of the runs of users of whom some attack; None: nobody does."""
    return f"attackers describe {POISONED[attack]}" if attack else "no attackers"


FORMS = {
    PUBLIC_ONLY: "public only",
    ALONE: "alone",
    SCORES: "own clips, then the fleet's scores (the paper's)",
    LITERAL: "the same to the letter",
    LABELS: "own clips and public labels (the default)",
}
_FELL = 20.0  # points from one round to the next
_FAILED = 40.0  # % of own clips, below which a network alone counts as failed
_KINDS = {"own": "own_after", "strangers": "held_out_after"}
_ALL, _FIRST, _LAST = slice(None), slice(3), slice(-3, None)


def summary(results: Results) -> Summary:
    """Return the study's tables and its picture."""
    tables = {
        "scores": _scores(results),
        "listening": _listening(results),
        "falls": _falls(results),
        "failed": _failed(results),
        "new-sounds": _new_sounds(results),
        "poisoned": _poisoned(results),
        "tuning": _tuning(results),
    }
    lines = {"the fleet's scores": "global_accuracy", "own models": "local_accuracy"}
    series = [
        results.curve(line, fleet_name(application, 3, SCORES), _of_users(key), application)
        for application in APPLICATIONS
        for line, key in lines.items()
    ]
    title = "Accuracy of the fleet's scores and of the users' own models over the rounds, three users."
    return Summary(tables, {"rounds": Picture("lines", title, "round", "accuracy, %", series)})


def _of_users(key: str) -> Figure:
    """Return what takes the mean over a round's users; None where none has the figure."""

    def mean(entry: Figures) -> float | None:
        found = [float(user[key]) for user in entry["users"] if user.get(key) is not None]
        return fmean(found) if found else None

    return mean


def accuracy(kind: str, user: int | None = None, rounds: slice = _ALL) -> Figure:
    """Return what takes a mean accuracy in % out of a run's figures."""

    def mean(figures: Figures) -> float:
        rows = (row for entry in figures["rounds"][rounds] for row in entry["users"])
        return fmean(row[kind] for row in rows if kind in row and user in (None, row["user"]))

    return mean


def gain(user: int | None = None, rounds: slice = _ALL) -> Figure:
    """Return what takes out of a run by how many points the fleet's scores are better than the users' own models."""
    fleet, local = (accuracy(kind, user, rounds) for kind in ("global_accuracy", "local_accuracy"))
    return lambda figures: (fleet(figures) or 0.0) - (local(figures) or 0.0)


def heard(what: str) -> Figure:
    """Return what takes the mean accuracy in % of the models that users listen with out of a run's figures."""

    def mean(figures: Figures) -> float:
        if "users" in figures:  # without a fleet
            return fmean(user[what] for user in figures["users"])
        return fmean(user[_KINDS[what]] for user in figures["rounds"][-1]["users"])

    return mean


def listening(figures: Figures) -> float:
    """Return what a form is judged and tuned by: the mean of own and strangers', in %."""
    return fmean(heard(what)(figures) or 0.0 for what in _KINDS)


def _clips(figures: Figures) -> float:
    return fmean(row["clips"] for entry in figures["rounds"] for row in entry["users"])


def _scores(results: Results) -> Table:
    rows: list[list[Cell]] = []
    for application, users in product(APPLICATIONS, SIZES):
        forms = {"": fleet_name(application, users, SCORES)}
        if users == 3:
            forms[", to the letter"] = fleet_name(application, 3, LITERAL)
            forms |= {", recordings shared": SHARED} if application == "sounds" else {}
        for (form, name), user in product(forms.items(), (1, 2, 3, None)):
            if user is None or (users == 3 and name != SHARED):
                kinds = [accuracy(f"{kind}_accuracy", user) for kind in ("local", "global")]
                kinds += [gain(user, rounds) for rounds in (_ALL, _FIRST, _LAST)] + [_clips] * (user is None)
                label = f"{application}, {users} users{form}" + (f", user {user}" if user else "")
                cells = [results.cell(name, kind, 1) for kind in kinds]
                rows.append([label, *cells, *[None] * (6 - len(cells))])
    columns = ["", "own models, %", "fleet's scores, %", "gain, points", "gain, first three rounds"]
    columns += ["gain, last three rounds", "clips in a round"]
    return Table("The fleet's scores over the users' own models, means over the rounds.", columns, rows)


def _listening(results: Results) -> Table:
    rows: list[list[Cell]] = []
    for application, users, form in product(APPLICATIONS, SIZES, FORMS):
        name, alone = fleet_name(application, users, form), fleet_name(application, users, ALONE)
        if results.seeds(name):  # with ten users there are two forms
            cells = [results.cell(name, heard(what), 1) for what in _KINDS]
            more = [None if form == ALONE else results.gain(name, alone, heard(what), 1) for what in _KINDS]
            samples = round(_samples(results, application, users, form))
            label = f"{application}, {users} users: {FORMS[form]}"
            rows.append([label, rate_of(application, form), samples, *cells, *more])
    columns = ["", "rate", "thousand samples", "own clips, %", "strangers, %"]
    columns += ["own, over alone", "strangers, over alone"]
    return Table("The models that users listen with, after the last round.", columns, rows)


def _samples(results: Results, application: str, users: int, form: str) -> float:
    """Return on how many thousand samples a user's model is trained, passes over the public set included."""

    def of(kind: str, size: int) -> float:
        runs_of = results.figures(fleet_name(application, size, kind))
        return fmean(user["samples"] for figures in runs_of for user in figures["users"]) / 1000

    if form in WITHOUT:
        return of(form, users)
    public = of(PUBLIC_ONLY, 3)  # ten users have as many labels, and as many public clips of each
    after = public * DISTILLED / APPLICATIONS[application].passes[3] * SIZES[users] / SIZES[3]
    return after + of(ALONE, users) + (public if form == LABELS else 0.0)


def fallen(figures: Figures) -> list[tuple[int, int, float, float]]:
    """Return whose models lost 20 points or more on own clips from one round to the next: user, round, and both."""
    return [
        (now["user"], after["round"], was["own_after"], now["own_after"])
        for before, after in pairwise(figures["rounds"])
        for was, now in zip(before["users"], after["users"], strict=True)
        if was["own_after"] - now["own_after"] >= _FELL
    ]


def _falls(results: Results) -> Table:
    """Return the falls in runs of three users, with what those gained over alone whose models did not fall."""
    rows: list[list[Cell]] = []
    for application, form in product(APPLICATIONS, (SCORES, LITERAL, LABELS)):
        name, alone = (fleet_name(application, 3, kind) for kind in (form, ALONE))
        base = dict(zip(results.seeds(alone), results.figures(alone), strict=True))
        for seed, figures in zip(results.seeds(name), results.figures(name), strict=True):
            falls = fallen(figures)
            others = {1, 2, 3} - {user for user, *_ in falls}
            last = [row for row in figures["rounds"][-1]["users"] if row["user"] in others]
            gained = [
                _mean(row[key] - base[seed]["users"][row["user"] - 1][what] for row in last)
                for what, key in _KINDS.items()
            ]
            for user, at, before, after in falls:
                label = f"{application}, {form}, seed {seed}"
                rows.append([label, user, at, measured({seed: before}), measured({seed: after}), *gained])
    columns = ["", "user", "round", "before, %", "after, %", "others over alone: own", "others over alone: strangers"]
    return Table("Models of three users that fell by 20 points or more on own clips in a round.", columns, rows)


def _failed(results: Results) -> Table:
    rows: list[list[Cell]] = []
    for application in APPLICATIONS:
        alone, fleet = (fleet_name(application, 10, form) for form in (ALONE, SCORES))
        after = [row for figures in results.figures(fleet) for row in figures["rounds"][-1]["users"]]
        before = [row for figures in results.figures(alone) for row in figures["users"]]
        pairs = [(row, base) for row, base in zip(after, before, strict=True) if base["own"] >= _FAILED]
        ours = _mean((row["own_after"] + row["held_out_after"]) / 2 for row, _ in pairs)
        theirs = _mean((base["own"] + base["strangers"]) / 2 for _, base in pairs)
        rows.append([application, len(before), len(before) - len(pairs), ours, theirs])
    columns = ["ten users", "networks alone", "failed alone", "others: with the fleet, %", "others: alone, %"]
    return Table(f"Networks that alone know less than {_FAILED:g} % of own clips, and the other users.", columns, rows)


def _new_sounds(results: Results) -> Table:
    rows: list[list[Cell]] = []
    for application, users in product(APPLICATIONS, SIZES):
        runs_of = results.figures(fleet_name(application, users, SCORES))
        matched = [found for figures in runs_of for found in matched_rightly(figures)]
        at_once, later = ([right for right, several in matched if several == way] for way in (False, True))
        last = [row for figures in runs_of for row in figures["rounds"][-1]["users"]]
        items = [item for row in last for item in row["new_classes"]]
        counts = [f"{sum(of)} of {len(of)}" for of in ([right for right, _ in matched], at_once, later)]
        known = [_mean(item["recognised"] for item in items if item["heard"] == way) for way in (True, False)]
        any_of = _mean(sum(item["mistaken"] for item in row["new_classes"]) for row in last)
        taken = [_mean(item["mistaken"] for item in items), any_of]
        rows.append([f"{application}, {users} users", *counts, *known, *taken])
    columns = ["", "matched rightly", "of those reported in one round", "in several rounds"]
    columns += ["recognised where heard, %", "where not heard, %", "taken for one, %", "taken for any, %"]
    return Table("New sounds, after the last round.", columns, rows)


def matched_rightly(figures: Figures) -> list[tuple[bool, bool]]:
    """Return of every new sound whether it was matched rightly, and whether it was reported in several rounds."""
    owners: dict[str, tuple[str, ...]] = {}
    rounds: dict[str, set[int]] = {}
    reports: list[Report] = []
    for entry in figures["rounds"]:
        number = entry["round"]
        reports += [Report(number, str(item["user"]), item["label"], item["class_id"]) for item in entry["reports"]]
        for item in entry["reports"]:
            rounds.setdefault(item["label"], set()).add(number)
        for item in entry["arrivals"]:
            owners[item["label"]] = tuple(dict.fromkeys((*owners.get(item["label"], ()), str(item["user"]))))
    return [(item.matched, len(rounds.get(item.label, ())) > 1) for item in new_classes(reports, owners)]


def _poisoned(results: Results) -> Table:
    rows: list[list[Cell]] = []
    for attack in (None, *POISONED):
        name = attacked(attack)
        runs_of = results.figures(name)
        made = (len({item["class_id"] for item in _reports(figures)} - {None}) for figures in runs_of)
        own = []  # how every user, in the end, recognises the classes that were made of its own reports
        for figures in runs_of:
            given = {(item["user"], item["class_id"]) for item in _reports(figures)}
            for row in figures["rounds"][-1]["users"]:
                own += [one["recognised"] for one in row["new_classes"] if (row["user"], one["class_id"]) in given]
        test = (row["held_out_after"] for figures in runs_of for row in figures["rounds"][-1]["users"])
        honest = [_honest(figures, seed, attack) for seed, figures in zip(results.seeds(name), runs_of, strict=True)]
        together, of = map(sum, zip(*honest, strict=True))
        what = POISONED[attack] if attack else "no attackers"
        rows.append(
            [what, f"{SHARE if attack else 0:.0%}", _mean(made), f"{together} of {of}", _mean(own), _mean(test)]
        )
    columns = ["described", "attackers", "classes made of one sound", "honest users given one class"]
    return Table("Attackers about a new sound.", [*columns, "recognised, %", "own labels, test clips, %"], rows)


def _honest(figures: Figures, seed: int, attack: str | None) -> tuple[int, int]:
    """Return how many users who do not attack were given the class that most of them were given, and how many are."""
    attackers = attacking_devices(FaultsSection(SHARE if attack else 0.0), POISONED_USERS, seed)
    given: Mapping[int, str] = {
        item["user"]: item["class_id"]
        for item in _reports(figures)
        if item["user"] - 1 not in attackers and item["class_id"] is not None
    }
    return max(Counter(given.values()).values(), default=0), POISONED_USERS - len(attackers)


def _reports(figures: Figures) -> list[dict[str, Any]]:
    return [item for entry in figures["rounds"] for item in entry["reports"]]


def _tuning(results: Results) -> Table:
    tried = [(application, form, 3) for application, form in product(APPLICATIONS, TUNED)]
    rows: list[list[Cell]] = []
    for application, form, users in [*tried, *((application, ALONE, 10) for application in APPLICATIONS)]:
        names = [trial(application, form, rate, users) for rate in TRIALS]
        gains = [results.cell(name, gain(), 1) if form == SCORES else None for name in names]
        found = [results.cell(name, listening, 1) for name in names]
        rows.append([f"{application}, {users} users: {FORMS[form]}", *found, rate_of(application, form), *gains])
    columns = ["", *(f"{rate}, %" for rate in TRIALS), "chosen", *(f"scores' gain at {rate}" for rate in TRIALS)]
    return Table("The mean of own and strangers' by the learning rate.", columns, rows)


def _mean(values: Iterable[float]) -> Cell:
    found = list(values)
    return {"mean": round(fmean(found), 3), "deviation": None} if found else None


_COST_S = {"keywords": {3: 40.0, 10: 195.0}, "sounds": {3: 20.0, 6: 20.0, 10: 90.0}}
_TRAINING = 0.3  # share of that which is training on clips, and all that there is without a fleet


def runs(scale: Scale) -> list[Run]:
    """Return the tuning trials, the paper's two schedules with and without a fleet, and what is measured on sounds."""
    bundles = scale.bundles(ALL_ARCHITECTURES)
    found = []
    for application, chosen in APPLICATIONS.items():
        making = _Making(application, {"bundles": bundles, "data": scale.data(chosen.folder)}, scale.full)
        found += making.trials()
        for users in SIZES:
            found += making.fleet(users)
        found += making.of_sounds() if application == "sounds" else []
    return found


@dataclass(frozen=True)
class _Making:
    """Makes the runs of an application."""

    application: str
    fixed: Mapping[str, Any]
    full: bool

    def trials(self) -> list[Run]:
        """Return the tuning trials: of every form the same."""
        return [
            self._run(trial(self.application, form, rate), seed, form, 3, TUNING_ROUNDS, rate)
            for seed in TUNING_SEEDS
            for form in TUNED
            for rate in TRIALS
        ] + [
            self._run(trial(self.application, ALONE, rate, 10), TUNED_ALONE_SEED, ALONE, 10, SIZES[10], rate)
            for rate in TRIALS
        ]

    def fleet(self, users: int) -> list[Run]:
        """Return the runs of a schedule: with 3 users of every form, with 10 of the paper's and of models alone."""
        found = []
        for form, seeds in SEEDS[users].items():
            for seed in range(1, 6 if self.full else 1 + seeds):
                name, rate = fleet_name(self.application, users, form), rate_of(self.application, form)
                found.append(self._run(name, seed, form, users, SIZES[users], rate))
        return found

    def of_sounds(self) -> list[Run]:
        """Return the runs with recordings that public set and users share, and those with attackers."""
        rate, found = rate_of(self.application, SCORES), []
        for seed in range(1, 6 if self.full else 2):
            found.append(self._run(SHARED, seed, SCORES, 3, SIZES[3], rate, by_speaker=False))
            for attack in (None, *POISONED):
                more = {"attackers": SHARE if attack else 0.0, "attack": attack or "noise"}
                found.append(self._run(attacked(attack), seed, SCORES, POISONED_USERS, POISONED_ROUNDS, rate, **more))
        return found

    def _run(self, name: str, seed: int, form: str, users: int, rounds: int, rate: float, **more: Any) -> Run:  # noqa: ANN401
        usual = APPLICATIONS[self.application].passes[users]
        passes = 32 if self.full else usual
        local: dict[str, Any] = {"epochs": passes, "learning_rate": rate}
        work = {"application": self.application, "users": users, "rounds": rounds, "seed": seed, **self.fixed}
        share = _TRAINING * passes / usual + (0.0 if form in WITHOUT else 1.0 - _TRAINING)
        cost = _COST_S[self.application][users] * share * rounds / SIZES.get(users, rounds)
        if form in WITHOUT:
            call = Call(without_fleet, {"kind": form, "local": local, **work})
        else:
            local |= {"labels": True} if form == LABELS else {}
            call = Call(play, {"normalise": form != LITERAL, "local": local, **work, **more})
        return Run(name, seed, call, cost, corpus=self.application)
