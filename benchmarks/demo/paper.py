"""What Gudur & Perepu 2021 (arXiv 2106.10019) published of this experiment: schedule and accuracies."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.demo.deal import SOUNDS, Deal

ROUNDS = 10
# Before these rounds new sounds appear.
NEW_CLASS_ROUNDS = (4, 8)
# Table 1. The softmax activation of user 1 is taken to be the output's; hidden layers use ReLU.
ARCHITECTURES: tuple[str, str, str] = ("cnn2", "cnn3", "dscnn3")
SHOWN_AS = {
    "cnn2": "2-layer CNN (16, 32)",
    "cnn3": "3-layer CNN (16, 16, 32)",
    "dscnn3": "3-layer depth-separable CNN (16, 16, 32)",
    "base": "linear head",
    "base_hidden": "head with one hidden layer (64)",
}


@dataclass(frozen=True)
class Published:
    """One of the paper's two applications.

    Attributes:
        name: what it is about.
        arrivals: recordings of a new sound that a user gets at first, and later.
        users: local and global accuracy of each user in percent, averaged over the iterations (appendix F).
        average: the same over the users, as printed.
    """

    name: str
    arrivals: tuple[int, int]
    users: tuple[tuple[float, float], ...]
    average: tuple[float, float]


_KEYWORDS = Published("keywords", (400, 500), ((89.684, 93.166), (91.888, 95.28), (91.517, 94.727)), (91.03, 94.391))
_SOUNDS = Published("sounds", (50, 50), ((76.526, 80.214), (75.272, 77.944), (77.61, 81.838)), (76.469, 80.0))


def published(deal: Deal) -> Published:
    """Return the application that the known labels are taken from, keywords where neither fits."""
    return _SOUNDS if set(deal.known) <= set(SOUNDS) else _KEYWORDS


def new_class_rounds(rounds: int) -> tuple[int, int]:
    """Return before which two rounds new sounds appear: 4 and 8 of 10, and in that proportion otherwise."""
    first = max(2, round(NEW_CLASS_ROUNDS[0] / ROUNDS * rounds))
    return first, min(rounds, max(first + 1, round(NEW_CLASS_ROUNDS[1] / ROUNDS * rounds)))
