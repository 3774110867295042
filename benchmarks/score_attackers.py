"""What three liars of ten cost a fleet that shares scores: accuracy of the fleet's scores of the public set, in %.

Ten users with the models and labels of Gudur & Perepu 2021 share scores alone (``labels`` false), so that a wrong
consensus teaches wrong. Liars upload their classes' scores in reverse order, as they are or with 1 for the largest.
Settings of the rule ``label_wise`` are compared: the paper's, and the default. Users and rounds are the simulator's.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean

from benchmarks.bundles import data_folder
from fleet_protocol.ready_bundles import find_bundle
from fleet_protocol.setting import Value
from fleet_simulator.experiment.data_section import DataSection
from fleet_simulator.experiment.faults import SCORE_ATTACKS, FaultsSection
from fleet_simulator.experiment.sections import RoundsSection
from fleet_simulator.experiment.zero_shot_sections import UserSection, ZeroShotExperiment, ZeroShotSection
from fleet_simulator.runs.progress import Silent
from fleet_simulator.simulation.run import run
from studies.gudur.users import APPLICATIONS, users_of
from studies.simulated import shared_inputs

USERS, ROUNDS, EPOCHS, RATE = 10, 3, 8, 0.02
RULES: Mapping[str, dict[str, Value]] = {
    "accuracy (the paper)": {"above_chance": False},
    "above chance (the default)": {"above_chance": True},
}
ATTACKS = ("no attackers", *SCORE_ATTACKS)


def accuracy(seed: int, rule: str, attack: str) -> float:
    """Return the accuracy of the fleet's scores after the last round, the mean over users and their classes, in %."""
    words = APPLICATIONS["keywords"]
    bundles = {name: find_bundle(name) for name in ("cnn2", "cnn3", "dscnn3", "ann3", "cnn1", "cnn4")}
    users = tuple(UserSection(user.bundle, user.labels) for user in users_of(words, USERS, bundles, together=False))
    data = data_folder() / words.folder
    local: dict[str, Value] = {"epochs": EPOCHS, "learning_rate": RATE, "labels": False}
    experiment = ZeroShotExperiment(
        DataSection(words.source, data, words.labels, test=words.test, windows=words.windows),
        RoundsSection(
            count=ROUNDS, strategy="zero_shot", seed=seed, evaluate_every=ROUNDS, local=local, aggregation=RULES[rule]
        ),
        users,
        ZeroShotSection(public=40, clips=(20, 24)),
        FaultsSection(0.3, attack) if attack in SCORE_ATTACKS else FaultsSection(),
    )
    with tempfile.TemporaryDirectory() as folder:
        rounds = run(experiment, Path(folder), 0, Silent(), inputs=shared_inputs()).rounds
    return 100 * float(rounds[-1]["accuracy"])


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2], help="one fleet for each")
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    options = parser.parse_args()
    found: dict[str, dict[str, list[float]]] = {}
    for rule in RULES:
        for attack in ATTACKS:
            values = [accuracy(seed, rule, attack) for seed in options.seeds]
            found.setdefault(rule, {})[attack] = values
            each = ", ".join(f"{value:.1f}" for value in values)
            print(f"{rule:28s} {attack:16s} {fmean(values):5.1f} %  ({each})", flush=True)
    if options.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
