"""Everything that the demonstration has to tell, and its form as JSON."""

from __future__ import annotations

import dataclasses
import statistics
from dataclasses import dataclass
from typing import Any

from benchmarks.demo.fleets import FleetKind
from benchmarks.demo.outcome import NewClass, Recognition, RoundOutcome, mean_of
from benchmarks.demo.paper import Published
from benchmarks.demo.recognition import Impressions, Similarity


@dataclass(frozen=True)
class User:
    """A user: the device's model by the name of `auricle-export`, and the labels that it knows from the start."""

    name: str
    architecture: str
    labels: tuple[str, ...]


@dataclass(frozen=True)
class Result:
    """What a run found.

    Attributes:
        kind: what the devices listen with.
        setting: sentences that say what was done on what.
        published: what the paper reports of the like.
        users: in order.
        rounds: in order.
        appeared: the new sounds that appeared before a round.
        new_classes: what became of them.
        recognition: how well each device knows them in the end.
        similarities: the class-similarity matrix of every device in the end.
        impressions: uploaded impressions of every round with reports.
        seconds: from the start of the command.
    """

    kind: FleetKind
    setting: tuple[str, ...]
    published: Published
    users: tuple[User, ...]
    rounds: tuple[RoundOutcome, ...]
    appeared: dict[int, list[str]]
    new_classes: tuple[NewClass, ...]
    recognition: tuple[Recognition, ...]
    similarities: tuple[Similarity, ...]
    impressions: dict[int, list[Impressions]]
    seconds: float

    def local(self, user: str) -> float:
        """Return a user's local accuracy in percent, averaged over the rounds."""
        return mean_of(self.rounds, user, lambda row: row.local_accuracy)

    def consensus(self, user: str) -> float:
        """Return a user's global accuracy in percent, averaged over the rounds."""
        return mean_of(self.rounds, user, lambda row: row.global_accuracy)

    @property
    def average(self) -> tuple[float, float]:
        """Local and global accuracy, averaged over the users too."""
        names = [user.name for user in self.users]
        return statistics.fmean(map(self.local, names)), statistics.fmean(map(self.consensus, names))

    def to_json(self) -> dict[str, Any]:
        """Return the figures, accuracies in percent."""
        return {
            "users": [
                {
                    "name": user.name,
                    "architecture": user.architecture,
                    "labels": list(user.labels),
                    **_scores(self.local(user.name), self.consensus(user.name)),
                }
                for user in self.users
            ],
            "average": _scores(*self.average),
            "rounds": [self._round(outcome) for outcome in self.rounds],
            "new_classes": [
                {
                    "label": item.label,
                    "devices": list(item.devices),
                    "round": item.round,
                    "matched": item.matched,
                }
                for item in self.new_classes
            ],
            "recognition": [dataclasses.asdict(row) for row in self.recognition],
            "seconds": self.seconds,
        }

    def _round(self, outcome: RoundOutcome) -> dict[str, Any]:
        return {
            "round": outcome.number,
            "seconds": outcome.seconds,
            "appeared": self.appeared.get(outcome.number, []),
            "users": [dataclasses.asdict(row) for row in outcome.users],
        }


def _scores(local: float, fleet: float) -> dict[str, float]:
    return {"local_accuracy": local, "global_accuracy": fleet, "gain": fleet - local}
