"""What the noise of private rounds costs: how many clips of strangers are recognised by what a fleet agreed on.

Ten words of a folder that the front end never heard are taught to every device, by four takes of one person. A third of
the people teach no device; their clips are recognised by the nearest prototype, as a device does. A person teaches
several devices, by other takes as far as there are any, where the fleet has more devices than the folder people.

Sums, noise and prototypes are made by the functions of the product (`BoundedLayout`, `heard`, `means_of`). A word that
does not stand out of the noise has no prototype, so its clips are not recognised. Guessing recognises 10 %.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aggregator_server.aggregation.prototype_mean import GEOMETRIC_MEDIAN, combine
from aggregator_server.rounds.private.dealing import deal
from aggregator_server.strategies.group_sums import heard
from benchmarks.command import BenchmarkError, Command, said
from benchmarks.takes import Takes
from fleet_protocol.messages.private_rounds import PrivatePlan
from fleet_protocol.messages.rest import Choice, RoundPlan
from fleet_protocol.methods.setting import Value
from fleet_protocol.numbers.arrays import Floats
from fleet_protocol.numbers.embedding_statistics import EmbeddingStatistics
from fleet_protocol.secure_sums.bounded_sums import BoundedLayout, directions_of, means_of
from fleet_protocol.secure_sums.privacy_budget import noise_for
from fleet_protocol.secure_sums.roster import threshold_of

_WORDS, _TAKES = 10, 4
_RULE: dict[str, Value] = {"centre": GEOMETRIC_MEDIAN, "vote_cap": float("inf")}


def plan_of(group: int, epsilon: float) -> RoundPlan:
    """Return the plan of a round with noise."""
    return RoundPlan(
        local=Choice("prototypes"),
        aggregation=Choice("prototype_mean"),
        selection=Choice("all"),
        deadline_s=600.0,
        quorum=0.5,
        seed=0,
        private=PrivatePlan(group, noise_for(epsilon)),
    )


@dataclass(frozen=True)
class Fleet:
    """Ten words, the means that each device has of them, and clips of people who taught none."""

    statistics: EmbeddingStatistics
    means: Floats  # float32 [devices, words, numbers]
    clips: Floats  # float32 [clips, numbers]
    labels: NDArray[np.intp]  # of the clips

    @classmethod
    def deal(cls, takes: Takes, devices: int, rng: np.random.Generator) -> Fleet:
        """Draw words, people and takes."""
        words = rng.permutation(np.unique(takes.words))[:_WORDS]
        people = rng.permutation(np.unique(takes.speakers))
        strangers, teachers = np.array_split(people, [len(people) // 3])
        if len(words) < _WORDS or not len(strangers):
            raise BenchmarkError(f"the folder needs {_WORDS} words of several people at least")
        means = np.zeros((devices, _WORDS, takes.embeddings.shape[1]), np.float32)
        for word, name in enumerate(words):
            for first, one in enumerate(teachers):
                rows = rng.permutation(np.flatnonzero((takes.words == name) & (takes.speakers == one)))
                for turn, device in enumerate(range(first, devices, len(teachers))):
                    means[device, word] = takes.embeddings[np.roll(rows, -_TAKES * turn)[:_TAKES]].mean(axis=0)
        tested = np.isin(takes.words, words) & np.isin(takes.speakers, strangers)
        labels = np.argmax(takes.words[tested][:, None] == words, axis=1)
        return cls(takes.statistics, means, takes.embeddings[tested], labels)

    def agreed(self, group: int, epsilon: float, rng: np.random.Generator) -> dict[int, Floats]:
        """Return the prototypes after a round with noise, float32 [numbers], of the words that it found."""
        layout = BoundedLayout.of(plan_of(group, epsilon), _WORDS, self.means.shape[2:])
        draw = random.Random(int(rng.integers(2**32)))  # noqa: S311  (hides nobody here)
        groups = deal([str(device) for device in range(len(self.means))], group, draw)
        tables, deviations = [], []
        for members in groups:
            total, fewest = np.zeros(layout.length, np.uint32), threshold_of(len(members))
            for device in map(int, members):
                directions = directions_of(self.statistics, self.means[device])
                total += layout.own({word: (directions[word], _TAKES) for word in range(_WORDS)})
                total += layout.noise(fewest, rng.bytes(32))
            tables.append(layout.read(total))
            deviations.append(layout.deviation_of(len(members), fewest))
        sums, found = heard(tables, deviations), {}
        for word in np.flatnonzero(sums[0].devices[:, 0]):
            rows = np.stack([one.numbers[word, 0] / one.weights[word, 0] for one in sums])
            centre = combine(rows, np.ones(len(rows)), np.eye(rows.shape[1]), _RULE)
            found[int(word)] = means_of(self.statistics, centre[None])[0]
        return found

    def plain(self) -> dict[int, Floats]:
        """Return the prototypes of a round whose uploads everybody sees."""
        whitening, ones = self.statistics.whitening, np.ones(len(self.means))
        rows = self.means.astype(np.float64)
        return {word: combine(rows[:, word], ones, whitening, _RULE).astype(np.float32) for word in range(_WORDS)}

    def right(self, prototypes: dict[int, Floats]) -> float:
        """Return which share of the strangers' clips is recognised, 0 to 1."""
        if not prototypes:
            return 0.0
        known = self.statistics.whitened(np.stack(list(prototypes.values())))
        nearest = np.argmax(self.statistics.directions(self.clips) @ known.T, axis=1)
        return float(np.mean(np.array(list(prototypes))[nearest] == self.labels))


def work(chosen: argparse.Namespace) -> list[dict[str, Any]]:
    """Print a line for each fleet, size of a group and epsilon; return the figures."""
    takes, figures = Takes.read(chosen.data, chosen.front_end), []
    for devices in chosen.devices:
        for epsilon in (0.0, *chosen.epsilon):
            shares, lost = [], 0
            for seed in range(chosen.seeds):
                fleet = Fleet.deal(takes, devices, np.random.default_rng([seed, devices]))
                rng = np.random.default_rng([seed, devices, chosen.group, 1])
                found = fleet.agreed(chosen.group or devices, epsilon, rng) if epsilon else fleet.plain()
                shares.append(100 * fleet.right(found))
                lost += _WORDS - len(found)
            figures.append(said({
                "devices": devices,
                "group": chosen.group or devices,
                "epsilon": epsilon or None,
                "right %": round(float(np.mean(shares)), 1),
                "least %": round(min(shares), 1),
                "words lost %": round(100 * lost / (_WORDS * chosen.seeds), 1),
            }))  # fmt: skip
    return figures


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = Command("benchmarks.private_noise", __doc__)
    parser.add_argument(
        "--data", type=Path, required=True, metavar="FOLDER", help="recordings <label>/<speaker>_*, of ten words"
    )
    parser.add_argument("--front-end", default="words", metavar="NAME", help="words, base, ... (default: %(default)s)")
    parser.add_argument("--devices", nargs="+", type=int, default=[30, 100, 120], metavar="N", help="(%(default)s)")
    parser.add_argument("--group", type=int, default=0, metavar="SIZE", help="of groups (default: all in one)")
    parser.add_argument("--epsilon", nargs="+", type=float, default=[10.0, 4.0, 2.0], metavar="E", help="(%(default)s)")
    parser.add_argument("--seeds", type=int, default=5, help="draws of words, people and noise (default: %(default)s)")
    return parser.run(work, arguments)


if __name__ == "__main__":
    sys.exit(main())
