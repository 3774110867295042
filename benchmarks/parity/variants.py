"""What is compared: the variants of the zoo, and batches that every process makes alike."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fleet_protocol.bundle.bundle_file import Manifest
from fleet_protocol.bundle.feature_settings import preset
from fleet_protocol.numbers.arrays import Floats
from model_export.feature_statistics import Normalisation
from model_export.specification import Specification
from model_export.zoo import ARCHITECTURES

VARIANTS = ("ann3", "cnn1", "cnn2", "cnn3", "cnn4", "dscnn3")
LARGER = tuple(name for name in ARCHITECTURES if name not in VARIANTS)
CAPACITY, BATCH, STEPS = 32, 32, 50
MOMENTUM, TEMPERATURE, PROXIMAL = 0.9, 2.0, 0.1
# Each step of a recurrent layer, and each block that is repeated, makes a graph larger, which takes minutes to build.
_FRAMES = {"mhattrnn": 6}
_SIZES = {"transformer": (2, 96, 100, 3)}  # two blocks for four


def specification(variant: str, batch: int) -> Specification:
    """Return what to build for a variant: a network as published, but for :data:`_FRAMES` and :data:`_SIZES`."""
    settings, design = preset("gudur"), ARCHITECTURES[variant]
    normalisation, frames = Normalisation.default(settings), _FRAMES.get(variant, settings.frames)
    settings = replace(settings, frames=frames, clip_s=frames * settings.hop_s)
    design = replace(design, sizes=_SIZES.get(variant, design.sizes))
    return Specification(variant, settings, normalisation, CAPACITY, batch, design=design)


def rate(variant: str) -> float:
    """Return the learning rate: less for networks that normalise, which make more of every rounding."""
    smooth = variant in VARIANTS or variant.startswith("crnn")
    return 0.01 if smooth else 0.001


def padded(batch: int) -> int:
    """Return how many rows of every batch are not there."""
    return max(1, batch // 6)


def mask() -> Floats:
    """Nine classes are on, not only the first ones."""
    switched = np.zeros(CAPACITY, np.float32)
    switched[[0, 2, 3, 4, 6, 7, 8, 9, 31]] = 1
    return switched


def batches(batch: int, steps: int, manifest: Manifest) -> tuple[Floats, Floats]:
    """Return x [steps, batch, *input_shape], of classes with a pattern each, and soft, signed targets."""
    generator = np.random.default_rng(7)
    on, shape = np.flatnonzero(mask()), manifest.input_shape
    patterns = generator.normal(size=(CAPACITY, *shape))
    labels = generator.choice(on, size=(steps, batch))
    x = patterns[labels] + generator.normal(size=(steps, batch, *shape))
    targets = np.eye(CAPACITY)[labels] * 0.8
    targets[..., on] += 0.2 * (generator.dirichlet(np.ones(len(on)), size=labels.shape) - 0.02)
    targets[:, batch - padded(batch) :] = 0
    x[:, batch - padded(batch) :] = 0
    return x.astype(np.float32), targets.astype(np.float32)
