"""From a round's clips to rows that a model can be trained on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from edge_client.audio import ClipSource
from edge_client.features.augmentation import BackgroundNoise, augment
from edge_client.features.front_end import FrontEnd, open_front_end
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.arrays import Floats, Ints

# Makes a variant of every clip: (clips, sample rate in Hz, rng, noise) -> clips.
Augment = Callable[[Floats, int, np.random.Generator, BackgroundNoise | None], Floats]


@dataclass(frozen=True)
class Clips:
    """A round's clips of several labels, ready for the model.

    Attributes:
        x: Normalised features, float32 [variants, clips, frames, coefficients]; the first variant is the recording
            itself, the others are augmented.
        slots: Slot of each clip's label, int64 [clips].
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
    source: ClipSource,
    round_id: int,
    slots: dict[str, int],
    model: ModelRuntime,
    rng: np.random.Generator,
    *,
    copies: int,
    noise: BackgroundNoise | None,
    augmented: Augment = augment,
) -> Clips:
    """Load a round's clips of some labels and compute their features.

    Args:
        source: where clips come from.
        round_id: which round.
        slots: slot of every label wanted.
        model: whose features and normalisation.
        rng: of the augmentation.
        copies: augmented variants of every clip.
        noise: mixed into augmented variants.
        augmented: makes a variant of every clip.
    """
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
    augmented: Augment = augment,
) -> Floats:
    """Return normalised features of clips and of augmented variants, as :attr:`Clips.x` has them.

    Args:
        samples: float32 [clips, samples].
        front_end: computes the features.
        model: whose normalisation.
        rng: of the augmentation.
        copies: augmented variants of every clip.
        noise: mixed into augmented variants.
        augmented: makes a variant of every clip.
    """
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
