"""What the devices' models know afterwards, asked of their state on disk: new sounds, and which classes are alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.demo.devices import Device
from benchmarks.demo.outcome import NewClass, Recognition
from edge_client.audio.recordings import Recordings
from edge_client.features.front_end import open_front_end
from edge_client.learning.new_sounds.impressions import class_similarity
from fleet_protocol.arrays import Doubles, Floats, Ints
from fleet_protocol.feature_settings import FeatureSettings
from fleet_protocol.messages import Update, parse
from fleet_protocol.tensors import unpack


@dataclass(frozen=True)
class HeldOut:
    """Features of the held-out recordings, float32 [n, frames, coefficients], by label."""

    features: dict[str, Floats]


@dataclass(frozen=True)
class Similarity:
    """A device's class-similarity matrix, float64 [classes, classes], and the classes' labels in order."""

    user: str
    labels: tuple[str, ...]
    matrix: Doubles


@dataclass(frozen=True)
class Impressions:
    """What a device uploaded of sounds in a round, less its mean over the known classes.

    These are data impressions, or a mean embedding of each sound.

    Attributes:
        user: whose.
        labels: a label for every block.
        new: whether the block is a report of a new sound.
        values: float64 [blocks, n, features].
    """

    user: str
    labels: tuple[str, ...]
    new: tuple[bool, ...]
    values: Doubles


def read_held_out(folder: Path, settings: FeatureSettings) -> HeldOut:
    """Compute the features of recordings that lie as ``<label>/<file>``."""
    source = Recordings(folder, settings)
    front_end = open_front_end(settings)
    return HeldOut({label: front_end(source.load(source.clips(label))) for label in source.labels()})


def recognise(device: Device, held_out: HeldOut, found: Sequence[NewClass]) -> list[Recognition]:
    """Ask a device's model for every new sound that became a class, whether the device ever heard it or not."""
    label_map = device.listening_labels()
    chosen = _heard_as(device, held_out, label_map.listening_mask)
    rows = []
    for new in found:
        slot = None if new.class_id is None else label_map.slot_of_class(new.class_id)
        # An owner's word for a sound that found no class: the device recognises it all the same.
        slot = label_map.slot_of(new.label) if slot is None and new.label in label_map.names else slot
        if slot is None:
            continue
        others = np.concatenate([chosen[label] for label in device.labels])
        rows.append(
            Recognition(
                label=new.label,
                user=device.name,
                heard=device.name in new.devices,
                recordings=len(chosen[new.label]),
                recognised=100 * float((chosen[new.label] == slot).mean()),
                mistaken=100 * float((others == slot).mean()),
                classes=int(label_map.mask.sum()),
            )
        )
    return rows


def own_accuracy(device: Device, held_out: HeldOut, *, with_new: bool) -> float:
    """Return how many recordings of the labels that a device knew from the start it names rightly, in percent.

    Args:
        device: whose.
        held_out: all recordings.
        with_new: whether it chooses among all that it listens for, or without the labels that came later.
    """
    label_map = device.listening_labels()
    mask = label_map.listening_mask
    if not with_new:
        mask[[slot for slot, name in enumerate(label_map.names) if name not in device.labels]] = 0.0
    chosen = _heard_as(device, held_out, mask)
    return 100 * float(np.concatenate([chosen[label] == label_map.slot_of(label) for label in device.labels]).mean())


def _heard_as(device: Device, held_out: HeldOut, mask: Floats) -> dict[str, Ints]:
    """Return the output that a device's model prefers for every recording, int64 [n], by label."""
    model = device.open_model()
    return {
        label: model.predict(model.normalise(features), mask).argmax(axis=1)
        for label, features in held_out.features.items()
    }


def similarity(device: Device, words: Mapping[str, str]) -> Similarity:
    """Return the similarity of the classes of a device's head (equation 1).

    Args:
        device: whose.
        words: the owners' word for every class that the fleet discovered.
    """
    model, label_map = device.open_model(), device.label_map()
    head = model.get_weights()[model.manifest.head.weights[0]][:, : len(label_map.slots)]
    labels = tuple(words.get(str(slot.class_id), slot.name) for slot in label_map.slots)
    return Similarity(device.name, labels, class_similarity(head))


def impressions(user: str, upload: bytes, names: Mapping[int, str], words: Mapping[str, str]) -> Impressions:
    """Read the impressions of an upload, as the aggregator compares them.

    Args:
        user: who uploaded.
        upload: its bytes; it holds reports.
        names: the owner's word for every slot.
        words: the owners' word for every class that the fleet discovered.
    """
    arrays, document = unpack(upload)
    update = parse(Update, document)
    known = tuple(words.get(class_id, class_id) for class_id in update.known)
    values = arrays["impressions" if "impressions" in arrays else "prototypes"].astype(np.float64)
    values = values.reshape(len(values), values.shape[1], -1)
    centre = values[: len(known)].mean(axis=(0, 1)) if known else np.zeros(values.shape[2])
    return Impressions(
        user,
        known + tuple(names[report.slot] for report in update.reports),
        (False,) * len(known) + (True,) * len(update.reports),
        values - centre,
    )
