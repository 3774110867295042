"""Scores of windows: what the trained head says, and how near a window lies to what was taught.

A head that learned from few takes of one person knows where they lie, not where the word ends; a prototype, the mean
direction of the takes and of variants of them, knows how near another window is (Snell et al. 2017, prototypical
networks, with whitened cosines). Where other words are of the pretraining the head is the better of the two, where
they are not the prototype is; both added are better than either everywhere. docs/listening.md has the formula.

The table ``edge_client/front_ends/scores.toml`` has the numbers, and says what each of them is. It lies beside the
front ends and in none of their files: by these files' digests fleets and bundles know a front end, and no other device
needs to know how this one weighs what it hears.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import dacite
import numpy as np

from edge_client.detection.thresholds import LARGEST, Tail, logits
from edge_client.errors import ModelError
from edge_client.model.prototypes import Prototype
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.bundle.labels import LabelMap
from fleet_protocol.bundle.ready_bundles import FRONT_ENDS
from fleet_protocol.numbers.arrays import Doubles, Floats
from fleet_protocol.numbers.known import Known

MANY = 12
"""Takes of a word of which several near ones are asked."""
BEFORE_S = 0.5
"""Time between two windows that a long word is compared with, s."""
AFTER_S = 0.25
"""How much later a window says whether such a word is over, s."""
STATES = 5
"""So many windows before the newest one hold a phrase of three seconds."""
ABOUT_S = 0.06
"""A window that is so much older or newer will do, s."""


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
    after: float
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
        raise ModelError(
            f"{path} is no table of scores ({error}); copy {SHIPPED_TABLE} and change its numbers"
        ) from error


SHIPPED_TABLE = FRONT_ENDS / "scores.toml"
TABLE = read_table(SHIPPED_TABLE)


def windows_before(hop_s: float) -> int:
    """Return how many windows ago, one every ``hop_s``, the one of half a second ago was; 0 where none was near it."""
    count = round(BEFORE_S / hop_s)
    return count if abs(count * hop_s - BEFORE_S) <= ABOUT_S else 0


class Windows(NamedTuple):
    """What the scores of windows are made of."""

    heads: Floats  # the head's scores, float32 [windows, labels], 0..1
    directions: Floats | Doubles  # [windows, numbers]
    ago: Floats | Doubles | None  # directions of earlier windows, [states, windows, numbers], NaN where there was none
    known: Floats | Doubles  # logits of built-in labels, float64 [windows, such labels]


class Scorer:
    """Scores windows for every label of a model; labels without a prototype have the head's score.

    ``built_in``: by label, which built-in sound or word it is (``fleet_protocol.numbers.known``).
    ``labels``: How many labels. ``states``: how many earlier windows the longest of their words is compared with.
    """

    def __init__(
        self,
        model: ModelRuntime,
        label_map: LabelMap,
        prototypes: Mapping[str, Prototype],
        built_in: Mapping[str, str] = MappingProxyType({}),
        table: ScoreTable = TABLE,
    ) -> None:
        self._model, self._table = model, table
        self._mask = label_map.listening_mask
        self.labels = len(label_map.slots)
        self._statistics = model.manifest.embedding_statistics if prototypes or built_in else None
        names = dict(enumerate(label_map.names))
        found = {slot: prototypes[name] for slot, name in names.items() if name in prototypes}
        near = {slot: one.rows.astype(np.float64) for slot, one in found.items()}
        self._near = near  # of each, [1 + parts, takes, numbers]
        self._before = {slot: one.before.astype(np.float64) for slot, one in found.items() if one.before.any()}
        self._after = {slot: one.after.astype(np.float64) for slot, one in found.items() if one.after is not None}
        self._rejected = {
            slot: (one.rejected.rows.astype(np.float64), one.rejected.before.astype(np.float64))
            for slot, one in found.items()
            if one.rejected is not None
        }
        self._neutral = {slot: min(table.neutral, one.neutral) for slot, one in found.items()}
        self.states = max(map(len, self._before.values()), default=0)
        # A newer front end may know other sounds than the one that the device last learned by.
        knows = Known() if self._statistics is None else self._statistics.known
        self._known_slots = [slot for slot, name in names.items() if built_in.get(name) in knows.names]
        self._known_words = {slot for slot in self._known_slots if built_in[names[slot]] in knows.words}
        self._sounds = tuple(built_in[names[slot]] for slot in self._known_slots)
        self._worth = {slot: self._worth_of(slot, rows, knows) for slot, rows in near.items()}

    def _worth_of(self, slot: int, rows: Doubles, knows: Known) -> Worth:
        if slot in self._known_slots:
            return self._table.known_word if slot in self._known_words else self._table.known_sound
        split = 0 if self._statistics is None else self._statistics.split
        of_sound = not rows[..., :split].any() if split else self._model.manifest.feature_settings.hears_sounds
        return self._table.sound if of_sound else self._table.word_of(knows)

    def states_of(self, slot: int) -> int:
        """Return how many earlier windows, half a second apart, a label's word is compared with."""
        return len(self._before.get(slot, ()))

    def __call__(self, features: Floats, earlier: Floats | None = None) -> Floats:
        """Return the scores, float32 [windows, labels], 0..1, of features, float32 [windows, frames, numbers].

        ``earlier``: features of the windows of half a second ago, of a second, and so on, float32 [states, windows,
        frames, numbers], NaN where there was none; None: there are none. Such a window is scored without them.
        """
        return self.of(self.windows(features, earlier))

    def windows(self, features: Floats, earlier: Floats | None = None) -> Windows:
        """Return what the scores of features are made of; arguments as of a call."""
        heads = self._model.predict(self._model.normalise(features), self._mask)[:, : self.labels]
        nothing, statistics = np.zeros((len(features), 0)), self._statistics
        if statistics is None or not len(features):
            return Windows(heads, nothing, None, nothing)
        directions = statistics.directions(features[:, 0]) if self._near else nothing
        ago = None
        if earlier is not None and self._before:
            rows = statistics.directions(earlier[:, :, 0].reshape(-1, earlier.shape[-1]))
            ago = rows.reshape(*earlier.shape[:2], -1)
        known = statistics.known.logits(features[:, 0], self._sounds) if self._known_slots else nothing
        return Windows(heads, directions, ago, known)

    def of(self, windows: Windows) -> Floats:
        """Return the scores of :meth:`windows`, float32 [windows, labels], 0..1."""
        if self._statistics is None or not len(windows.heads):
            return windows.heads
        scores, found = windows.heads.copy(), logits(windows.heads)
        for slot, rows in self._near.items():
            head, worth = found[:, slot], self._worth[slot]
            near = worth.many_are_near if rows.shape[1] >= MANY else 1
            heard = windows.directions, windows.ago
            cosines = cosines_to(*heard, rows, self._before.get(slot), near, self._table)
            if slot in self._rejected:
                lacking = np.maximum(0.0, cosines_to(*heard, *self._rejected[slot], table=self._table) - cosines)
                cosines = cosines - self._table.lack * lacking
            by_head = np.where(head < 0, worth.no, worth.yes) * head
            found[:, slot] = by_head + worth.cosine * (cosines - self._neutral[slot])
        slots = self._known_slots
        found[:, slots] = np.where(self._mask[slots] > 0, found[:, slots], 0.0) + windows.known
        changed = sorted({*self._near, *slots})
        scores[:, changed] = _probabilities(found[:, changed])
        return scores

    def limits(self, windows: Windows) -> Floats:
        """Return how high scores of the windows ``AFTER_S`` earlier may be, float32 [windows, labels], 0..1.

        Other words begin as a long word does, or hold it: what follows its takes must follow it.
        """
        found = np.ones((len(windows.heads), self.labels), np.float32)
        for slot, directions in self._after.items() if len(windows.heads) else ():
            more = (windows.directions @ directions.T).max(axis=1) - self._neutral[slot]
            found[:, slot] = _probabilities(self._table.after + self._worth[slot].cosine * more)
        return found


def _probabilities(found: Floats | Doubles) -> Floats | Doubles:
    return np.asarray(1 / (1 + np.exp(-np.clip(found, -LARGEST, LARGEST))))


def cosines_to(
    directions: Floats | Doubles,
    ago: Floats | Doubles | None,
    rows: Floats | Doubles,
    before: Floats | Doubles | None,
    near: int = 1,
    table: ScoreTable = TABLE,
) -> Doubles:
    """Return how near windows, and those before them, lie to a word, float64 [windows].

    It is less by what the windows are nearer to one of the word's parts. ``directions``, ``ago``: as in
    :class:`Windows`; ``rows``, ``before``: as in :class:`Prototype`; ``near``: of so many takes the mean counts.
    """
    whole, *parts = (np.partition(directions @ takes.T, -near, axis=1)[:, -near:].mean(axis=1) for takes in rows)
    lacking = np.maximum(0.0, np.max(parts, axis=0) - whole) if parts else 0.0
    cosines = np.asarray(whole - table.lack * lacking, np.float64)
    return cosines if ago is None or before is None else _in_order(cosines, ago, before, table)


def _in_order(cosines: Doubles, ago: Floats | Doubles, before: Floats | Doubles, table: ScoreTable) -> Doubles:
    """Return cosines of windows, float64 [windows], with what earlier ones have of what comes before.

    A mean, and less the more the least of them lacks.
    """
    shares = np.linalg.norm(before, axis=1)
    found, least = (1 - shares.sum()) * cosines, cosines
    for share, directions, state in zip(shares, ago, before, strict=False):
        near = directions @ state / share
        near = np.where(np.isfinite(near), near, cosines)
        found, least = found + share * near, np.minimum(least, near)
    return np.asarray(found - table.weakest * table.weight_of_order(before) * (found - least))
