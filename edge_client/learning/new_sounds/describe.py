"""How a device describes sounds that the fleet does not know, whatever the strategy.

By prototypes where the front end is an embedding that all devices have in common, else by impressions and profiles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from edge_client.learning.new_sounds.class_means import class_means
from edge_client.learning.new_sounds.impressions import Synthesis, synthesise
from edge_client.learning.new_sounds.profiles import profiles
from edge_client.learning.training_data import Clips
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.arrays import Floats
from fleet_protocol.feature_settings import EmbeddingSettings
from fleet_protocol.setting import Value
from fleet_protocol.tensors import Arrays


def describe(
    model: ModelRuntime,
    mask: Floats,
    clips: Clips,
    public: Floats,
    slots: Sequence[int],
    settings: Mapping[str, Value],
    rng: np.random.Generator,
) -> Arrays:
    """Return the array ``prototypes``, or ``impressions`` and ``profiles``, of some classes in the order of ``slots``.

    Args:
        model: that was trained on the clips.
        mask: float32 [capacity], the classes that it knows.
        clips: normalised for the model, with its slots.
        public: the public set's normalised features, float32 [samples, frames, coefficients].
        slots: the classes to describe, each with at least one clip.
        settings: of the synthesis.
        rng: draws what is random in it.
    """
    if isinstance(model.manifest.feature_settings, EmbeddingSettings):
        return {"prototypes": class_means(model.denormalise(clips.x[0]), clips.slots, slots)}
    impressions = synthesise(model, mask, list(slots), synthesis_of(settings), rng)
    own, heard = model.embed(clips.x[0]), model.embed(public)
    return {"impressions": impressions, "profiles": profiles(heard, own, clips.slots, slots)}


def synthesis_of(settings: Mapping[str, Value]) -> Synthesis:
    """Return how a plan's settings have impressions synthesised (edge_client/learning/methods/settings.py)."""
    return Synthesis(
        count=int(settings["impressions"]),
        steps=int(settings["impression_steps"]),
        rate=float(settings["impression_rate"]),
        l2=float(settings["impression_l2"]),
        scale=float(settings["impression_scale"]),
        start=float(settings["impression_start"]),
        temperature=float(settings["temperature"]),
    )
