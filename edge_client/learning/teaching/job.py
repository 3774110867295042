"""What the owner taught is learned at once: new labels take a slot, and the device hears them before any round.

Both sets of weights learn it: the one that listens now, and the one with which the next round goes on and reports the
new labels as new classes. docs/teaching.md has the figures.
"""

from __future__ import annotations

import dataclasses
import logging
import time

import numpy as np

from edge_client.audio.recordings import Recordings
from edge_client.clips.files import store_digest
from edge_client.clips.store import is_changing
from edge_client.config import Config
from edge_client.errors import RecordingError
from edge_client.features.augmentation import BackgroundNoise, augment_for_listening, splice
from edge_client.features.front_end import open_front_end
from edge_client.learning.held_out import Split
from edge_client.learning.teaching.head_job import teach_head
from edge_client.learning.teaching.incremental import IncrementalTask, learn
from edge_client.learning.teaching.negatives import QUIET_ROWS, artificial_noise, rooms, windows
from edge_client.learning.teaching.taught import Taught, known_slots, with_labels
from edge_client.learning.training_data import Clips, gather, held_out_accuracy
from edge_client.model.runtime import ModelRuntime
from edge_client.storage.device_state import DeviceState, Progress, SavedModel
from fleet_protocol.arrays import Floats
from fleet_protocol.labels import LabelMap
from fleet_protocol.tensors import Arrays

log = logging.getLogger(__name__)

# Clips of a label that are looked at; rounds see all of them in time.
_MAX_CLIPS = 200
NO_CLIPS = "0" * 16
"""Stands for the digest of a store without clips."""
_COPIES = 6
# Variants of spliced clips, as many of each as there are clips.
_SPLICED_COPIES = 4


def to_teach(config: Config, state: DeviceState) -> str | None:
    """Tell cheaply whether the clips are others than those last learned from; the answer names what there is.

    A device without a microphone learns in rounds alone: nobody waits for it to hear. Nor is there anything to learn
    while a command is changing the clips.

    Returns:
        The store's digest, or None where there is nothing to learn now. A model that a round gave labels, and that
        has outputs for what is no label, learns these without any clip: ``NO_CLIPS``.
    """
    folder = config.clips_folder
    if config.microphone is None or is_changing(folder):
        return None
    digest = store_digest(folder)
    if digest is None:
        return NO_CLIPS if state.lacks_background() else None
    return None if digest == state.taught() else digest


def teach(config: Config, state: DeviceState) -> None:
    """Learn from all clips of the owner, and save both sets of weights, the labels and the store's digest together.

    Raises:
        AuricleError: naming what is wrong with the state, the bundle or the clips; nothing is changed then.
    """
    began = time.monotonic()
    digest = store_digest(config.clips_folder)  # before the clips are read: one that comes meanwhile is learned next
    saved = state.load_model(config.model.bundle)
    if saved.bundle.manifest.background:
        taught = teach_head(config, state, saved, int(digest or NO_CLIPS, 16))
    elif digest is None:
        raise RecordingError(f"no clips in {config.clips_folder}; record or import some first")
    else:
        taught = _teach_incrementally(config, state, saved, digest)
    state.save_model(taught.trained, taught.listening, learned_from(saved.progress, taught, digest))
    state.save_expectations([dataclasses.asdict(expected) for expected in taught.expected])
    new = taught.label_map.names[len(saved.progress.label_map.names) :]
    log.info(
        "learned from %d clips in %.0f s; new: %s", taught.clips, time.monotonic() - began, ", ".join(new) or "none"
    )


def learned_from(progress: Progress, taught: Taught, digest: str | None) -> Progress:
    """Return the progress of a model after it was taught.

    Args:
        progress: before.
        taught: result of the teaching.
        digest: of the clips that it learned from; None where there were none.
    """
    return dataclasses.replace(
        progress,
        label_map=taught.label_map,
        taught=digest or "",
        overtaken=False,
        background_trained=taught.background_trained,
        tails=taught.tails,
    )


def _teach_incrementally(config: Config, state: DeviceState, saved: SavedModel, digest: str) -> Taught:
    """Train both sets of weights further, from where they are."""
    model = ModelRuntime(saved.bundle, config.device.threads)
    # Clips that were learned before, gone over after a round: that may be for the worse, so some are kept to judge by.
    share = saved.progress.held_out if saved.progress.overtaken and saved.progress.taught == digest else 0.0
    source = _source(config, model, share)
    task = _task(config, state, saved, model, source, np.random.default_rng([config.device.seed, int(digest, 16)]))
    sets = [saved.bundle.weights, saved.listening]
    if all(np.array_equal(sets[0][name], sets[1][name]) for name in sets[0]):
        sets = sets[:1]  # before the first consensus both are the same
    settings, seed = config.training, int(digest, 16)
    learned = [
        learn(model, weights, task, settings.teach_epochs, settings.teach_learning_rate, seed) for weights in sets
    ]
    if share:
        judged = _to_judge_by(source.held_out, task.label_map, model)
        learned = [_better(model, task.label_map, judged, *pair) for pair in zip(sets, learned, strict=True)]
    return Taught(learned[0], learned[-1], task.label_map, len(task.clips.slots))


def _source(config: Config, model: ModelRuntime, held_out: float) -> Split:
    settings = model.manifest.feature_settings
    clips = Recordings(config.clips_folder, settings, per_round=(_MAX_CLIPS, _MAX_CLIPS), seed=config.device.seed)
    return Split(clips, held_out)


def _to_judge_by(source: Split, label_map: LabelMap, model: ModelRuntime) -> Clips:
    slots = {label: label_map.slot_of(label) for label in source.labels()}
    return gather(source, 0, slots, model, np.random.default_rng(0), copies=0, noise=None)


def _better(model: ModelRuntime, label_map: LabelMap, judged: Clips, before: Arrays, after: Arrays) -> Arrays:
    """Return the weights that name more of the held-out clips rightly; of equals those that also know the room."""
    right = []
    for weights in (before, after):
        model.set_weights(weights)
        right.append(held_out_accuracy(model, label_map.mask, judged, range(len(label_map.slots))))
    if right[1] < right[0]:
        log.info(
            "of %d clips that were held out the round's model names %.0f %% rightly, gone over once more %.0f %%: "
            "it stays as it is", len(judged.slots), 100 * right[0], 100 * right[1],
        )  # fmt: skip
        return before
    return after


def _task(
    config: Config,
    state: DeviceState,
    saved: SavedModel,
    model: ModelRuntime,
    source: Split,
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
    quiet = np.concatenate([artificial_noise(QUIET_ROWS, settings, rng), windows(room, settings, rng)])
    return IncrementalTask(
        label_map=label_map,
        known=known_slots(former, labels, keep_all=config.clips.expire_days > 0),
        clips=clips,
        quiet=model.normalise(open_front_end(settings)(quiet)),
        spliced=_spliced(source, slots, model, rng, noise),
        public_set=state.public_set(settings),
    )


def _spliced(
    source: Split, slots: dict[str, int], model: ModelRuntime, rng: np.random.Generator, noise: BackgroundNoise
) -> Floats:
    """Return normalised features of sounds that are none of the labels', made from their clips; none of one label."""
    settings = model.manifest.feature_settings
    parts = {slot: source.load(source.clips_for_round(0, label)) for label, slot in slots.items()}
    owners = np.repeat(list(parts), [len(samples) for samples in parts.values()])
    if len(set(owners.tolist())) < 2:
        return np.zeros((0, *settings.shape), np.float32)
    clips, front_end = np.concatenate(list(parts.values())), open_front_end(settings)
    rows = [
        front_end(augment_for_listening(splice(clips, owners, rng), settings.sample_rate_hz, rng, noise))
        for _ in range(_SPLICED_COPIES)
    ]
    return model.normalise(np.concatenate(rows))
