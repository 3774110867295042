"""The claims of Gudur & Perepu 2021, and what the zero-shot table's runs say about each."""

from __future__ import annotations

from itertools import product
from statistics import fmean, stdev

from demo.deal import deal
from studies.gudur.figures import (
    FIRST_ROUNDS,
    LAST_ROUNDS,
    accuracy,
    failures,
    gains,
    listening,
    over_alone,
)
from studies.gudur.new_sounds import in_several_rounds, matched_rightly, matches, taken_for_new
from studies.gudur.runs import ALONE, LABELS, LITERAL, PUBLIC_ONLY, SCORES, SHARED, SIZES, fleet_name
from studies.gudur.users import APPLICATIONS
from studies.in_short import in_short
from studies.report import Claim, Results, gain, verdict

WEAKER = 5.0  # points by which local models may be behind the published ones where a gain over them is reproduced
# docs/pi.md and docs/models.md hold these figures: instructions of cnn2 on ARMv7, counted, and files.
_ON_A_BOARD = [
    Claim(
        "An epoch on a Raspberry Pi 2 takes 1.2 s, an inference 11 ms",
        "1.2 s, 11 ms",
        "0.68 million instructions a training sample, 0.44 million an inference (`cnn2`)",
        "in part",
        "Counted, not timed: no board was at hand ([pi.md](pi.md#instructions-on-armv7)). A core of 900 MHz that "
        "executes one a cycle takes 0.8 s for 1,000 clips and 0.5 ms for an inference.",
    ),
    Claim(
        "Models of 520, 350 and 270 kB",
        "520, 350, 270 kB",
        "bundles of 134, 149 and 144 kB",
        "yes",
        "Smaller ([models.md](models.md#networks)).",
    ),
]


def short(results: Results) -> str:
    """Return what users gain by it."""
    gained, with_labels, public = (
        ", ".join(
            f"{_over_alone(results, application, users, form)} on {application} of {users} users"
            for users, application in product(sizes, APPLICATIONS)
        )
        for form, sizes in ((SCORES, SIZES), (LABELS, (3,)), (PUBLIC_ONLY, (3,)))
    )
    return in_short(
        "Users of different networks share scores of public clips. The model that a user listens with gains over",
        f"training alone, in points: {gained}. With the public clips' labels beside, the default: {with_labels}.",
        f"Public clips without a fleet: {public}.",
    )


def _over_alone(results: Results, application: str, users: int, form: str) -> str:
    name, alone = (fleet_name(application, users, of) for of in (form, ALONE))
    return over_alone(results, name, listening(results, name), alone, listening(results, alone))


def claims(results: Results) -> list[Claim]:
    """Return the paper's claims, judged by the runs."""
    gained = [_gained(results, application, users) for users, application in product(SIZES, APPLICATIONS)]
    return [*gained, _matched(results), *_ON_A_BOARD]


def _matched(results: Results) -> Claim:
    """Return the claim of new classes, with how much of it depends on when their owners met them."""
    runs_of = {
        users: [
            figures
            for application in APPLICATIONS
            for figures in results.figures(fleet_name(application, users, SCORES))
        ]
        for users in SIZES
    }
    counts = {users: matches(figures) for users, figures in runs_of.items()}
    whole = all(matched == known for matched, known in counts.values())
    by_rounds: dict[bool, list[bool]] = {False: [], True: []}
    for figures in (figures for of in runs_of.values() for figures in of):
        late = in_several_rounds(figures)
        for label, right in matched_rightly(figures).items():
            by_rounds[label in late].append(right)
    at_once, apart = by_rounds.values()
    why = (
        f"Reported in one round: {sum(at_once)} of {len(at_once)}; in different rounds: {sum(apart)} of "
        f"{len(apart)}. Without a name, a later report becomes a class of its own "
        "([class-discovery.md](class-discovery.md#limits)). The paper shows two of its cases as figures."
    )
    return Claim(
        "New classes are matched among users who share no labels of them",
        "all",
        "; ".join(f"{users} users: {matched} of {known}" for users, (matched, known) in counts.items()),
        verdict([matched == known for matched, known in counts.values()]),
        "" if whole else why,
    )


def _gained(results: Results, application: str, users: int) -> Claim:
    """Return the claim of a fleet's gain, judged by the rule that the section states."""
    name = fleet_name(application, users, SCORES)
    ours, local = gains(results, name), fmean(results.values(name, accuracy("local_accuracy")))
    before, after = _average(application, users)
    whole = fmean(ours) >= after - before and local >= before - WEAKER
    beyond = fmean(ours) > (stdev(ours) if len(ours) > 1 else 0.0)
    levels = f"Local models have {local:.1f} % (published: {before:.1f})."
    return Claim(
        f"{application.capitalize()}, {users} users: global over local accuracy, points",
        f"+{after - before:.2f}",
        gain(ours, [0.0] * len(ours), 2),
        "yes" if whole else "in part" if beyond else "no",
        " ".join([levels, *_reasons(results, application, users)]),
    )


def _reasons(results: Results, application: str, users: int) -> list[str]:
    """Return what else the runs show about a gain, a sentence each."""
    name = fleet_name(application, users, SCORES)
    first, last = (fmean(gains(results, name, rounds)) for rounds in (FIRST_ROUNDS, LAST_ROUNDS))
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
        taken = fmean(map(taken_for_new, results.figures(name)))
        found.append(f"Models take {taken:.0f} % of the test clips of their users' first labels for new classes.")
    own, alone = (fmean(listening(results, one)) for one in (name, fleet_name(application, users, ALONE)))
    found.append(f"It is the scores' gain: the model that listens has {own:.1f} %, alone {alone:.1f} %.")
    failed = failures(results, application) if users == 10 else ""
    return [*found, failed] if failed else found


def _fewer_clips(results: Results, application: str, users: int) -> list[str]:
    """Return how many clips a user has in a round, before new sounds come, if these are fewer than published."""
    found = results.figures(fleet_name(application, users, SCORES))
    ours = fmean(row["clips"] for figures in found for entry in figures["rounds"][:2] for row in entry["users"])
    labels = deal(APPLICATIONS[application].labels).devices
    published = fmean(len(labels[number % 3]) for number in range(users)) * fmean(APPLICATIONS[application].clips)
    few = ours < 0.9 * published
    return [f"A user trains on {ours:.0f} clips in a round (published: about {published:.0f})."] if few else []


def _average(application: str, users: int) -> tuple[float, float]:
    """Return the published accuracies, local and global, in %."""
    chosen = APPLICATIONS[application]
    return chosen.published.average if users == 3 else chosen.heterogeneous
