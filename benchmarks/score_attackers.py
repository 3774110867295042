"""What three liars of ten cost a fleet that shares scores: accuracy of the fleet's scores of the public set, in %.

Ten users with the models and labels of Gudur & Perepu 2021 share scores alone (``labels`` false), so that a wrong
consensus teaches wrong. Liars upload their classes' scores in reverse order, as they are or with 1 for the largest.
Settings of the rule ``label_wise`` are compared: the paper's, and the default. Users and rounds are the simulator's.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from itertools import product
from statistics import fmean

from benchmarks.command import Command, said
from fleet_protocol.setting import Value
from fleet_simulator.experiment.faults import SCORE_ATTACKS, FaultsSection
from fleet_simulator.experiment.sections import RoundsSection
from fleet_simulator.experiment.zero_shot_sections import ZeroShotSection
from studies.fleets import rounds_of
from studies.gudur.users import keyword_users

USERS, ROUNDS, EPOCHS, RATE = 10, 3, 8, 0.02
RULES: Mapping[str, dict[str, Value]] = {
    "accuracy (the paper)": {"above_chance": False},
    "above chance (the default)": {"above_chance": True},
}
ATTACKS = ("no attackers", *SCORE_ATTACKS)


def accuracy(seed: int, rule: str, attack: str) -> float:
    """Return the accuracy of the fleet's scores after the last round, the mean over users and their classes, in %."""
    local: dict[str, Value] = {"epochs": EPOCHS, "learning_rate": RATE, "labels": False}
    rounds = RoundsSection(
        count=ROUNDS, strategy="zero_shot", seed=seed, evaluate_every=ROUNDS, local=local, aggregation=RULES[rule]
    )
    faults = FaultsSection(0.3, attack) if attack in SCORE_ATTACKS else None
    experiment = keyword_users(USERS, rounds, ZeroShotSection(public=40, clips=(20, 24)), faults)
    return 100 * float(rounds_of(experiment)[-1]["accuracy"])


def main() -> int:
    """Run the benchmark."""
    parser = Command("benchmarks.score_attackers", __doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2], help="one fleet for each")

    def work(options: argparse.Namespace) -> object:
        found: dict[str, dict[str, list[float]]] = {}
        for rule, attack in product(RULES, ATTACKS):
            values = [accuracy(seed, rule, attack) for seed in options.seeds]
            found.setdefault(rule, {})[attack] = values
            said({"rule": rule, "attack": attack, "accuracy": fmean(values)})
        return found

    return parser.run(work)


if __name__ == "__main__":
    sys.exit(main())
