"""The front end that `auricle-export build --features` names: a preset, or a pretrained network.

A pretrained network is one that ships with Auricle, by its name, or a file NAME.frontend.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fleet_protocol.bundle.feature_settings import (
    PRESETS,
    EmbeddingSettings,
    FeatureSettings,
    FrozenNetwork,
    JointSettings,
)
from fleet_protocol.bundle.ready_bundles import FRONT_END_SUFFIX, FRONT_ENDS
from fleet_protocol.errors import ProtocolError
from fleet_protocol.numbers.arrays import Array
from fleet_protocol.numbers.embedding_statistics import EmbeddingStatistics
from fleet_protocol.numbers.tensors import pack
from model_export.errors import ExportError
from model_export.feature_statistics import Normalisation
from model_export.pretraining import front_end_file

PRECISIONS = ("float32", "int8")
# Some rectified units hardly fire for the words of the pretraining, and do for others. Divided by their own deviation
# they would be most of what a head sees, so none counts as less than this share of the numbers' root mean square.
_LEAST = 1 / 3
# Numbers for which a head's learning rate was chosen: more are made smaller, so that a step changes its logits as much.
_NUMBERS = 128
# How much smaller the numbers for sounds are beside those for words: at their own size fewer words are recognised.
# Chosen with `base` on the tuning half of `benchmarks.listening`; beside `words` in the same proportion.
_SOUNDS_SCALE = 2**0.5
JOINED = ("words", "sounds_2s")  # of words, and of sounds
SHIPPED = {path.stem: path for path in sorted(FRONT_ENDS.glob(f"*{FRONT_END_SUFFIX}"))}


@dataclass(frozen=True)
class FoundFrontEnd:
    """A front end, and what is known of its features."""

    settings: FeatureSettings  # of its features
    normalisation: Normalisation  # of them
    statistics: tuple[bytes, ...] = ()  # the words of each network's pretraining, packed; none for a preset


def find_front_end(name: str, precision: str) -> FoundFrontEnd:
    """Return a front end: a preset, a network that ships with Auricle, ``words_and_sounds``, or a file NAME.frontend.

    ``precision`` of the network: ``float32`` or ``int8``. Raises ExportError: there is none such, the file cannot be
    read, or the choices contradict one another.
    """
    if name in PRESETS:
        return FoundFrontEnd(PRESETS[name], Normalisation.default(PRESETS[name]))
    if name == JointSettings.kind:
        return _joint(precision)
    if name not in SHIPPED and not name.endswith(FRONT_END_SUFFIX):
        known = ", ".join([*PRESETS, *SHIPPED, JointSettings.kind])
        raise ExportError(f"unknown features {name!r}; known: {known}, or a file NAME{FRONT_END_SUFFIX}")
    file = front_end_file.read(SHIPPED.get(name, Path(name)))
    try:
        settings = FeatureSettings.from_json(file.description.get("features"))
        statistics = EmbeddingStatistics.unpack(pack(file.statistics, file.document))
    except ProtocolError as error:
        raise ExportError(f"{name} is no usable front end: {error}; make it again") from error
    if not isinstance(settings, EmbeddingSettings):
        raise ExportError(f"{name} holds features of the kind {settings.kind!r}, not an embedding; make it again")
    if precision == "int8" and not file.int8:
        raise ExportError(f"{name} has no int8 form: its float32 network has weights of float16 on disk; take float32")
    network = FrozenNetwork.of(file.int8 if precision == "int8" else file.float32)
    settings = dataclasses.replace(settings, network=network)
    return FoundFrontEnd(settings, _measured(statistics.samples), (statistics.pack(),))


def _joint(precision: str) -> FoundFrontEnd:
    """Return the two front ends that hear words and sounds, side by side."""
    words, sounds = (find_front_end(name, precision) for name in JOINED)
    assert isinstance(words.settings, EmbeddingSettings)
    assert isinstance(sounds.settings, EmbeddingSettings)
    normalisation = Normalisation(
        words.normalisation.mean + sounds.normalisation.mean,
        words.normalisation.std + tuple(_SOUNDS_SCALE * one for one in sounds.normalisation.std),
    )
    settings = JointSettings.of(JointSettings.kind, words.settings, sounds.settings)
    return FoundFrontEnd(settings, normalisation, (*words.statistics, *sounds.statistics))


def _measured(samples: Array) -> Normalisation:
    """Return the normalisation of embeddings, float32 [words, clips, numbers]."""
    mean, std = samples.mean(axis=(0, 1), dtype=np.float64), samples.std(axis=(0, 1), dtype=np.float64)
    std = np.maximum(std, _LEAST * np.sqrt(np.mean(std**2)))
    std *= np.sqrt(max(1.0, len(std) / _NUMBERS))
    return Normalisation(tuple(map(float, mean.round(4))), tuple(map(float, std.round(4))))
