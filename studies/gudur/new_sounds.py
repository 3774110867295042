"""The zero-shot table's new sounds: whether they are matched, and what users who poison them do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import product
from statistics import fmean
from typing import Any

from demo.new_sounds import Report, new_classes
from fleet_simulator.experiment.faults import FaultsSection, attacking_devices
from studies.gudur.runs import POISONED, POISONED_ROUNDS, SCORES, SHARE, SIZES, attacked, fleet_name
from studies.gudur.users import APPLICATIONS, POISONED_USERS
from studies.report import Results, markdown_table
from studies.run import Figures


def discovered(results: Results) -> str:
    """Return the table of new sounds: matched, recognised, and what is taken for them."""
    rows = []
    for application, users in product(APPLICATIONS, SIZES):
        name = fleet_name(application, users, SCORES)
        rows.append([f"{application}, {users} users", *_found(results.figures(name))])
    header = ["", "new sounds matched rightly", "recognised where heard, %", "where not heard, %", "taken for them, %"]
    return (
        "New sounds come without a name, and nobody says how many there are. Matched rightly: all users who met the "
        "sound were given one class, and no other sound was. Recognised: test clips of it that the distilled model "
        "names rightly among all its classes, after the last round; taken for them: test clips of the user's first "
        "labels. Who never heard a sound has but its data impressions.\n\n" + markdown_table(header, rows)
    )


def _found(runs_of: Sequence[Figures]) -> list[str]:
    matched, known = matches(runs_of)
    rows = [item for figures in runs_of for row in figures["rounds"][-1]["users"] for item in row["new_classes"]]
    return [
        f"{matched} of {known}",
        _mean(item["recognised"] for item in rows if item["heard"]),
        _mean(item["recognised"] for item in rows if not item["heard"]),
        _mean(item["mistaken"] for item in rows),
    ]


def matches(runs_of: Sequence[Figures]) -> tuple[int, int]:
    """Return how many new sounds were matched rightly in runs, and how many there were."""
    classes = [matched_rightly(figures) for figures in runs_of]
    return sum(sum(one.values()) for one in classes), sum(map(len, classes))


def matched_rightly(figures: Figures) -> dict[str, bool]:
    """Return which new sounds were matched rightly, by the rule of the demonstration."""
    owners: dict[str, tuple[str, ...]] = {}
    reports: list[Report] = []
    for entry in figures["rounds"]:
        number = entry["round"]
        reports += [Report(number, str(item["user"]), item["label"], item["class_id"]) for item in entry["reports"]]
        for item in entry["arrivals"]:
            user = (str(item["user"]),)
            owners[item["label"]] = tuple(dict.fromkeys(owners.get(item["label"], ()) + user))
    return {item.label: item.matched for item in new_classes(reports, owners)}


def in_several_rounds(figures: Figures) -> set[str]:
    """Return the new sounds that were reported in more than one round."""
    rounds: dict[str, set[int]] = {}
    for entry in figures["rounds"]:
        for item in entry["reports"]:
            rounds.setdefault(item["label"], set()).add(entry["round"])
    return {label for label, found in rounds.items() if len(found) > 1}


def taken_for_new(figures: Figures) -> float:
    """Return the share of clips of users' first labels that they take for new classes after the last round, in %."""
    return fmean(sum(item["mistaken"] for item in row["new_classes"]) for row in figures["rounds"][-1]["users"])


def poisoned(results: Results) -> str:
    """Return the table of users who meet a sound together, of whom some describe it falsely."""
    rows = []
    for attack in (None, *POISONED):
        runs_of = results.figures(attacked(attack))
        made = [float(len({item["class_id"] for item in _reports(figures)} - {None})) for figures in runs_of]
        own = [item["recognised"] for figures in runs_of for item in _own_classes(figures)]
        test = [row["held_out_after"] for figures in runs_of for row in figures["rounds"][-1]["users"]]
        what = POISONED[attack] if attack else "no attackers"
        together, honest = _honest(results, attack)
        count = f"{together} of {honest}"
        rows.append([f"{SHARE if attack else 0:.0%}", what, _mean(made), count, _mean(own), _mean(test)])
    header = [
        "attackers",
        "describing",
        "classes made of one sound",
        "honest users given one class",
        "recognised, %",
        "own labels, test clips, %",
    ]
    seeds = ", ".join(map(str, results.seeds(attacked(None))))
    return (
        f"{POISONED_USERS} users meet the same new sound before round 3 of {POISONED_ROUNDS}; attackers describe "
        "it by the impressions and the profile of another class, or by noise. At best all honest users are given one "
        "class; several classes of one sound count against each other. Recognised: test clips of the sound that a "
        f"user's distilled model takes for the class that this user was given. Seed {seeds}.\n\n"
        + markdown_table(header, rows)
    )


def _honest(results: Results, attack: str | None) -> tuple[int, int]:
    """Return how many users who do not attack were given the class that most of them were given, and how many are."""
    together = honest = 0
    for run, outcome in results.by_name[attacked(attack)]:
        faults = FaultsSection(SHARE if attack else 0.0)
        attackers = {user + 1 for user in attacking_devices(faults, POISONED_USERS, run.seed)}
        given = {
            item["user"]: item["class_id"]
            for item in _reports(outcome.figures)
            if item["user"] not in attackers and item["class_id"] is not None
        }
        together += max(Counter(given.values()).values(), default=0)
        honest += POISONED_USERS - len(attackers)
    return together, honest


def _reports(figures: Figures) -> list[dict[str, Any]]:
    return [item for entry in figures["rounds"] for item in entry["reports"]]


def _own_classes(figures: Figures) -> list[dict[str, Any]]:
    """Return how every user, in the end, recognises the classes that were made of its own reports."""
    given = {(item["user"], item["class_id"]) for item in _reports(figures)}
    rows = figures["rounds"][-1]["users"]
    return [item for row in rows for item in row["new_classes"] if (row["user"], item["class_id"]) in given]


def _mean(values: Iterable[float]) -> str:
    found = list(values)
    return f"{fmean(found):.1f}" if found else "-"
