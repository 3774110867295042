"""Labels that an owner took away: their names leave the model, and with it the log, the status and MQTT.

Their last clip went, or the owner calls a class of the fleet by another name. A command notes the labels in the state
folder. Who next has the model to himself, the command or the daemon, takes them out of it: a training that began before
would bring them back.
"""

import dataclasses
import os
from collections.abc import Iterable

from edge_client.clips.folders import own_labels
from edge_client.config import Config
from edge_client.learning.class_links import follow_names
from edge_client.storage.device_state import DeviceState
from edge_client.storage.locks import take_lock
from edge_client.storage.saved_model import Progress
from fleet_protocol.bundle.labels import LabelMap

_FORGOTTEN = "forgotten"


def note_forgotten(state: DeviceState, labels: Iterable[str]) -> None:
    """Note labels that are to leave the model; the caller holds the clip store."""
    noted = sorted({*_noted(state), *labels})
    if noted:
        state.database.set_note(_FORGOTTEN, noted)


def forget_noted(config: Config, state: DeviceState) -> bool:
    """Take labels that were noted out of the model, unless they have clips again; False while a training is going on.

    A label that is no class of the fleet gives its slot up. One that is takes the name that the owner chose for the
    class, or else the fleet's.
    """
    if not _noted(state):
        return True
    lock = take_lock(state.folder / "training.lock")
    if lock is None:
        return False
    try:
        gone = set(_noted(state)) - own_labels(config.clips_folder)
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
        first = {} if public_set is None else {info.class_id: info.name for info in public_set.classes}
        names = first | state.class_names.present()
        state.model.save(saved.bundle.weights, saved.listening, _without(progress, gone, names))
    advice = state.advice()
    if any(found["label"] in gone for found in advice):
        state.save_advice([found for found in advice if found["label"] not in gone])


def _without(progress: Progress, gone: set[str], names: dict[str, str]) -> Progress:
    label_map: LabelMap = progress.label_map
    for number, slot in enumerate(label_map.slots):
        if slot.name in gone and slot.class_id is None:
            label_map = label_map.give_up(number)
    known = {slot.class_id: slot.class_id for slot in label_map.slots if slot.class_id is not None}
    label_map = follow_names(label_map, known | names, set(label_map.names) - gone)
    # Clips that come back, as by an undo, are those that were taught; they have to be learned anew all the same.
    return dataclasses.replace(progress.renamed(label_map), taught="")
