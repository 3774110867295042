"""Zero-shot federated learning with new classes (Gudur & Perepu 2021): tables 2 and 3, and attackers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from statistics import fmean

from studies.gudur.claims import WEAKER, claims, short
from studies.gudur.figures import (
    ALL_ROUNDS,
    LAST_ROUNDS,
    accuracy,
    failures,
    fallen,
    gains,
    heard,
    listening,
    over_alone,
)
from studies.gudur.new_sounds import discovered, poisoned
from studies.gudur.published import ARCHITECTURES, SHOWN_AS
from studies.gudur.runs import (
    ALONE,
    DISTILLED,
    LABELS,
    LITERAL,
    PUBLIC_ONLY,
    SCORES,
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
from studies.gudur.runs import runs as runs
from studies.gudur.users import APPLICATIONS
from studies.report import Results, bold, claims_table, gain, markdown_table, mean_and_spread

TITLE = "Zero-shot learning of new classes among users with models and labels of their own"
PAPER = "Gudur & Perepu 2021"

_FORMS = {
    PUBLIC_ONLY: "public only",
    ALONE: "alone",
    SCORES: "own clips, then the fleet's scores (the paper's)",
    LITERAL: "the same to the letter",
    LABELS: "own clips and public labels (the default)",
}
# What has fewer seeds than the paper's form with 3 users at the small scale.
_RARE = {
    "the default": fleet_name("keywords", 3, LABELS),
    "the form to the letter": fleet_name("keywords", 3, LITERAL),
    "shared recordings": SHARED,
    "attackers": attacked(None),
    "ten users": fleet_name("keywords", 10, SCORES),
}
_OF_FALLS = (
    "\nWith three users, models that fell by 20 points or more on own clips from one round to the next, and what the "
    "other users of the run have over alone: {}. The rates were chosen after five rounds.\n"
)


def section(results: Results) -> str:
    """Return the tables: by the paper's measure, by the models that listen, new classes, attackers, tuning, claims."""
    lines = [short(results), _setting(results)]
    lines += ["### By the paper's measure: the fleet's scores over the users' own models", _scores(results)]
    lines += ["### The model that the device listens with", _listening(results)]
    lines += ["### New classes", discovered(results)]
    lines += ["### Attackers who poison a new sound", poisoned(results)]
    lines += ["### Tuning of the learning rate", _tuning(results), claims_table(claims(results))]
    return "\n".join(lines)


def _setting(results: Results) -> str:
    shown = ", ".join(f"user {number} has a {SHOWN_AS[name]}" for number, name in enumerate(ARCHITECTURES, 1))
    seeds = ", ".join(map(str, results.seeds(fleet_name("keywords", 3, SCORES))))
    words, sounds = APPLICATIONS["keywords"].passes, APPLICATIONS["sounds"].passes
    return (
        "Schedule and labels are the paper's, and so are the clips in a round, less a fifth that is held out. "
        f"Of three users, {shown}. Of ten users, every third is alike, and some get another network in the course of "
        "the rounds, as in the paper's table 3. Hidden layers use ReLU: the paper's softmax is taken to be the "
        "output's. Keywords are the log-mel archive's, about 240 of each in the public set (paper: 300). Sounds are "
        "the UrbanSound8K subset's, fewer than 40 in a round where ten users share them. No speaker and no original "
        "recording is in two of: public set, test clips, a user's clips; the paper says nothing of that.\n\n"
        f"Passes over the clips of a round: {words[3]} of keywords and {sounds[3]} of sounds, with ten users "
        f"{words[10]} and {sounds[10]}; the paper does not say how many. Seeds {seeds}{_rare(results)}. The learning "
        "rate was chosen by the accuracy of the models that users listen with, on other seeds, with as many trials for "
        "each form ([below](#tuning-of-the-learning-rate)). The form to the letter takes the rate of the paper's form, "
        "and ten users those of three. A run whose training diverges is run again at half the rate; a rate at which "
        "one did was not chosen.\n\n"
        "A claimed gain is reproduced if ours, the mean over all iterations, is as large, over local models that are "
        f"at most {WEAKER:g} points less accurate than the published ones: weak models are easily improved. Else it "
        "is reproduced in part if it is larger than its standard deviation over the seeds, or than 0 where there is "
        "one seed.\n"
    )


def _rare(results: Results) -> str:
    """Return which runs have one seed."""
    single = [what for what, name in _RARE.items() if len(results.by_name[name]) == 1]
    return f"; seed 1 alone of {', '.join(single)}" if single else ""


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
        for rounds in (ALL_ROUNDS, LAST_ROUNDS)
        for kind in ("local", "global")
    )
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
        rows.append(
            [
                f"{application}, {users} users: {_FORMS[form]}",
                f"{rate_of(application, form):g}",
                _samples(results, application, users, form),
                *map(mean_and_spread, values),
                *against,
            ]
        )
        if users == 3 and form not in WITHOUT:
            falls += _falls(results, application, form)
    failed = [
        f"\nTen users, {application}: {text}\n"
        for application in APPLICATIONS
        if (text := failures(results, application))
    ]
    return (
        "Own clips: those that the user never trains on, of old labels and new. Strangers: test clips of the "
        "user's labels, of speakers or recordings that nobody trained on. After the last round, means over users, in "
        "%. Samples: what one user's model is trained on, in all rounds. Only with a fleet does a model know other "
        "users' new sounds as well, which own clips can be taken for. A device's guard, which refuses a result that is "
        "worse, is off.\n\n"
        + markdown_table(header, rows)
        + (_OF_FALLS.format("; ".join(falls)) if falls else "")
        + "".join(failed)
    )


def _against_alone(
    results: Results, name: str, values: Sequence[Sequence[float]], application: str, users: int
) -> list[str]:
    alone = fleet_name(application, users, ALONE)
    return [
        over_alone(results, name, ours, alone, results.values(alone, heard(alone, what)))
        for what, ours in zip(("own", "strangers"), values, strict=True)
    ]


def _falls(results: Results, application: str, form: str) -> list[str]:
    """Return the falls in the runs of three users, each run with what the users gained whose models did not fall."""
    alone = {run.seed: outcome.figures["users"] for run, outcome in results.by_name[fleet_name(application, 3, ALONE)]}
    found = []
    for run, outcome in results.by_name[fleet_name(application, 3, form)]:
        falls = fallen(outcome.figures)
        others = {1, 2, 3} - {user for user, _ in falls}
        if not falls:
            continue
        pairs = [
            (row, alone[run.seed][row["user"] - 1])
            for row in outcome.figures["rounds"][-1]["users"]
            if row["user"] in others
        ]
        gained = (
            ", ".join(
                f"{what} {fmean(row[key] - base[what] for row, base in pairs):+.1f}"
                for key, what in (("own_after", "own"), ("held_out_after", "strangers"))
            )
            if pairs
            else "there are no others"
        )
        named = ", ".join(f"user {user} {when}" for user, when in falls)
        found.append(f"{application}, {form}, seed {run.seed}: {named}; the others: {gained}")
    return found


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


def _tuning(results: Results) -> str:
    rows = []
    for application, form in product(APPLICATIONS, TUNED):
        names = {rate: trial(application, form, rate) for rate in TRIALS}
        cells = []
        for rate, name in names.items():
            cells.append(bold(f"{fmean(listening(results, name)):.1f}", rate == rate_of(application, form)))
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
    cells = [bold(f"{fmean(of):.1f}", rate == chosen) for rate, of in found.items()]
    return [f"{application}, 10 users: {_FORMS[ALONE]}", *cells, *[""] * len(TRIALS)]
