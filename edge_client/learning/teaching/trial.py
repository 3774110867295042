"""A device tries a class of others before it listens for it: on what it knows itself.

A class that is heard in other words, in talk, or in place of the owner's own sounds is refused, whoever
sent it: one device of a fleet may send anything (docs/security.md, "Bad devices"). A phrase is tried by its order: on
what came before the owner's phrases, and on other words before each word.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from edge_client.detection.posterior_handling import reaches
from edge_client.detection.scores import Scorer
from edge_client.detection.thresholds import Tail
from edge_client.learning.teaching.material import SAME_SOUND, Material
from edge_client.model.prototypes import Prototype
from edge_client.storage.fleet_classes import Refused
from fleet_protocol.bundle.labels import LabelMap
from fleet_protocol.numbers.arrays import Doubles, Floats

# Share of a sound that the device hears already that may be taken for a class of others.
_OWN_SHARE = 0.25
# Whitened cosine of a class's mean and a sound's from which the one is a copy of the other: two words of one voice that
# sound much alike, such as a synthesiser's "stop" and "off", lie below it.
_COPY = 0.9
# Draws of each word of the pretraining, words in an hour of talk, and of how many false alarms an hour more than
# promised there may be signs: so few draws do not show less.
_DRAWS, _WORDS_PER_HOUR, _ALLOWED = 40, 600.0, 6.0


@dataclass(frozen=True)
class _Windows:
    rows: Floats  # float32 [windows, numbers]
    earlier: Floats  # what came before them, float32 [states, windows, numbers]; NaN where nobody knows


@dataclass(frozen=True)
class Trial:
    """What classes of others are tried on."""

    material: Material
    scorer: Scorer
    prototypes: Mapping[str, Prototype]
    tails: Mapping[str, Tail]
    promised: float  # false alarms an hour of a label

    @property
    def _labels(self) -> LabelMap:
        return self.material.label_map

    def refused(self, classes: Mapping[int, Floats]) -> dict[int, Refused]:
        """Return why some classes are refused, by slot; ``classes`` by slot what is known of each, [any, numbers]."""
        found: dict[int, Refused] = {}
        own = self._own()
        for slot, rows in classes.items():
            label = self._labels.names[slot]
            taken = {name: self._taken(slot, rows, name, sounds) for name, sounds in own.items() if name != label}
            worst = max(taken, key=lambda name: taken[name], default="")
            rate = self._false_alarms(slot, rows)
            if worst and taken[worst] > _OWN_SHARE:
                told = f"{taken[worst]:.0%} of {worst!r} would be taken for it"
                found[slot] = Refused("own_sounds", told)
            elif rate > self.promised + _ALLOWED:
                told = f"it would be heard wrongly about {rate:.0f} times an hour; {self.promised:g} is promised"
                found[slot] = Refused("false_alarms", told)
        return found

    def _taken(self, slot: int, rows: Floats, name: str, sounds: _Windows) -> float:
        """Return which share of a label's sounds is heard as the class; all of a copy of theirs."""
        copied = self._near(rows, sounds.rows.mean(axis=0, keepdims=True))[0] >= _COPY
        return 1.0 if copied and self._in_one_order(slot, name) else self._share(slot, sounds)

    def _in_one_order(self, slot: int, name: str) -> bool:
        """Tell whether what comes before a class and a label is the same too, or one of the two does not say."""
        found = [self.prototypes.get(one) for one in (self._labels.names[slot], name)]
        one, other = (np.zeros((0, 1)) if label is None else label.before for label in found)
        states = min(len(one), len(other))
        products = np.sum(one[:states] * other[:states], axis=1) if states else np.zeros(0)
        lengths = np.linalg.norm(one[:states], axis=1) * np.linalg.norm(other[:states], axis=1)
        return bool((products >= SAME_SOUND * lengths).all())

    def _own(self) -> dict[str, _Windows]:
        """Return by label the owner's takes, or public recordings of what is heard."""
        found = {label: self._of_takes(label) for label in self.material.heard.takes}
        public_set = self.material.fleet.public_set
        for class_id in () if public_set is None else public_set.class_ids:
            slot, rows = self._labels.slot_of_class(class_id), self.material.fleet.public(class_id)
            if slot is not None and len(rows):
                found.setdefault(self._labels.names[slot], self._windows(rows))
        return found

    def _of_takes(self, label: str) -> _Windows:
        takes, before = self.material.heard.takes[label], self.material.heard.before.get(label)
        rows = takes[:, 1:].reshape(-1, takes.shape[-1])  # what comes before the clip itself was not computed
        if before is None or before.rows.shape[1] != len(rows):
            return self._windows(takes.reshape(-1, takes.shape[-1]))
        return self._windows(rows, before.rows)

    def _windows(self, rows: Floats, before: Floats | None = None) -> _Windows:
        earlier = np.full((self.scorer.states, *rows.shape), np.nan, np.float32)
        for state, known in enumerate(() if before is None else before[: self.scorer.states]):
            earlier[state] = known
        return _Windows(rows, earlier)

    @cached_property
    def _words(self) -> list[_Windows]:
        """Draws of each word of the pretraining, before which others came."""
        rng, varied = np.random.default_rng(0), self.material.statistics.varied
        draws = [varied.draw(mean, _DRAWS, rng) for mean in varied.means]
        every = np.concatenate(draws)
        found = [self._windows(rows) for rows in draws]
        for one in found:
            one.earlier[:] = every[rng.integers(len(every), size=one.earlier.shape[:2])]
        return found

    def _share(self, slot: int, windows: _Windows) -> float:
        """Return which share of windows is heard as a label."""
        if not len(windows.rows):
            return 0.0
        scores = self.scorer(windows.rows[:, None], windows.earlier[:, :, None])
        limits = [self.tails[name].threshold(self.promised) for name in self._labels.names]
        best, reached = reaches(scores, np.array(limits, np.float32)[:, None], np.zeros(len(limits), np.bool_))
        return float(((best == slot) & reached[:, 0]).mean())

    def _near(self, rows: Floats, others: Floats) -> Doubles:
        """Return the whitened cosines of a class's mean and others, float32 [others, numbers]."""
        mean = self.material.statistics.whitened(rows.mean(axis=0, keepdims=True))[0]
        return np.asarray(self.material.statistics.whitened(others) @ mean)

    def _false_alarms(self, slot: int, rows: Floats) -> float:
        """Return how often an hour the class is heard in talk, in words that are not the one that it may be."""
        shares = [self._share(slot, word) for word in self._words]
        near = self._near(rows, self.material.statistics.means)
        if near.max(initial=-1.0) >= SAME_SOUND:
            shares.pop(int(near.argmax()))
        return _WORDS_PER_HOUR * float(np.mean(shares)) if shares else 0.0
