"""From a round's clips to rows that a model can be trained on, and the share of them that it never trains on.

That share tells a device which of two models serves it better. It is split by source, as a corpus is split by speaker:
a model that knows a voice, or one recording's noise, would look better than it is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edge_client.audio.recordings import Recordings, speaker_of
from edge_client.features.augmentation import BackgroundNoise, augment
from edge_client.features.front_end import FrontEnd, open_front_end
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.numbers.arrays import Floats, Ints

HELD_OUT = 0.2
"""Share of a device's clips that no round trains on, where the round's plan names none."""
FEWEST = 8
"""Clips from which a comparison of two models says something.

Take a model that loses a quarter of what another recognises and gains a twentieth: of 8 clips it names fewer with a
probability of 0.78, and with 0.95 where it loses 45 %; of 4 clips with 0.60 and 0.83. And 8 are a fifth of 40.
"""
# Makes a variant of every clip: (clips, sample rate in Hz, rng, noise) -> clips.
_Augment = Callable[[Floats, int, np.random.Generator, BackgroundNoise | None], Floats]


class Split:
    """Recordings without the clips held out; ``held_out`` has those instead, the same in every round."""

    def __init__(self, recordings: Recordings, share: float, *, fewest: int = 0, evaluating: bool = False) -> None:
        """Split what is in the folder now, with a share held out, 0 to 1; none where that is fewer than ``fewest``
        clips.

        ``evaluating``: whether to deliver the clips that are held out, instead of the others.
        """
        self._recordings, self._evaluating = recordings, evaluating
        self._share, self._fewest = share, fewest
        clips = {label: recordings.clips(label) for label in recordings.labels()}
        chosen = held_out(clips, share) if share > 0 else frozenset()
        self._held_out = chosen if len(chosen) >= fewest else frozenset()

    @property
    def held_out(self) -> Split:
        """The other part."""
        return Split(self._recordings, self._share, fewest=self._fewest, evaluating=True)

    def labels(self) -> tuple[str, ...]:
        """Return the labels that have clips now, held out or not."""
        return self._recordings.labels()

    def clips_for_round(self, round_number: int, label: str) -> list[Path]:
        """Return a label's clips for a round without those held out; or all of those."""
        if self._evaluating:
            return [path for path in self._recordings.clips(label) if path in self._held_out]
        drawn = self._recordings.clips_for_round(round_number, label)
        return [path for path in drawn if path not in self._held_out]

    def load(self, clips: Sequence[Path]) -> Floats:
        """Return float32 [clips, samples], as :meth:`Recordings.load` does."""
        return self._recordings.load(clips)


def held_out(clips: Mapping[str, Sequence[Path]], share: float) -> frozenset[Path]:
    """Choose the clips to hold out: whole sources in the order of their names' digests, as near to the share as may be.

    A device that hears mostly one source, or too few to leave one out, holds out single clips instead: its model is
    to serve those whom it hears. A label that would keep no clip to train on holds none out.
    """
    paths = [path for label in sorted(clips) for path in clips[label]]
    wanted = share * len(paths)
    by_source: dict[str, list[Path]] = {}
    for path in paths:
        by_source.setdefault(speaker_of(path), []).append(path)
    one_by_one = {f"{path.parent.name}/{path.name}": [path] for path in paths}
    largest = max(map(len, by_source.values()), default=0)
    chosen = _fill(by_source if largest <= len(paths) / 2 else one_by_one, wanted)
    if len(chosen) < wanted / 2:
        chosen = _fill(one_by_one, wanted)
    for label in clips:
        if chosen.issuperset(clips[label]):
            chosen.difference_update(clips[label])
    return frozenset(chosen)


def _fill(sources: Mapping[str, Sequence[Path]], wanted: float) -> set[Path]:
    """Take every source that brings the number of clips nearer to the one wanted."""
    chosen: set[Path] = set()
    for source in sorted(sources, key=lambda name: hashlib.sha256(name.encode(errors="surrogateescape")).digest()):
        if len(chosen) + len(sources[source]) / 2 <= wanted:
            chosen.update(sources[source])
    return chosen


@dataclass(frozen=True)
class Clips:
    """A round's clips of several labels, ready for the model.

    ``x``: normalised features, float32 [variants, clips, frames, coefficients]; the first variant is the recording
    itself, the others are augmented. ``slots``: slot of each clip's label, int64 [clips].
    """

    x: Floats
    slots: Ints

    def draw(self, rng: np.random.Generator) -> Floats:
        """Pick one variant of every clip: float32 [clips, frames, coefficients]; not to be written to."""
        if len(self.x) == 1:  # what is drawn from one takes no random numbers either
            return np.asarray(self.x[0], np.float32)
        chosen: Floats = self.x[rng.integers(len(self.x), size=len(self.slots)), np.arange(len(self.slots))]
        return chosen

    def count(self, slot: int) -> int:
        """Return how many clips a slot has."""
        return int((self.slots == slot).sum())


def rescaled(x: Floats, source: ModelRuntime, target: ModelRuntime) -> Floats:
    """Return features that are normalised for one model as another model takes them."""
    scales = [(model.manifest.mean, model.manifest.std) for model in (source, target)]
    return x if scales[0] == scales[1] else target.normalise(source.denormalise(x))


def gather(
    source: Recordings | Split,
    round_id: int,
    slots: dict[str, int],
    model: ModelRuntime,
    rng: np.random.Generator,
    *,
    copies: int,
    noise: BackgroundNoise | None,
    augmented: _Augment = augment,
) -> Clips:
    """Load a round's clips of some labels and compute their features, with so many augmented ``copies`` of each."""
    settings = model.manifest.feature_settings
    front_end = open_front_end(settings)
    parts: list[Floats] = []
    owners: list[int] = []
    for label, slot in slots.items():
        samples = source.load(source.clips_for_round(round_id, label))
        if not len(samples):
            continue
        parts.append(variants(samples, front_end, model, rng, copies=copies, noise=noise, augmented=augmented))
        owners += [slot] * len(samples)
    if not parts:
        return Clips(np.zeros((1 + copies, 0, *settings.shape), np.float32), np.zeros(0, np.int64))
    return Clips(np.concatenate(parts, axis=1), np.asarray(owners, np.int64))


def variants(
    samples: Floats,
    front_end: FrontEnd,
    model: ModelRuntime,
    rng: np.random.Generator,
    *,
    copies: int,
    noise: BackgroundNoise | None = None,
    augmented: _Augment = augment,
) -> Floats:
    """Return normalised features of float32 [clips, samples], and of augmented ones, as :attr:`Clips.x` has them."""
    rate_hz = front_end.settings.sample_rate_hz
    heard = [samples, *(augmented(samples, rate_hz, rng, noise) for _ in range(copies))]
    return np.stack([model.normalise(front_end(variant)) for variant in heard])


def held_out_accuracy(model: ModelRuntime, mask: Floats, clips: Clips, slots: Sequence[int]) -> float:
    """Share of clips that the model names rightly among some slots, 0..1 (nan where there are no clips)."""
    wanted = np.isin(clips.slots, slots)
    if not wanted.any():
        return float("nan")
    found = model.predict(clips.x[0][wanted], mask)[:, list(slots)].argmax(axis=1)
    return float((np.asarray(slots)[found] == clips.slots[wanted]).mean())
