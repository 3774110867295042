"""Teaching on a bundle whose front end is pretrained: a head from scratch, on embeddings (docs/teaching.md)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from edge_client.config import Config
from edge_client.detection.calibration import fit_tails
from edge_client.errors import RecordingError
from edge_client.learning.new_sounds.impressions import Synthesis, synthesise
from edge_client.learning.teaching.expectation import expectations
from edge_client.learning.teaching.fleet_centres import centres
from edge_client.learning.teaching.head import train_head
from edge_client.learning.teaching.head_material import head_material
from edge_client.learning.teaching.hearing import Hearing
from edge_client.learning.teaching.taught import Taught, known_slots, with_labels
from edge_client.model.runtime import ModelRuntime
from edge_client.storage.device_state import DeviceState
from edge_client.storage.saved_model import SavedModel
from fleet_protocol.arrays import Floats
from fleet_protocol.bundle import read_bundle
from fleet_protocol.labels import LabelMap

# Where nothing else tells of a class, its data impressions do.
_IMPRESSIONS = Synthesis(count=32)
# Embeddings of other words, and as many of people's talk, by which thresholds are set.
_OTHERS = 4000


def teach_head(config: Config, state: DeviceState, saved: SavedModel, seed: int) -> Taught:
    """Train a head for all labels and for what is no label; both sets of weights become the same.

    Args:
        config: of the device.
        state: its state folder.
        saved: its model; the bundle has background outputs.
        seed: of everything random but what is cached.

    Raises:
        RecordingError: there are no labels, or no clip can be read.
        ModelError: the training diverged.
    """
    model = ModelRuntime(saved.bundle, config.device.threads)
    heard = Hearing(config, model.manifest.feature_settings, state.embeddings_path).heard()
    public_set = state.blobs.public_set(model.manifest.feature_settings)
    fleet = state.blobs.prototypes(model.manifest.feature_settings)
    label_map = with_labels(saved.progress.label_map, heard.takes)
    if not label_map.slots:
        raise RecordingError(f"no readable clips in {config.clips_folder}; record or import some first")
    statistics = saved.bundle.manifest.embedding_statistics
    assert statistics is not None
    known = known_slots(saved.progress.label_map, set(heard.takes), keep_all=config.clips.expire_days > 0)
    imagine = _imagination(model, saved, np.random.default_rng([seed, 1]))
    prototypes = {} if fleet is None else centres(fleet, statistics, np.random.default_rng([seed, 4]))
    material = head_material(label_map, known, heard, statistics, public_set, imagine, prototypes)
    settings = config.training
    weights = train_head(
        model,
        read_bundle(config.model.bundle).weights,
        label_map,
        material,
        settings.teach_epochs,
        settings.teach_learning_rate,
        seed,
    )
    rng = np.random.default_rng([seed, 3])
    others = material.draws(label_map.background, _OTHERS, rng)
    talk = statistics.speech.draw(statistics.speech.means[0], _OTHERS, rng)
    rejected = [clips[:, 0] for clips in heard.rejected.values()]
    tails = _tails(model, label_map, np.concatenate([others, talk, statistics.noise, heard.nothing, *rejected]))
    expected = expectations(model, label_map, heard, statistics, np.random.default_rng([seed, 2]))
    clips = sum(len(takes) for takes in heard.takes.values())
    return Taught(weights, weights, label_map, clips, background_trained=True, expected=expected, tails=tails)


def _tails(model: ModelRuntime, label_map: LabelMap, negatives: Floats) -> dict[str, tuple[float, float]]:
    """Return by label how often sounds that are no label's score high for it, with the weights that listen.

    Args:
        model: with these weights.
        label_map: its labels.
        negatives: embeddings of such sounds, float32 [rows, numbers].
    """
    scores = model.predict(model.normalise(negatives[:, None]), label_map.listening_mask)[:, : len(label_map.slots)]
    return {name: (tail.level, tail.scale) for name, tail in zip(label_map.names, fit_tails(scores), strict=True)}


def _imagination(model: ModelRuntime, saved: SavedModel, rng: np.random.Generator) -> Callable[[int], Floats]:
    """Return what makes data impressions of a slot from the weights that the device listened with so far."""

    def imagine(slot: int) -> Floats:
        model.set_weights(saved.listening)
        return synthesise(model, saved.progress.label_map.mask, [slot], _IMPRESSIONS, rng)[0, :, 0]

    return imagine
