"""What a user gains by taking part in ``zero_shot``: the model that listens, on its own clips and on strangers'.

Three users with models and labels of their own, as in Gudur & Perepu 2021, table 1, but with fewer clips: 30 to 37 of a
label in a round, 96 of each in the public set. Nobody's clips are in two of: public set, test, a user's clips; of these
a fifth is held out. Both accuracies are among the user's labels. Users, rounds and models are the simulator's.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from statistics import fmean

from benchmarks.command import Command, said
from fleet_protocol.setting import Value
from fleet_simulator.experiment.sections import RoundsSection
from fleet_simulator.experiment.zero_shot_sections import ZeroShotExperiment, ZeroShotSection
from studies.fleets import rounds_of
from studies.gudur.alone import users_alone
from studies.gudur.users import keyword_users

ROUNDS, EPOCHS, RATE = 8, 16, 0.02
HELD_OUT = 0.2
ALONE = "alone"
# Settings of the local method, and whether users refuse results that are worse for them.
FORMS: Mapping[str, tuple[Mapping[str, Value], bool]] = {
    ALONE: ({"labels": False, "distill_epochs": 0}, False),
    "scores": ({"labels": False}, False),
    "scores, guarded": ({"labels": False}, True),
    "labels": ({}, False),
    "labels, guarded": ({}, True),
}
PUBLIC_ONLY = "public only"


def experiment(seed: int, form: str) -> ZeroShotExperiment:
    """Return the experiment of a form of the strategy."""
    local, guard = FORMS[form]
    settings = {"epochs": EPOCHS, "learning_rate": RATE} | dict(local)
    rounds = RoundsSection(count=ROUNDS, strategy="zero_shot", seed=seed, local=settings)
    return keyword_users(3, rounds, ZeroShotSection(public=96, clips=(30, 37), held_out=HELD_OUT, guard=guard))


def played(seed: int, form: str) -> dict[str, float]:
    """Return what the users' models are worth after the last round, in %, and how many results they refused."""
    rounds = rounds_of(experiment(seed, form))
    users = rounds[-1]["users"]
    own = [user["own_before" if user["kept_own"] else "own_after"] for user in users]
    refused = sum(user["kept_own"] for entry in rounds for user in entry["users"])
    return {"own": fmean(own), "strangers": fmean(user["held_out_after"] for user in users), "refused": refused}


def public_only(seed: int) -> dict[str, float]:
    """Return what models are worth that were trained on the public set's labels alone, as long as the others."""
    users = users_alone(PUBLIC_ONLY, experiment(seed, ALONE))["users"]
    return {name: fmean(user[name] for user in users) for name in ("own", "strangers")} | {"refused": 0}


def main() -> int:
    """Run the benchmark."""
    parser = Command("benchmarks.zero_shot", __doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[403, 404, 405], help="one fleet for each")

    def work(options: argparse.Namespace) -> object:
        found: dict[str, list[dict[str, float]]] = {}
        for form in (PUBLIC_ONLY, *FORMS):
            rows = [public_only(seed) if form == PUBLIC_ONLY else played(seed, form) for seed in options.seeds]
            found[form] = rows
            said({"form": form} | {key: fmean(row[key] for row in rows) for key in rows[0]})
        return found

    return parser.run(work)


if __name__ == "__main__":
    sys.exit(main())
