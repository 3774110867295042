"""The front end that `auricle-export build --features` names: a preset, or a pretrained network, or its first part.

A pretrained network is one that ships with Auricle, by its name, the speech embedding of an installed package, or a
file NAME.frontend.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fleet_protocol.arrays import Array
from fleet_protocol.embedding_statistics import EmbeddingStatistics
from fleet_protocol.feature_settings import (
    PRESETS,
    EmbeddingSettings,
    FeatureSettings,
    FrozenNetwork,
    JointSettings,
    NetworkSettings,
)
from fleet_protocol.ready_bundles import FRONT_END_SUFFIX, FRONT_ENDS
from fleet_protocol.tensors import pack
from model_export.errors import ExportError
from model_export.feature_statistics import Normalisation
from model_export.pretraining import front_end_file
from model_export.pretraining.front_end_file import FrontEndFile
from model_export.specification import Pretrained
from model_export.speech_embedding import package as speech_embedding

PRECISIONS = ("float32", "int8")
TRAINED = ("head", "last_block", "all")
_CONSTANT = 1e-3
# How much smaller the numbers for sounds are beside those for words: at their own size fewer words are recognised.
# Chosen on the tuning half of `benchmarks.listening`.
_SOUNDS_SCALE = 2.0
JOINED = ("base", "sounds")  # of words, and of sounds
SHIPPED = {path.stem: path for path in sorted(FRONT_ENDS.glob(f"*{FRONT_END_SUFFIX}"))}


@dataclass(frozen=True)
class FoundFrontEnd:
    """A front end, and what its file knows of its features."""

    settings: FeatureSettings  # of its features
    normalisation: Normalisation | None = None  # of them; None for a preset, which has no file
    # the words of each network's pretraining, packed; none for a preset, and where the embedding trains
    statistics: tuple[bytes, ...] = ()
    pretrained: Pretrained | None = None  # layers of its network that train


def find_front_end(name: str, precision: str, trains: str = "head") -> FoundFrontEnd:
    """Return a front end by its name.

    Args:
        name: a preset, a network that ships with Auricle, ``words_and_sounds``, ``speech_embedding``, or a file
            NAME.frontend.
        precision: of the network, ``float32`` or ``int8``.
        trains: what of the network trains with the head: nothing (``head``), its ``last_block``, or ``all``.

    Raises:
        ExportError: there is no such preset, the file cannot be read, the network's package is missing, or the choices
            contradict one another.
        ProtocolError: the file's settings cannot be read.
    """
    if name in PRESETS:
        if trains != "head":
            raise ExportError(f"features {name!r} have no network of which --train {trains} could speak; take base")
        return FoundFrontEnd(PRESETS[name])
    if name == JointSettings.kind:
        return _joint(precision, trains)
    if name == speech_embedding.NAME:
        if trains != "head":
            raise ExportError(f"{name} comes as a frozen network: --train {trains} is for base and files of `pretrain`")
        return _without_statistics(precision)
    if name not in SHIPPED and not name.endswith(FRONT_END_SUFFIX):
        known = ", ".join([*PRESETS, *SHIPPED, JointSettings.kind, speech_embedding.NAME])
        raise ExportError(f"unknown features {name!r}; known: {known}, or a file NAME{FRONT_END_SUFFIX}")
    file = front_end_file.read(SHIPPED.get(name, Path(name)))
    settings = FeatureSettings.from_json(file.description["features"])
    if not isinstance(settings, NetworkSettings):
        raise ExportError(f"{name} holds features of the kind {settings.kind!r}, not an embedding; make it again")
    if trains != "head":
        if not isinstance(settings, EmbeddingSettings) or settings.hears_sounds:
            raise ExportError(f"--train {trains} is for the networks that `pretrain` makes, not for {name}: take base")
        return _training(file, settings, precision, trains)
    if precision == "int8" and not file.int8:
        raise ExportError(f"{name} has no int8 form: its float32 network has weights of float16 on disk; take float32")
    network = FrozenNetwork.of(file.int8 if precision == "int8" else file.float32)
    statistics = EmbeddingStatistics.unpack(pack(file.statistics, {"words": list(file.words)}))
    return FoundFrontEnd(
        dataclasses.replace(settings, network=network), _measured(statistics.samples), (statistics.pack(),)
    )


def _joint(precision: str, trains: str) -> FoundFrontEnd:
    """Return the two front ends that hear words and sounds, side by side."""
    words, sounds = (find_front_end(name, precision, trains) for name in JOINED)
    assert isinstance(words.settings, EmbeddingSettings)
    assert isinstance(sounds.settings, EmbeddingSettings)
    assert words.normalisation is not None
    assert sounds.normalisation is not None
    normalisation = Normalisation(
        words.normalisation.mean + sounds.normalisation.mean,
        words.normalisation.std + tuple(_SOUNDS_SCALE * one for one in sounds.normalisation.std),
    )
    settings = JointSettings.of(JointSettings.kind, words.settings, sounds.settings)
    return FoundFrontEnd(settings, normalisation, (*words.statistics, *sounds.statistics))


def _without_statistics(precision: str) -> FoundFrontEnd:
    """Return the speech embedding as its package has it: nothing is known of words."""
    if precision != "float32":
        raise ExportError(
            f"the {precision} form of {speech_embedding.NAME} needs recordings: make a file by `auricle-export "
            f"speech-embedding --data FOLDER -o {speech_embedding.NAME}{FRONT_END_SUFFIX}`, and name it in --features"
        )
    convolutions = speech_embedding.read_convolutions()

    from model_export.speech_embedding.network import float32_graph

    graph = float32_graph(convolutions)
    return FoundFrontEnd(speech_embedding.settings(FrozenNetwork.of(graph)))


def _training(file: FrontEndFile, settings: EmbeddingSettings, precision: str, trains: str) -> FoundFrontEnd:
    """Return a front end that ends before the layers that train, and these."""
    if precision != "float32":
        raise ExportError(f"--train {trains} goes with --front-end-precision float32 alone: int8 layers cannot train")
    from model_export.pretraining.conversion import divide

    features, pretrained = divide(file, settings, trains)
    # The layers were trained on features of this scale.
    numbers = features.shape[1]
    mean, std = (0.0, 1.0) if isinstance(features, EmbeddingSettings) else (-settings.offset, settings.scale)
    return FoundFrontEnd(features, Normalisation((mean,) * numbers, (std,) * numbers), pretrained=pretrained)


def _measured(samples: Array) -> Normalisation:
    """Return the normalisation of embeddings, float32 [words, clips, numbers].

    A number may be the same for every clip, as those of a rectified unit that never fires; it is left as it is.
    """
    mean, std = samples.mean(axis=(0, 1), dtype=np.float64), samples.std(axis=(0, 1), dtype=np.float64)
    std[std < _CONSTANT] = 1.0
    return Normalisation(tuple(map(float, mean.round(4))), tuple(map(float, std.round(4))))
