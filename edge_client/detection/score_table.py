"""What counts how much in a score: the table ``edge_client/front_ends/scores.toml``, which says what each number is.

It lies beside the front ends and in none of their files: by these files' digests fleets and bundles know a front end,
and no other device needs to know how this one weighs what it hears.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

import dacite
import numpy as np

from edge_client.detection.thresholds import Tail
from edge_client.errors import ModelError
from fleet_protocol.bundle.ready_bundles import FRONT_ENDS
from fleet_protocol.numbers.arrays import Doubles, Floats
from fleet_protocol.numbers.known import Known


@dataclass(frozen=True)
class Worth:
    """What counts how much for one kind of labels."""

    yes: float
    no: float
    cosine: float
    level: float
    scale: float
    alike: float = 0.0
    nearest: float = 0.6
    nearest_of_many: float = 0.6
    many_are_near: int = 1

    @property
    def others(self) -> Tail:
        """How often others reach the score of such a label at least."""
        return Tail(self.level, self.scale)


@dataclass(frozen=True)
class ScoreTable:
    """All of it, by kind of label, and what words have in common."""

    word: Worth
    other_word: Worth
    known_word: Worth
    sound: Worth
    known_sound: Worth
    neutral: float
    lack: float
    before: float
    weakest: float
    from_s: float
    fully_s: float
    rarer: float

    def word_of(self, known: Known) -> Worth:
        """Return what counts how much for a word that is not built in."""
        return self.word if known.words else self.other_word

    def weight_of_order(self, before: Floats | Doubles) -> float:
        """Return how far the order of a word with ``Prototype.before`` counts: 0 of a short one to 1."""
        return min(1.0, float(np.linalg.norm(before, axis=1).sum()) / self.before) if self.before else 0.0


def read_table(path: Path) -> ScoreTable:
    """Read a file such as ``scores.toml``. Raises ModelError: it cannot be read, or a number is missing or unknown."""
    try:
        return dacite.from_dict(ScoreTable, tomllib.loads(path.read_text()), dacite.Config(strict=True))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, dacite.DaciteError) as error:
        raise ModelError(f"{path} is no table of scores ({error}); copy {SHIPPED} and change its numbers") from error


SHIPPED = FRONT_ENDS / "scores.toml"
TABLE = read_table(SHIPPED)
