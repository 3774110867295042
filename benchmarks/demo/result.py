"""Everything that the demonstration has to tell, and its form as JSON."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from benchmarks.demo.fleets import FleetKind
from benchmarks.demo.outcome import NewClass, Recognition, RoundOutcome, mean, mean_of
from benchmarks.demo.paper import Published
from benchmarks.demo.recognition import Impressions, Similarity


@dataclass(frozen=True)
class User:
    """A user.

    Attributes:
        name: of the user.
        architecture: the device's model by the name of `auricle-export`.
        labels: those that it knows from the start.
        alone: how many held-out recordings of these, in percent, a model names rightly that the device trained by
            itself before the first round.
        after: the same of the model that it listens with after the last round, among the same labels.
        with_new: the same where it chooses among the new sounds as well, as it does when it listens.
    """

    name: str
    architecture: str
    labels: tuple[str, ...]
    alone: float
    after: float
    with_new: float


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
        impressions: what was uploaded of sounds in every round with reports.
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

    def never_heard(self, user: str) -> float | None:
        """Return how many held-out recordings of sounds that a user never had are named rightly, in percent.

        It is the mean over the sounds; None where the user had all.
        """
        return mean([row.recognised for row in self.recognition if row.user == user and not row.heard])

    def local(self, user: str) -> float | None:
        """Return a user's local accuracy in percent, averaged over the rounds; None without a consensus."""
        return mean_of(self.rounds, user, lambda row: row.local_accuracy)

    def consensus(self, user: str) -> float | None:
        """Return a user's global accuracy in percent, averaged over the rounds; None without a consensus."""
        return mean_of(self.rounds, user, lambda row: row.global_accuracy)

    @property
    def average(self) -> tuple[float | None, float | None]:
        """Local and global accuracy, averaged over the users too."""
        names = [user.name for user in self.users]
        return mean([self.local(name) for name in names]), mean([self.consensus(name) for name in names])

    @property
    def listening(self) -> dict[str, float | None]:
        """``alone``, ``after``, ``with_new`` and ``never_heard``, averaged over the users."""
        return {
            "alone": mean([user.alone for user in self.users]),
            "after": mean([user.after for user in self.users]),
            "with_new": mean([user.with_new for user in self.users]),
            "never_heard": mean([self.never_heard(user.name) for user in self.users]),
        }

    def to_json(self) -> dict[str, Any]:
        """Return the figures, accuracies in percent."""
        return {
            "users": [
                {
                    "name": user.name,
                    "architecture": user.architecture,
                    "labels": list(user.labels),
                    "alone": user.alone,
                    "after": user.after,
                    "with_new": user.with_new,
                    "never_heard": self.never_heard(user.name),
                    **_scores(self.local(user.name), self.consensus(user.name)),
                }
                for user in self.users
            ],
            "average": self.listening | _scores(*self.average),
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


def _scores(local: float | None, fleet: float | None) -> dict[str, float | None]:
    gain = None if local is None or fleet is None else fleet - local
    return {"local_accuracy": local, "global_accuracy": fleet, "gain": gain}
