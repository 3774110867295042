"""What Gudur & Perepu 2021 (arXiv 2106.10019) published of this experiment: networks and accuracies."""

from __future__ import annotations

from dataclasses import dataclass

from demo.deal import SOUNDS, Deal

# Table 1. The softmax activation of user 1 is taken to be the output's; hidden layers use ReLU.
ARCHITECTURES: tuple[str, str, str] = ("cnn2", "cnn3", "dscnn3")
SHOWN_AS = {
    "cnn2": "2-layer CNN (16, 32)",
    "cnn3": "3-layer CNN (16, 16, 32)",
    "dscnn3": "3-layer depth-separable CNN (16, 16, 32)",
}


@dataclass(frozen=True)
class Published:
    """One of the paper's two applications.

    Attributes:
        name: Name of the application.
        users: Local and global accuracy of each user in percent, averaged over the iterations (appendix F).
        average: The same over the users, as printed.
    """

    name: str
    users: tuple[tuple[float, float], ...]
    average: tuple[float, float]


_KEYWORDS = Published("keywords", ((89.684, 93.166), (91.888, 95.28), (91.517, 94.727)), (91.03, 94.391))
_SOUNDS = Published("sounds", ((76.526, 80.214), (75.272, 77.944), (77.61, 81.838)), (76.469, 80.0))


def published(deal: Deal) -> Published:
    """Return the application that the known labels are taken from, keywords where neither fits."""
    return _SOUNDS if set(deal.known) <= set(SOUNDS) else _KEYWORDS
