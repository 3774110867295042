"""What the owner taught is learned at once: new labels take a slot, and the device hears them before any round.

Both sets of weights learn it: the one that listens now, and the one with which the next round goes on and reports the
new labels as new classes. docs/teaching.md has the figures.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from dataclasses import dataclass

import numpy as np

from edge_client.audio.recordings import Recordings
from edge_client.clips.files import store_digest
from edge_client.clips.store import is_changing
from edge_client.config import Config
from edge_client.errors import RecordingError
from edge_client.features.augmentation import BackgroundNoise, augment_for_listening, splice
from edge_client.features.front_end import open_front_end
from edge_client.learning.teaching.expectation import Expectation
from edge_client.learning.teaching.head import teach_head
from edge_client.learning.teaching.hearing import QUIET_ROWS, artificial_noise, rooms, windows
from edge_client.learning.teaching.incremental import IncrementalTask, learn
from edge_client.learning.teaching.taught import Taught, known_slots, with_labels
from edge_client.learning.training_data import gather
from edge_client.model.runtime import ModelRuntime
from edge_client.storage.device_state import DeviceState
from edge_client.storage.saved_model import SavedModel
from fleet_protocol.arrays import Floats

log = logging.getLogger(__name__)

# Clips of a label that are looked at; rounds see all of them in time.
_MAX_CLIPS = 200
NO_CLIPS = "0" * 16
"""Stands for the digest of a store without clips."""
_COPIES = 6
# Variants of spliced clips, as many of each as there are clips.
_SPLICED_COPIES = 4
# Clips that pieces are taken from, of all labels together, and clips of noise at a time: one of a second is 64 kB.
_SPLICED_CLIPS, _AT_ONCE = 200, 40


def to_teach(config: Config, state: DeviceState) -> str | None:
    """Tell cheaply whether the clips are others than those last learned from: the store's digest, else None.

    A device without a microphone learns in rounds alone: nobody waits for it to hear. Nor is there anything to learn
    while a command is changing the clips. A model that a round gave labels, and that has outputs for what is no label,
    learns these without any clip: ``NO_CLIPS``.
    """
    folder = config.clips_folder
    if config.microphone is None or is_changing(folder):
        return None
    digest = store_digest(folder)
    if digest is None:
        return NO_CLIPS if state.model.lacks_background() else None
    return None if digest == state.model.taught() else digest


def teach(config: Config, state: DeviceState) -> DeviceModel:
    """Learn from all clips of the owner, and save both sets of weights, the labels and the store's digest together."""
    began = time.monotonic()
    saved = state.model.load(config.bundle)
    made = go_over(config, state, saved)
    if made is None:
        raise RecordingError(f"no readable clips in {config.clips_folder}; record or import some first")
    made.save(state)
    label_map = made.model.progress.label_map
    new = [label_map.names[slot] for slot in label_map.new_since(saved.progress.label_map)]
    log.info("learned from %d clips in %.0f s; new: %s", made.clips, time.monotonic() - began, ", ".join(new) or "none")
    return made


@dataclass(frozen=True)
class DeviceModel:
    """A device's model; ``expected`` of its labels since it last learned the owner's clips, None where that stays."""

    model: SavedModel
    expected: tuple[Expectation, ...] | None = None
    clips: int = 0

    def save(self, state: DeviceState) -> None:
        """Save the model, and what is to be expected of its labels."""
        state.model.save(self.model.bundle.weights, self.model.listening, self.model.progress)
        if self.expected is not None:
            state.save_expectations([dataclasses.asdict(expected) for expected in self.expected])


def go_over(config: Config, state: DeviceState, saved: SavedModel) -> DeviceModel | None:
    """Learn from all clips of the owner, beginning with a device's model, or what a round made of it; nothing is saved.

    Returns None where there is nothing to learn: no clip, or no label on a bundle that needs no clips.
    """
    digest = store_digest(config.clips_folder)  # before the clips are read: one that comes meanwhile is learned next
    has_background = bool(saved.bundle.manifest.background)
    if digest is None and not (has_background and saved.progress.label_map.slots):
        return None
    if has_background:
        taught = teach_head(config, state, saved, int(digest or NO_CLIPS, 16))
    else:
        taught = _teach_incrementally(config, state, saved, str(digest))
    unheard = () if taught.background_trained else saved.progress.unheard
    progress = dataclasses.replace(
        saved.progress,
        label_map=taught.label_map,
        taught=digest or "",
        background_trained=taught.background_trained,
        tails=taught.tails,
        prototypes=taught.prototypes,
        unheard=tuple(slot for slot in unheard if slot not in taught.slots),
    )
    bundle = dataclasses.replace(saved.bundle, weights=taught.trained)
    return DeviceModel(SavedModel(bundle, taught.listening, progress), taught.expected, taught.clips)


def _teach_incrementally(config: Config, state: DeviceState, saved: SavedModel, digest: str) -> Taught:
    model = ModelRuntime(saved.bundle, config.device.threads)
    source = _source(config, model)
    task = _task(config, state, saved, model, source, np.random.default_rng([config.device.seed, int(digest, 16)]))
    sets = [saved.bundle.weights, saved.listening]
    if all(np.array_equal(sets[0][name], sets[1][name]) for name in sets[0]):
        sets = sets[:1]  # before the first consensus both are the same
    settings, seed = config.training, int(digest, 16)
    learned = [
        learn(model, weights, task, settings.teach_epochs, settings.teach_learning_rate, seed) for weights in sets
    ]
    slots = frozenset(task.clips.slots.tolist())
    return Taught(learned[0], learned[-1], task.label_map, len(task.clips.slots), slots=slots)


def _source(config: Config, model: ModelRuntime) -> Recordings:
    settings = model.manifest.feature_settings
    return Recordings(config.clips_folder, settings, per_round=(_MAX_CLIPS, _MAX_CLIPS), seed=config.device.seed)


def _task(
    config: Config,
    state: DeviceState,
    saved: SavedModel,
    model: ModelRuntime,
    source: Recordings,
    rng: np.random.Generator,
) -> IncrementalTask:
    settings = model.manifest.feature_settings
    labels, former = source.labels(), saved.progress.label_map
    label_map = with_labels(former, labels)
    room = rooms(config, settings)
    noise = BackgroundNoise((*room, *artificial_noise(12, settings, rng)))
    slots = {label: label_map.slot_of(label) for label in labels}
    clips = gather(source, 0, slots, model, rng, copies=_COPIES, noise=noise, augmented=augment_for_listening)
    if not len(clips.slots):
        raise RecordingError(f"no readable clips in {config.clips_folder}; record or import some first")
    front_end, draws = open_front_end(settings), range(QUIET_ROWS // _AT_ONCE)
    quiet = [front_end(artificial_noise(_AT_ONCE, settings, rng)) for _ in draws]
    quiet += [front_end(windows(room, settings, rng, _AT_ONCE)) for _ in draws]
    return IncrementalTask(
        label_map=label_map,
        known=known_slots(former, labels, keep_all=config.clips.expire_days > 0),
        clips=clips,
        quiet=model.normalise(np.concatenate(quiet)),
        spliced=_spliced(source, slots, model, rng, noise),
        public_set=state.blobs.public_set(settings),
    )


def _spliced(
    source: Recordings, slots: dict[str, int], model: ModelRuntime, rng: np.random.Generator, noise: BackgroundNoise
) -> Floats:
    """Return normalised features of sounds that are none of the labels', made from their clips; none of one label."""
    settings = model.manifest.feature_settings
    each = max(1, _SPLICED_CLIPS // max(1, len(slots)))
    parts = [source.load(source.clips_for_round(0, label)[:each]) for label in slots]
    owners = np.repeat(list(slots.values()), [len(samples) for samples in parts])
    if len(set(owners.tolist())) < 2:
        return np.zeros((0, *settings.shape), np.float32)
    clips, front_end = np.concatenate(parts), open_front_end(settings)
    del parts
    rows = [
        front_end(augment_for_listening(splice(clips, owners, rng), settings.sample_rate_hz, rng, noise))
        for _ in range(_SPLICED_COPIES)
    ]
    return model.normalise(np.concatenate(rows))
