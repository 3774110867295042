"""Labels whose last clip an owner took away: their names leave the model, and with it the log, the status and MQTT.

A command notes the labels in the device's state. Who next has the model to himself, the command or the daemon, takes
them out of it: a training that began before would bring them back.
"""

import dataclasses
import os
from collections.abc import Iterable

from edge_client.clips.folders import known_labels, labels_with_clips
from edge_client.config import Config
from edge_client.storage.device_state import DeviceState
from edge_client.storage.locks import take_lock
from edge_client.storage.saved_model import Progress
from fleet_protocol.labels import LabelMap

_FORGOTTEN = "forgotten"


def note_forgotten(state: DeviceState, labels: Iterable[str]) -> None:
    """Note labels that are to leave the model; the caller holds the clip store."""
    noted = sorted({*_noted(state), *labels})
    if noted:
        state.database.set_note(_FORGOTTEN, noted)


def forget_noted(config: Config, state: DeviceState) -> bool:
    """Take labels that were noted out of the model, unless they have clips again; False while a training is going on.

    A label that is no class of the fleet gives its slot up. One that is takes the fleet's name.
    """
    if not _noted(state):
        return True
    lock = take_lock(state.folder / "training.lock")
    if lock is None:
        return False
    try:
        gone = set(_noted(state)) - {*labels_with_clips(config.clips_folder), *known_labels(config.clips_folder)}
        _forget(config, state, gone)
        state.database.set_note(_FORGOTTEN, None)
    finally:
        os.close(lock)
    return True


def _noted(state: DeviceState) -> list[str]:
    return list(state.database.note(_FORGOTTEN) or ())


def _forget(config: Config, state: DeviceState, gone: set[str]) -> None:
    saved = state.model.load(config.bundle)
    progress = saved.progress
    if gone & set(progress.label_map.labels):
        public_set = state.blobs.public_set(saved.bundle.manifest.feature_settings)
        names = {} if public_set is None else {info.class_id: info.name for info in public_set.classes}
        state.model.save(saved.bundle.weights, saved.listening, _without(progress, gone, names))
    advice = state.advice()
    if any(found["label"] in gone for found in advice):
        state.save_advice([found for found in advice if found["label"] not in gone])


def _without(progress: Progress, gone: set[str], names: dict[str, str]) -> Progress:
    label_map: LabelMap = progress.label_map
    for number, slot in enumerate(label_map.slots):
        if slot.name not in gone:
            continue
        if slot.class_id is None:
            label_map = label_map.give_up(number)
            continue
        known = names.get(slot.class_id, slot.class_id)
        if known in label_map.names and known != slot.name:
            known = f"{known} ({slot.class_id})"
        label_map = label_map.put(number, known, slot.class_id)
    renamed = dict(zip(progress.label_map.names, label_map.names, strict=True))
    kept = {label: name for label, name in renamed.items() if name in label_map.labels}
    tails = {kept[label]: tail for label, tail in progress.tails.items() if label in kept}
    prototypes = {kept[label]: direction for label, direction in progress.prototypes.items() if label in kept}
    from_start = {kept[label]: sound for label, sound in progress.known.items() if label in kept}
    # Clips that come back, as by an undo, are those that were taught; they have to be learned anew all the same.
    return dataclasses.replace(
        progress, label_map=label_map, tails=tails, prototypes=prototypes, known=from_start, taught=""
    )
