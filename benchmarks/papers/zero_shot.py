"""Zero-shot federated learning with new classes (Gudur & Perepu 2021): tables 2 and 3, and attackers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.demo.outcome import Report, RoundOutcome, new_classes
from benchmarks.demo.paper import ARCHITECTURES, SHOWN_AS
from benchmarks.papers.report import Results, gain, markdown_table, mean_and_spread
from benchmarks.papers.run import Call, Figures, Run
from benchmarks.papers.scale import Scale
from benchmarks.papers.zero_shot_users import ALL_ARCHITECTURES, APPLICATIONS, POISONED_USERS, play

TITLE = "Zero-shot learning of new classes among users with models and labels of their own"
PAPER = "Gudur & Perepu 2021"

SIZES = {3: 10, 10: 30}  # users and iterations
SHARED = "sounds, 3 users, recordings shared"
FORMS = {"normalised": True, "literal": False}
POISONED = {"poisoned_impressions": "another class", "noise": "noise"}
RATES = (0.0, 1 / 3, 0.5)
_POISONED_ROUNDS = 5
_FULL_LOCAL = {"epochs": 32}
_COST_S = {("keywords", 3): 40.0, ("keywords", 10): 300.0, ("sounds", 3): 20.0, ("sounds", 10): 90.0}


def runs(scale: Scale) -> list[Run]:
    """Return the runs.

    At the small scale the large fleets have two seeds and one in the literal form: they take most of the time.
    """
    bundles = scale.bundles(ALL_ARCHITECTURES)
    found = []
    for application, chosen in APPLICATIONS.items():
        fixed = {"application": application, "bundles": bundles, "data": scale.data(chosen.folder)}
        for users, rounds in SIZES.items():
            for form, normalise in FORMS.items():
                seeds = range(1, 6) if scale.full else _seeds(users, form)
                local = {**chosen.local[users], **(_FULL_LOCAL if scale.full else {})}
                work = {"users": users, "rounds": rounds, "normalise": normalise, "local": local} | fixed
                cost = _COST_S[application, users] * (3 if scale.full else 1)
                found += [_run(_name(application, users, form), seed, work, cost) for seed in seeds]
    return found + _of_sounds(scale, bundles)


def _of_sounds(scale: Scale, bundles: Mapping[str, Path]) -> list[Run]:
    """Return what is measured on sounds alone: recordings that public set and users share, and attackers."""
    found, seeds, chosen = [], range(1, 6 if scale.full else 4), APPLICATIONS["sounds"]
    fixed = {"application": "sounds", "bundles": bundles, "data": scale.data(chosen.folder)}
    shared = {"users": 3, "rounds": SIZES[3], "by_speaker": False, "local": chosen.local[3]} | fixed
    found += [_run(SHARED, seed, shared, _COST_S["sounds", 3]) for seed in seeds]
    for rate in RATES:
        for attack in POISONED if rate else ("poisoned_impressions",):
            work = {"users": POISONED_USERS, "rounds": _POISONED_ROUNDS, "attackers": rate, "attack": attack} | fixed
            work |= {"local": chosen.local[POISONED_USERS]}
            found += [_run(_lie(attack, rate), seed, work, 15.0) for seed in seeds]
    return found


def _run(name: str, seed: int, work: Mapping[str, Any], cost: float) -> Run:
    return Run(name, seed, Call(play, {**work, "seed": seed}), cost, corpus=str(work["application"]))


def _seeds(users: int, form: str) -> range:
    return range(1, 4) if users == 3 else range(1, 3 if form == "normalised" else 2)


def section(results: Results) -> str:
    """Return the tables."""
    lines = [_setting(results)]
    for application in APPLICATIONS:
        lines += [f"### {application.capitalize()}, 3 users, 10 iterations", _small(results, application)]
    lines += [_shared(results), "### 10 users, 30 iterations, models that change", _large(results)]
    lines += [
        "### New classes",
        _discovered(results),
        "### Attackers who poison a new sound",
        _poisoned_reports(results),
    ]
    lines += ["### Claims reproduced", _verdict(results)]
    return "\n".join(lines)


def accuracy(kind: str, user: int | None = None, last: int | None = None) -> Callable[[Figures], float]:
    """Return what takes a mean accuracy in % out of a run's figures.

    Args:
        kind: such as ``local_accuracy``; rounds that were not judged by it do not count.
        user: counts from 1; None: the mean over all.
        last: of so many rounds at the end; None: of all.
    """

    def mean(figures: Figures) -> float:
        rounds = figures["rounds"] if last is None else figures["rounds"][-last:]
        rows = (row for entry in rounds for row in entry["users"] if user is None or row["user"] == user)
        return fmean(row[kind] for row in rows if kind in row)

    return mean


def _setting(results: Results) -> str:
    shown = "; ".join(f"user {number}: {SHOWN_AS[name]}" for number, name in enumerate(ARCHITECTURES, 1))
    seeds = ", ".join(map(str, results.seeds(_name("keywords", 3, "normalised"))))
    return (
        f"Schedule, labels and clips in a round are the paper's. {shown}; of ten users, every third is alike. Hidden "
        "layers use ReLU: the paper's softmax is taken to be the output's. Keywords are the log-mel archive's, about "
        "240 of each in the public set (paper: 300); sounds are the UrbanSound8K subset's, fewer than 40 in a round "
        "where ten users share them. No speaker and no original recording is in two of: public set, test clips, a "
        "user's clips; the paper says nothing of that.\n\n"
        "Local: the user's own model on the public recordings of its labels, before it learns from the fleet; global: "
        "the fleet's scores on the same; both are means over the iterations, as in the paper. Distilled: the user's "
        "own model once it has learned from the fleet's scores. Literal: scores are added up as the paper has it; "
        "normalised: divided by the sum of beta, label by label. New sounds come without a name, and nobody says how "
        f"many there are. Seeds {seeds}; settings were tuned on seeds from 100 on.\n"
    )


def _small(results: Results, application: str) -> str:
    published = APPLICATIONS[application].published
    theirs = [*published.users, published.average]
    rows = []
    for user, (before, after) in zip((1, 2, 3, None), theirs, strict=True):
        one = _row(results, _name(application, 3, "normalised"), user)
        literal = _row(results, _name(application, 3, "literal"), user)
        name = f"user {user}" if user else "average"
        rows.append([name, f"{before:.1f} → {after:.1f}", f"+{after - before:.1f}", *one, literal[1], literal[2]])
    header = ["", "paper", "gain", "local", "global", "gain", "distilled", "literal: global", "gain"]
    held_out = [results.cell(_name(application, 3, "normalised"), accuracy(f"held_out_{when}"), 1.0)
                for when in ("before", "after")]  # fmt: skip
    last = _row(results, _name(application, 3, "normalised"), None, last=3)
    return markdown_table(header, rows) + (
        f"\nLast three iterations: {last[0]} → {last[1]} ({last[2]}). Own models on test clips of the users' labels, "
        f"old and new, before and after they learned: {held_out[0]} → {held_out[1]}.\n"
    )


def _shared(results: Results) -> str:
    local, fleet, more, _ = _row(results, SHARED, None)
    return (
        "Where each clip is dealt for itself, so that slices of one recording are in the public set and with users, "
        f"sounds come to {local} → {fleet} ({more}): the paper does not say that it kept them apart.\n"
    )


def _row(results: Results, name: str, user: int | None, last: int | None = None) -> list[str]:
    local, fleet, own = (
        results.values(name, accuracy(f"{kind}_accuracy", user, last)) for kind in ("local", "global", "distilled")
    )
    return [mean_and_spread(local), mean_and_spread(fleet), gain(fleet, local), mean_and_spread(own)]


def _large(results: Results) -> str:
    header = ["", "paper", "gain", "local", "global", "gain", "distilled"]
    rows = []
    for application, chosen in APPLICATIONS.items():
        before, after = chosen.heterogeneous
        for form in FORMS:
            name = _name(application, 10, form)
            paper = [f"{before:.1f} → {after:.1f}", f"+{after - before:.1f}"]
            rows.append([f"{application}, {form}, all iterations", *paper, *_row(results, name, None)])
            rows.append([f"{application}, {form}, last three", *paper, *_row(results, name, None, last=3)])
    return markdown_table(header, rows)


def _discovered(results: Results) -> str:
    rows = []
    for application in APPLICATIONS:
        for users in SIZES:
            name = _name(application, users, "normalised")
            rows.append([f"{application}, {users} users", *_found(results.figures(name))])
    header = ["", "new sounds matched rightly", "recognised where heard, %", "where not heard, %", "taken for them, %"]
    return markdown_table(header, rows) + (
        "\nMatched rightly: all users who met the sound were given one class, and no other sound was. Recognised: test "
        "clips of it that the distilled model names rightly among all its classes, after the last round; taken for "
        "them: test clips of the user's first labels. Who never heard a sound has but its data impressions.\n"
    )


def _found(runs_of: Sequence[Figures]) -> list[str]:
    matched, known = 0, 0
    for figures in runs_of:
        classes = _new_classes(figures)
        matched, known = matched + sum(classes.values()), known + len(classes)
    rows = [item for figures in runs_of for row in figures["rounds"][-1]["users"] for item in row["new_classes"]]
    return [
        f"{matched} of {known}",
        _mean(item["recognised"] for item in rows if item["heard"]),
        _mean(item["recognised"] for item in rows if not item["heard"]),
        _mean(item["mistaken"] for item in rows),
    ]


def _new_classes(figures: Figures) -> dict[str, bool]:
    """Return which new sounds were matched rightly, by the rule of the demonstration."""
    owners: dict[str, tuple[str, ...]] = {}
    rounds = []
    for entry in figures["rounds"]:
        reports = tuple(Report(str(item["user"]), item["label"], item["class_id"]) for item in entry["reports"])
        rounds.append(RoundOutcome(entry["round"], 0.0, (), reports))
        for item in entry["arrivals"]:
            user = (str(item["user"]),)
            owners[item["label"]] = tuple(dict.fromkeys(owners.get(item["label"], ()) + user))
    return {item.label: item.matched for item in new_classes(rounds, owners)}


def _poisoned_reports(results: Results) -> str:
    rows = []
    for rate in RATES:
        for attack in POISONED if rate else ("poisoned_impressions",):
            runs_of = results.figures(_lie(attack, rate))
            made = [float(len({item["class_id"] for item in _reports(figures)} - {None})) for figures in runs_of]
            own = [item["recognised"] for figures in runs_of for item in _own_classes(figures)]
            held_out = [row["held_out_after"] for figures in runs_of for row in figures["rounds"][-1]["users"]]
            what = POISONED[attack] if rate else "no attackers"
            rows.append([f"{rate:.0%}", what, _mean(made), _mean(own), _mean(held_out)])
    header = ["attackers", "describing", "classes made of one sound", "recognised, %", "own labels, test clips, %"]
    return (
        f"{POISONED_USERS} users meet the same new sound before round 3 of {_POISONED_ROUNDS}; attackers describe "
        "it by the impressions and the profile of another class, or by noise. Recognised: test clips of the sound that "
        "a user's distilled model takes for the class that this user was given.\n\n" + markdown_table(header, rows)
    )


def _reports(figures: Figures) -> list[dict[str, Any]]:
    return [item for entry in figures["rounds"] for item in entry["reports"]]


def _own_classes(figures: Figures) -> list[dict[str, Any]]:
    """Return how every user, in the end, recognises the classes that were made of its own reports."""
    given = {(item["user"], item["class_id"]) for item in _reports(figures)}
    rows = figures["rounds"][-1]["users"]
    return [item for row in rows for item in row["new_classes"] if (row["user"], item["class_id"]) in given]


def _verdict(results: Results) -> str:
    lines = []
    for application, chosen in APPLICATIONS.items():
        before, after = chosen.published.average
        for users, theirs in ((3, after - before), (10, chosen.heterogeneous[1] - chosen.heterogeneous[0])):
            name = _name(application, users, "normalised")
            ours = fmean(results.values(name, accuracy("global_accuracy"))) - fmean(
                results.values(name, accuracy("local_accuracy"))
            )
            word = "at least the published" if ours >= theirs else "less than the published"
            lines.append(f"- {application.capitalize()}, {users} users: gain {ours:+.1f}, {word} {theirs:+.1f}.")
    return "\n".join(lines) + "\n" + TRIED


TRIED = """
Tried on other seeds: the gain comes from iterations that differ. Keywords at a learning rate of 0.02 (10 passes) gained
1.8 points (86.4 → 88.2), at 0.05 2.6 (88.6 → 91.2), at 0.06 (12 passes) 3.3 and 3.5 (88.7 → 92.0, 89.2 → 92.7); at 0.08
a user's model fell to 74 % in the end. Scores at a temperature of 2 gained 0.6 points less than at 4. Sounds at 0.03
gained more than at 0.02 (4.2 for 2.5 points, two seeds), but a training diverged; where their recordings are shared,
that rate came to 70.1 → 84.3 and 74.6 → 82.4. A run whose training diverges is run again at half the learning rate.
"""


def _mean(values: Iterable[float]) -> str:
    found = list(values)
    return f"{fmean(found):.1f}" if found else "-"


def _name(application: str, users: int, form: str) -> str:
    return f"{application}, {users} users, {form}"


def _lie(attack: str, rate: float) -> str:
    return f"{rate:.0%} describe {POISONED[attack]}" if rate else "no attackers"
