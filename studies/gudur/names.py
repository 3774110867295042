"""Names of this study's runs, and the settings that they share."""

from __future__ import annotations

from studies.gudur.alone import KINDS

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
