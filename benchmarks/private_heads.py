"""What noise costs where devices share the weights of a head: the curve over epsilon, for fleets of each size.

Rounds with noise share prototypes alone so far. A head of ten words has ten rows of weights, all of which get noise,
and several rounds share one epsilon. Words, people and clips are those of `benchmarks.private_noise`. Each device takes
some steps of softmax regression on the whitened directions of its ten words, and sends the change, shortened to the
length `--clip`. The sum gets Gaussian noise for whole devices, without a margin for who stays away; the fleet's head
moves by the mean.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.command import Command, said
from benchmarks.private_noise import Fleet
from benchmarks.takes import Takes
from fleet_protocol.numbers.arrays import Floats
from fleet_protocol.secure_sums.bounded_sums import directions_of
from fleet_protocol.secure_sums.privacy_budget import noise_for

_STEPS, _RATE = 5, 4.0
_PART = 250  # devices whose gradients are in the memory at once


def trained(head: Floats, x: Floats) -> Floats:
    """Return how far devices' steps move a head, float32 [devices, numbers, words].

    ``x``: float32 [devices, words, numbers], a row for each word.
    """
    moved, wanted = np.repeat(head[None], len(x), axis=0), np.eye(x.shape[1], dtype=np.float32)
    for _ in range(_STEPS):
        logits = x @ moved
        powers = np.exp(logits - logits.max(axis=2, keepdims=True))
        wrong = powers / powers.sum(axis=2, keepdims=True) - wanted
        moved -= _RATE / x.shape[1] * (x.transpose(0, 2, 1) @ wrong)
    return moved - head


def right(fleet: Fleet, rounds: int, epsilon: float, clip: float, rng: np.random.Generator) -> float:
    """Return which share of the strangers' clips a fleet's head recognises after some rounds, 0 to 1."""
    devices, words, numbers = fleet.means.shape
    rows = fleet.means.reshape(-1, numbers)
    x = np.concatenate([directions_of(fleet.statistics, part) for part in np.array_split(rows, -(-len(rows) // 5_000))])
    x = x.astype(np.float32).reshape(devices, words, numbers)
    head = np.zeros((numbers, words), np.float32)
    noise = noise_for(epsilon) * math.sqrt(rounds) * clip if epsilon else 0.0
    for _ in range(rounds):
        total = noise * rng.normal(size=head.shape)
        for first in range(0, devices, _PART):
            changes = trained(head, x[first : first + _PART])
            lengths = np.linalg.norm(changes, axis=(1, 2))
            total += np.einsum("d,dnw->nw", np.minimum(1.0, clip / lengths), changes)
        head += (total / devices).astype(np.float32)
    return float(np.mean(np.argmax(fleet.statistics.directions(fleet.clips) @ head, axis=1) == fleet.labels))


def work(chosen: argparse.Namespace) -> list[dict[str, Any]]:
    """Print a line for each fleet, number of rounds and epsilon; return the figures."""
    takes, figures = Takes.read(chosen.data, "words"), []
    for devices in chosen.devices:
        fleets = [Fleet.deal(takes, devices, np.random.default_rng([seed, devices])) for seed in range(chosen.seeds)]
        for rounds in chosen.rounds:
            for epsilon in (0.0, *chosen.epsilon):
                shares = [
                    100 * right(fleet, rounds, epsilon, chosen.clip, np.random.default_rng([seed, devices, rounds]))
                    for seed, fleet in enumerate(fleets)
                ]
                figures.append(said({
                    "devices": devices,
                    "rounds": rounds,
                    "epsilon": epsilon or None,
                    "right %": round(float(np.mean(shares)), 1),
                    "least %": round(min(shares), 1),
                }))  # fmt: skip
    return figures


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = Command("benchmarks.private_heads", __doc__)
    about = "recordings <label>/<speaker>_*, of ten words"
    parser.add_argument("--data", type=Path, required=True, metavar="FOLDER", help=about)
    parser.add_argument("--devices", nargs="+", type=int, default=[50, 500, 5000], metavar="N", help="(%(default)s)")
    parser.add_argument("--rounds", nargs="+", type=int, default=[1, 5], metavar="N", help="that share an epsilon")
    parser.add_argument("--epsilon", nargs="+", type=float, default=[10.0, 4.0, 2.0, 1.0], metavar="E", help="in all")
    parser.add_argument("--clip", type=float, default=1.0, metavar="LENGTH", help="of a change (default: %(default)s)")
    parser.add_argument("--seeds", type=int, default=5, help="draws of words, people and noise (default: %(default)s)")
    return parser.run(work, arguments)


if __name__ == "__main__":
    sys.exit(main())
