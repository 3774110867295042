"""The runs of Gudur & Perepu 2021: their fleets with and without a fleet, and the trials that chose their rates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from studies.gudur.alone import without_fleet
from studies.gudur.names import (
    ALONE,
    LABELS,
    LITERAL,
    POISONED,
    POISONED_ROUNDS,
    SCORES,
    SEEDS,
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
from studies.gudur.tables import summary as summary
from studies.gudur.users import ALL_ARCHITECTURES, APPLICATIONS, POISONED_USERS, play
from studies.run import Call, Run
from studies.scale import Scale

TITLE = "Zero-shot learning of new classes among users with models and labels of their own"
_COST_S = {
    ("keywords", 3): 40.0,
    ("keywords", 10): 195.0,
    ("sounds", 3): 20.0,
    ("sounds", 6): 20.0,
    ("sounds", 10): 90.0,
}
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
        cost = _COST_S[self.application, users] * share * rounds / SIZES.get(users, rounds)
        if form in WITHOUT:
            call = Call(without_fleet, {"kind": form, "local": local, **work})
        else:
            local |= {"labels": True} if form == LABELS else {}
            call = Call(play, {"normalise": form != LITERAL, "local": local, **work, **more})
        return Run(name, seed, call, cost, corpus=self.application)
