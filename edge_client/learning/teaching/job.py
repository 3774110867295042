"""What the owner taught is learned at once: new labels take a slot, and the device hears them before any round.

So it is where the front end carries the words of its pretraining; with other bundles a device learns in rounds alone.
The weights that listen and those with which the next round goes on become the same. docs/teaching.md has the figures.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from edge_client.clips.folders import known_labels, labels_with_clips, store_digest
from edge_client.clips.store import is_changing
from edge_client.config import Config
from edge_client.detection.longer_words import longer_words
from edge_client.errors import RecordingError
from edge_client.learning.class_links import adopt_classes, take_labels, without_silent
from edge_client.learning.teaching.advice import Advice, advice_on
from edge_client.learning.teaching.fleet_sounds import FleetSounds
from edge_client.learning.teaching.heard import Embedder
from edge_client.learning.teaching.lesson import Lesson
from edge_client.model.runtime import ModelRuntime
from edge_client.storage.device_state import DeviceState
from edge_client.storage.fleet_classes import Refused
from edge_client.storage.saved_model import TEACHING, SavedModel
from fleet_protocol.bundle.bundle_file import read_bundle
from fleet_protocol.messages.rest import ClassInfo

log = logging.getLogger(__name__)

NO_CLIPS = "0" * 16
"""Stands for the digest of a store without clips."""


def to_teach(config: Config, state: DeviceState) -> str | None:
    """Tell cheaply whether the clips are others than those last learned from: the store's digest, else None.

    A device without a microphone learns in rounds alone: nobody waits for it to hear. Nor is there anything to learn
    while a command is changing the clips. A model that a round gave labels learns these without any clip: ``NO_CLIPS``.
    """
    folder = config.clips_folder
    if config.microphone is None or is_changing(folder):
        return None
    digest, said = store_digest(folder), state.offers.unlearned()
    if digest is None and not said:
        return NO_CLIPS if state.model.lacks_background() else None
    changed = said or digest != state.model.taught()
    return f"{digest or NO_CLIPS}{said}" if changed and _has_background(config.bundle) else None


@functools.lru_cache(maxsize=1)
def _has_background(bundle: Path) -> bool:
    return bool(read_bundle(bundle).manifest.background)


def teach(config: Config, state: DeviceState) -> DeviceModel:
    """Learn from all clips of the owner, and save the weights, the labels and the store's digest together."""
    began, said = time.monotonic(), state.offers.said()
    saved = state.model.load(config.bundle)
    made = go_over(config, state, _with_offers(config, state, saved))
    if made is None:
        raise RecordingError(f"no readable clips in {config.clips_folder}; record or import some first")
    made.note_tried(state)
    made.save(state)
    state.offers.note_learned(said)
    label_map = made.model.progress.label_map
    new = [label_map.names[slot] for slot in label_map.new_since(saved.progress.label_map)]
    log.info("learned from %d clips in %.0f s; new: %s", made.clips, time.monotonic() - began, ", ".join(new) or "none")
    return made


def _with_offers(config: Config, state: DeviceState, saved: SavedModel) -> SavedModel:
    """Return a model with slots for the classes of others that it is to listen for, and for no other ones.

    Those of which nothing is at hand come with the next round.
    """
    settings, offers = saved.bundle.manifest.feature_settings, state.offers.all()
    own = {*labels_with_clips(config.clips_folder), *known_labels(config.clips_folder)}
    label_map = without_silent(saved.progress.label_map, state.offers.silent(), own)
    fleet, public_set = state.blobs.prototypes(settings), state.blobs.public_set(settings)
    described = {*(fleet.class_ids if fleet else ()), *(public_set.class_ids if public_set else ())}
    wanted = [one for one in offers if one.is_heard and one.class_id in described and config.device.learn_discovered]
    label_map = adopt_classes(label_map, [ClassInfo(one.class_id, one.name) for one in wanted])
    return dataclasses.replace(saved, progress=dataclasses.replace(saved.progress, label_map=label_map))


@dataclass(frozen=True)
class DeviceModel:
    """A device's model; ``advice`` on its labels since it last learned the owner's clips, None where that stays."""

    model: SavedModel
    advice: tuple[Advice, ...] | None = None
    clips: int = 0
    tried: tuple[str, ...] = ()  # classes of others that were tried
    refused: Mapping[str, Refused] = field(default_factory=dict)  # those of them that are not listened for

    def note_tried(self, state: DeviceState) -> None:
        """Note what was found of classes of others."""
        for class_id, one in self.refused.items():
            log.warning("does not listen for the fleet's class %s: %s", class_id, one.told)
        state.offers.note_tried(self.refused, self.tried)

    def save(self, state: DeviceState) -> None:
        """Save what would help its labels, and then the model, which says that its clips are learned."""
        if self.advice is not None:
            state.save_advice([dataclasses.asdict(one) for one in self.advice])
        state.model.save(self.model.bundle.weights, self.model.listening, self.model.progress)


def go_over(config: Config, state: DeviceState, saved: SavedModel) -> DeviceModel | None:
    """Learn from all clips of the owner, beginning with a device's model, or what a round made of it; nothing is saved.

    Returns None where there is nothing to learn, neither a clip nor a label, and where a bundle learns in rounds alone.
    """
    digest = store_digest(config.clips_folder)  # before the clips are read: one that comes meanwhile is learned next
    if not saved.bundle.manifest.background or (digest is None and not saved.progress.label_map.slots):
        return None
    lesson = lesson_of(config, state, saved, int(digest or NO_CLIPS, 16))
    taught = lesson.learn()
    material, tails = taught.material, {label: (tail.level, tail.scale) for label, tail in taught.tails.items()}
    progress = dataclasses.replace(
        saved.progress,
        label_map=material.label_map,
        taught=digest or "",
        teaching=TEACHING,
        background_trained=True,
        tails=tails,
        prototypes=taught.prototypes,
        known=material.built_in,
        unheard=material.listening_labels.off,
    )
    bundle = dataclasses.replace(saved.bundle, weights=taught.weights)
    advice = advice_on(material.heard, material.statistics, material.kinds, longer_words(taught.prototypes))
    clips = sum(map(len, material.heard.takes.values()))
    model = SavedModel(bundle, taught.weights, progress)
    return DeviceModel(model, advice, clips, taught.tried, taught.refused)


def lesson_of(config: Config, state: DeviceState, saved: SavedModel, seed: int) -> Lesson:
    """Read all that a device's labels are learned from.

    Raises RecordingError if there are no labels, or no clip can be read.
    """
    model, statistics = ModelRuntime(saved.bundle, config.device.threads), saved.bundle.manifest.embedding_statistics
    assert statistics is not None
    settings = model.manifest.feature_settings
    heard = Embedder(config, settings, state.embeddings_path).embeddings()
    chosen = known_labels(config.clips_folder)
    built_in = {label: sound for label, sound in chosen.items() if sound in statistics.known.names}
    # A label whose last clip is gone, and which the fleet does not know, is forgotten.
    label_map = take_labels(saved.progress.label_map, tuple(dict.fromkeys([*heard.takes, *built_in])), ())
    if not label_map.slots:
        raise RecordingError(f"no readable clips in {config.clips_folder}; record or import some first")
    public_set, prototypes = state.blobs.public_set(settings), state.blobs.prototypes(settings)
    return Lesson(
        model,
        read_bundle(config.bundle).weights,
        label_map,
        heard,
        built_in,
        FleetSounds.of(public_set, prototypes, statistics, np.random.default_rng([seed, 4])),
        [one.class_id for one in state.offers.all()],
        config.training,
        config.detector.false_accepts_per_hour,
        seed,
    )
