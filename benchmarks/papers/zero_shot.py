"""Zero-shot federated learning with new classes (Gudur & Perepu 2021): tables 2 and 3, and attackers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise, product
from statistics import fmean, stdev
from typing import Any

from benchmarks.demo.deal import deal
from benchmarks.demo.outcome import Report, RoundOutcome, new_classes
from benchmarks.demo.paper import ARCHITECTURES, SHOWN_AS
from benchmarks.papers.report import Claim, Results, claims_table, gain, markdown_table, mean_and_spread, verdict
from benchmarks.papers.run import Figures
from benchmarks.papers.zero_shot_runs import (
    ALONE,
    DISTILLED,
    LABELS,
    LITERAL,
    POISONED,
    POISONED_ROUNDS,
    PUBLIC_ONLY,
    SCORES,
    SHARE,
    SHARED,
    SIZES,
    TRIALS,
    TUNED,
    TUNED_ALONE_SEED,
    TUNING_ROUNDS,
    TUNING_SEEDS,
    WITHOUT,
    attacked,
    fleet_name,
    rate_of,
    trial,
)
from benchmarks.papers.zero_shot_runs import runs as runs
from benchmarks.papers.zero_shot_users import APPLICATIONS, POISONED_USERS
from fleet_simulator.experiment.faults import FaultsSection, attacking_devices

TITLE = "Zero-shot learning of new classes among users with models and labels of their own"
PAPER = "Gudur & Perepu 2021"

_FORMS = {
    PUBLIC_ONLY: "public only", ALONE: "alone",
    SCORES: "own clips, then the fleet's scores (the paper's)", LITERAL: "the same to the letter",
    LABELS: "own clips and public labels (the default)",
}  # fmt: skip
# What has fewer seeds than the paper's form with 3 users at the small scale.
_RARE = {
    "the default": fleet_name("keywords", 3, LABELS), "the form to the letter": fleet_name("keywords", 3, LITERAL),
    "shared recordings": SHARED, "attackers": attacked(None),
}  # fmt: skip
_OF_FALLS = (
    "\nUsers of three whose model fell by 20 points or more on own clips from one round to the next, and what the "
    "others of their fleet gained against alone: {}. The rates were chosen after five rounds.\n"
)
_FELL = 20.0  # points from one round to the next
_FAILED = 40.0  # % of own clips, below which a network alone counts as failed
_WEAKER = 5.0  # points by which local models may be behind the published ones where a gain over them is reproduced
_ALL, _FIRST, _LAST = slice(None), slice(3), slice(-3, None)  # rounds
# docs/pi.md and docs/models.md hold these figures: instructions of cnn2 on ARMv7, counted, and files.
_ON_A_BOARD = [
    Claim(
        "An epoch on a Raspberry Pi 2 takes 1.2 s, an inference 11 ms", "1.2 s, 11 ms",
        "0.68 million instructions a training sample, 0.44 million an inference (`cnn2`)", "in part",
        "Counted, not timed: no board was at hand ([pi.md](pi.md#instructions-on-armv7)). A core of 900 MHz that "
        "executes one a cycle takes 0.8 s for 1,000 clips and 0.5 ms for an inference.",
    ),
    Claim(
        "Models of 520, 350 and 270 kB", "520, 350, 270 kB", "bundles of 134, 149 and 144 kB", "yes",
        "Smaller ([models.md](models.md#networks)).",
    ),
]  # fmt: skip


def section(results: Results) -> str:
    """Return the tables: by the paper's measure, by the models that listen, new classes, attackers, tuning, claims."""
    lines = [_setting(results), "### By the paper's measure: the fleet's scores over the users' own models"]
    lines += [_scores(results), "### The model that the device listens with", _listening(results)]
    lines += ["### New classes", _discovered(results)]
    lines += ["### Attackers who poison a new sound", _poisoned_reports(results)]
    lines += ["### Tuning of the learning rate", _tuning(results), claims_table(_claims(results))]
    return "\n".join(lines)


def accuracy(kind: str, user: int | None = None, rounds: slice = _ALL) -> Callable[[Figures], float]:
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


def gains(results: Results, name: str, rounds: slice = _ALL, user: int | None = None) -> list[float]:
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


def _setting(results: Results) -> str:
    shown = ", ".join(f"user {number} has a {SHOWN_AS[name]}" for number, name in enumerate(ARCHITECTURES, 1))
    seeds = ", ".join(map(str, results.seeds(fleet_name("keywords", 3, SCORES))))
    words, sounds = APPLICATIONS["keywords"].passes, APPLICATIONS["sounds"].passes
    return (
        f"Schedule, labels and clips in a round are the paper's. Of three users, {shown}. Of ten users, every third "
        "is alike, and some get another network in the course of the rounds, as in the paper's table 3. Hidden "
        "layers use ReLU: the paper's softmax is taken to be the output's. Keywords are the log-mel archive's, about "
        "240 of each in the public set (paper: 300); sounds are the UrbanSound8K subset's, fewer than 40 in a round "
        "where ten users share them. No speaker and no original recording is in two of: public set, test clips, a "
        "user's clips; the paper says nothing of that. A fifth of every user's clips is held out.\n\n"
        f"Passes over the clips of a round: {words[3]} of keywords and {sounds[3]} of sounds, with ten users "
        f"{words[10]} and {sounds[10]}; the paper does not say how many. Seeds {seeds}{_rare(results)}. The learning "
        "rate was chosen by the accuracy of the models that users listen with, on other seeds, with as many trials for "
        "each form ([below](#tuning-of-the-learning-rate)). The form to the letter takes the rate of the paper's form, "
        "and ten users those of three. A run whose training diverges is run again at half the rate; a rate at which "
        "one did was not chosen.\n\n"
        "A claimed gain is reproduced if ours, the mean over all iterations, is as large, over local models that are "
        f"at most {_WEAKER:g} points less accurate than the published ones: weak models are easily improved. Else it "
        "is reproduced in part if it is larger than its standard deviation over the seeds.\n"
    )


def _rare(results: Results) -> str:
    """Return which runs have one seed."""
    single = [what for what, name in _RARE.items() if len(results.by_name[name]) == 1]
    return f"; seed 1 alone of {', '.join(single)}" if single else ""


def fallen(figures: Figures) -> list[tuple[int, str]]:
    """Return which users' models lost 20 points or more on own clips from one round to the next, and when."""
    found = []
    for before, after in pairwise(figures["rounds"]):
        for was, now in zip(before["users"], after["users"], strict=True):
            if was["own_after"] - now["own_after"] >= _FELL:
                when = f"in round {after['round']} ({was['own_after']:.0f} to {now['own_after']:.0f} %)"
                found.append((now["user"], when))
    return found


def _scores(results: Results) -> str:
    header = ["", "paper", "gain", "local", "global", "gain", "last three rounds"]
    rows = []
    for application, chosen in APPLICATIONS.items():
        published, name = chosen.published, fleet_name(application, 3, SCORES)
        for user, (before, after) in zip((1, 2, 3, None), [*published.users, published.average], strict=True):
            label = f"{application}, 3 users, {f'user {user}' if user else 'average'}"
            rows.append([label, *_printed(before, after), *_row(results, name, user)])
        more = {f"{application}, 3 users, to the letter": fleet_name(application, 3, LITERAL)}
        more |= {SHARED: SHARED} if application == "sounds" else {}
        rows += [[label, "", "", *_row(results, name, None)] for label, name in more.items()]
        name = fleet_name(application, 10, SCORES)
        rows.append([f"{application}, 10 users", *_printed(*chosen.heterogeneous), *_row(results, name, None)])
    return (
        "Local: the user's own model on the public recordings of its labels, before it learns from the fleet; global: "
        "the fleet's scores on the same; both in %, means over the iterations. Scores are divided by the sum of beta, "
        "label by label. The form to the letter adds them up, so that labels of several owners outgrow those of one. "
        "Where recordings are shared, each clip is dealt for itself, so that slices of one recording are in the public "
        "set and with users: the paper does not say that it kept them apart.\n\n" + markdown_table(header, rows)
    )


def _printed(before: float, after: float) -> list[str]:
    return [f"{before:.1f} → {after:.1f}", f"+{after - before:.1f}"]


def _row(results: Results, name: str, user: int | None) -> list[str]:
    """Return local, global, the gain, and the gain of the last three rounds."""
    local, fleet, *late = (
        results.values(name, accuracy(f"{kind}_accuracy", user, rounds))
        for rounds in (_ALL, _LAST) for kind in ("local", "global")
    )  # fmt: skip
    return [mean_and_spread(local), mean_and_spread(fleet), gain(fleet, local), gain(late[1], late[0])]


def _listening(results: Results) -> str:
    header = ["", "rate", "samples, thousands", "own clips, %", "strangers, %", "against alone: own", "strangers"]
    rows, falls = [], []
    for application, users, form in product(APPLICATIONS, SIZES, _FORMS):
        name = fleet_name(application, users, form)
        if name not in results.by_name:  # with ten users there are two forms
            continue
        values = [results.values(name, heard(name, what)) for what in ("own", "strangers")]
        against = ["", ""] if form == ALONE else _against_alone(results, name, values, application, users)
        rows.append([
            f"{application}, {users} users: {_FORMS[form]}", f"{rate_of(application, form):g}",
            _samples(results, application, users, form), *map(mean_and_spread, values), *against,
        ])  # fmt: skip
        if users == 3 and form not in WITHOUT:
            falls += _falls(results, application, form)
    failed = [f"\nTen users, {application}: {text}\n" for application in APPLICATIONS
              if (text := _failures(results, application))]  # fmt: skip
    return (
        "Own clips: those that the user never trains on, of old labels and new. Strangers: test clips of the "
        "user's labels, of speakers or recordings that nobody trained on. After the last round, means over users, in "
        "%. Samples: what one user's model is trained on, in all rounds. Only with a fleet does a model know other "
        "users' new sounds as well, which own clips can be taken for. A device's guard, which refuses a result that is "
        "worse, is off.\n\n" + markdown_table(header, rows) + (_OF_FALLS.format("; ".join(falls)) if falls else "")
        + "".join(failed)
    )  # fmt: skip


def _against_alone(
    results: Results, name: str, values: Sequence[Sequence[float]], application: str, users: int
) -> list[str]:
    alone = fleet_name(application, users, ALONE)
    found = []
    for what, ours in zip(("own", "strangers"), values, strict=True):
        base = dict(zip(results.seeds(alone), results.values(alone, heard(alone, what)), strict=True))
        found.append(gain(ours, [base[seed] for seed in results.seeds(name)]))
    return found


def _falls(results: Results, application: str, form: str) -> list[str]:
    """Return the falls in the runs of three users, each run with what the users gained whose models did not fall."""
    alone = {run.seed: outcome.figures["users"] for run, outcome in results.by_name[fleet_name(application, 3, ALONE)]}
    found = []
    for run, outcome in results.by_name[fleet_name(application, 3, form)]:
        falls = fallen(outcome.figures)
        others = {1, 2, 3} - {user for user, _ in falls}
        if not falls:
            continue
        pairs = [(row, alone[run.seed][row["user"] - 1]) for row in outcome.figures["rounds"][-1]["users"]
                 if row["user"] in others]  # fmt: skip
        gained = ", ".join(
            f"{what} {fmean(row[key] - base[what] for row, base in pairs):+.1f}"
            for key, what in (("own_after", "own"), ("held_out_after", "strangers"))
        ) if pairs else "there are no others"  # fmt: skip
        named = ", ".join(f"user {user} {when}" for user, when in falls)
        found.append(f"{application}, {form}, seed {run.seed}: {named}; the others: {gained}")
    return found


def _failures(results: Results, application: str) -> str:
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


def _samples(results: Results, application: str, users: int, form: str) -> str:
    """Return on how many thousand samples a user's model is trained, passes over the public set included."""

    def of(kind: str, size: int) -> float:
        runs_of = results.figures(fleet_name(application, size, kind))
        return fmean(user["samples"] for figures in runs_of for user in figures["users"]) / 1000

    if form in WITHOUT:
        return f"{of(form, users):.0f}"
    public = of(PUBLIC_ONLY, 3)  # ten users have as many labels, and as many public clips of each
    after = public * DISTILLED / APPLICATIONS[application].passes[3] * SIZES[users] / SIZES[3]
    return f"{after + of(ALONE, users) + (public if form == LABELS else 0.0):.0f}"


def _discovered(results: Results) -> str:
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
    classes = [_new_classes(figures) for figures in runs_of]
    return sum(sum(one.values()) for one in classes), sum(map(len, classes))


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


def _in_several_rounds(figures: Figures) -> set[str]:
    """Return the new sounds that were reported in more than one round."""
    rounds: dict[str, set[int]] = {}
    for entry in figures["rounds"]:
        for item in entry["reports"]:
            rounds.setdefault(item["label"], set()).add(entry["round"])
    return {label for label, found in rounds.items() if len(found) > 1}


def _poisoned_reports(results: Results) -> str:
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
    header = ["attackers", "describing", "classes made of one sound", "honest users given one class", "recognised, %",
              "own labels, test clips, %"]  # fmt: skip
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
        given = {item["user"]: item["class_id"] for item in _reports(outcome.figures)
                 if item["user"] not in attackers and item["class_id"] is not None}  # fmt: skip
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


def _tuning(results: Results) -> str:
    rows = []
    for application, form in product(APPLICATIONS, TUNED):
        names = {rate: trial(application, form, rate) for rate in TRIALS}
        cells = []
        for rate, name in names.items():
            text = f"{fmean(listening(results, name)):.1f}"
            cells.append(f"**{text}**" if rate == rate_of(application, form) else text)
        more = [f"{fmean(gains(results, name)):+.1f}" if form == SCORES else "" for name in names.values()]
        rows.append([f"{application}: {_FORMS[form]}", *cells, *more])
    rows += [_tuned_alone(results, application) for application in APPLICATIONS]
    header = ["", *map(str, TRIALS), *(f"gain at {rate}" for rate in TRIALS)]
    return (
        f"3 users, {TUNING_ROUNDS} rounds, seeds {' and '.join(map(str, TUNING_SEEDS))}: the mean of own and "
        "strangers', in %, by learning rate. What was chosen is bold. The gain of the scores stands beside it: it did "
        f"not decide. Ten users alone, who take the rates of three: all {SIZES[10]} rounds, seed {TUNED_ALONE_SEED}."
        "\n\n" + markdown_table(header, rows)
    )


def _tuned_alone(results: Results, application: str) -> list[str]:
    """Return the row of ten users without a fleet."""
    found = {rate: listening(results, trial(application, ALONE, rate, 10)) for rate in TRIALS}
    chosen = rate_of(application, ALONE)
    cells = [f"**{fmean(of):.1f}**" if rate == chosen else f"{fmean(of):.1f}" for rate, of in found.items()]
    return [f"{application}, 10 users: {_FORMS[ALONE]}", *cells, *[""] * len(TRIALS)]


def _claims(results: Results) -> list[Claim]:
    claims = [_gained(results, application, users) for users, application in product(SIZES, APPLICATIONS)]
    return [*claims, _matched(results), *_ON_A_BOARD]


def _matched(results: Results) -> Claim:
    """Return the claim of new classes, with how much of it depends on when their owners met them."""
    runs_of = {users: [figures for application in APPLICATIONS
                       for figures in results.figures(fleet_name(application, users, SCORES))]
               for users in SIZES}  # fmt: skip
    counts = {users: matches(figures) for users, figures in runs_of.items()}
    whole = all(matched == known for matched, known in counts.values())
    by_rounds: dict[bool, list[bool]] = {False: [], True: []}
    for figures in (figures for of in runs_of.values() for figures in of):
        late = _in_several_rounds(figures)
        for label, right in _new_classes(figures).items():
            by_rounds[label in late].append(right)
    at_once, apart = by_rounds.values()
    why = (
        f"Reported in one round: {sum(at_once)} of {len(at_once)}; by users who met it in different rounds: "
        f"{sum(apart)} of {len(apart)}. Without a name, a later report becomes a class of its own "
        "([class-discovery.md](class-discovery.md#limits)). The paper shows two of its cases as figures."
    )
    return Claim(
        "New classes are matched among users who share no labels of them", "all",
        "; ".join(f"{users} users: {matched} of {known}" for users, (matched, known) in counts.items()),
        verdict([matched == known for matched, known in counts.values()]), "" if whole else why,
    )  # fmt: skip


def _gained(results: Results, application: str, users: int) -> Claim:
    """Return the claim of a fleet's gain, judged by the rule that the section states."""
    name = fleet_name(application, users, SCORES)
    ours, local = gains(results, name), fmean(results.values(name, accuracy("local_accuracy")))
    before, after = _average(application, users)
    whole = fmean(ours) >= after - before and local >= before - _WEAKER
    beyond = fmean(ours) > (stdev(ours) if len(ours) > 1 else 0.0)
    levels = f"Local models have {local:.1f} % (published: {before:.1f})."
    return Claim(
        f"{application.capitalize()}, {users} users: global over local accuracy, points",
        f"+{after - before:.2f}", gain(ours, [0.0] * len(ours), 2),
        "yes" if whole else "in part" if beyond else "no",
        " ".join([levels, *_reasons(results, application, users)]),
    )  # fmt: skip


def _reasons(results: Results, application: str, users: int) -> list[str]:
    """Return what else the runs show about a gain, a sentence each."""
    name = fleet_name(application, users, SCORES)
    first, last = (fmean(gains(results, name, rounds)) for rounds in (_FIRST, _LAST))
    found = [*_fewer_clips(results, application, users)]
    found.append(f"In the first three rounds it is {first:+.1f}, in the last three {last:+.1f}.")
    if application == "sounds" and users == 3:
        shared, beside = fmean(results.values(SHARED, accuracy("local_accuracy"))), fmean(gains(results, SHARED))
        found.append(
            "Where slices of one recording are in the public set and with users, local models have "
            f"{shared:.1f} %, and the gain is {beside:+.1f}."
        )
    if users == 3:
        literal = fleet_name(application, users, LITERAL)
        each = ", ".join(f"{fmean(gains(results, literal, user=user)):+.1f}" for user in range(1, users + 1))
        found.append(f"By the equations to the letter it is {fmean(gains(results, literal)):+.1f} (by user: {each}).")
    else:
        taken = fmean(map(_taken_for_new, results.figures(name)))
        found.append(f"Models take {taken:.0f} % of the test clips of their users' first labels for new classes.")
    own, alone = (fmean(listening(results, one)) for one in (name, fleet_name(application, users, ALONE)))
    found.append(f"It is the scores' gain: the model that listens has {own:.1f} %, alone {alone:.1f} %.")
    failed = _failures(results, application) if users == 10 else ""
    return [*found, failed] if failed else found


def _fewer_clips(results: Results, application: str, users: int) -> list[str]:
    """Return how many clips a user has in a round, before new sounds come, if these are fewer than published."""
    found = results.figures(fleet_name(application, users, SCORES))
    ours = fmean(row["clips"] for figures in found for entry in figures["rounds"][:2] for row in entry["users"])
    labels = deal(APPLICATIONS[application].labels).devices
    published = fmean(len(labels[number % 3]) for number in range(users)) * fmean(APPLICATIONS[application].clips)
    few = ours < 0.9 * published
    return [f"A user trains on {ours:.0f} clips in a round (published: about {published:.0f})."] if few else []


def _taken_for_new(figures: Figures) -> float:
    """Return the share of clips of users' first labels that they take for new classes after the last round, in %."""
    return fmean(sum(item["mistaken"] for item in row["new_classes"]) for row in figures["rounds"][-1]["users"])


def _average(application: str, users: int) -> tuple[float, float]:
    """Return the published accuracies, local and global, in %."""
    chosen = APPLICATIONS[application]
    return chosen.published.average if users == 3 else chosen.heterogeneous


def _mean(values: Iterable[float]) -> str:
    found = list(values)
    return f"{fmean(found):.1f}" if found else "-"
