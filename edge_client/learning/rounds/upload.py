"""What both strategies check and say when a device contributes: clips to learn from, finite weights, the document."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from edge_client.errors import ModelError, RecordingError
from edge_client.learning.training_data import Clips
from fleet_protocol.adaptive_training import label_entropy
from fleet_protocol.arrays import Floats, Ints
from fleet_protocol.labels import LabelMap
from fleet_protocol.messages import ClassReport, Update, Work


def require_clips(work: Work, clips: Clips, label_map: LabelMap) -> None:
    """Check that a device has clips to learn from.

    Raises:
        RecordingError: there are none.
    """
    if not len(clips.slots):
        raise RecordingError(
            f"round {work.round_id}: no readable clips of {', '.join(label_map.names) or 'any label'}; "
            "put recordings into <folder>/<label>/"
        )


def require_finite(work: Work, loss: float, weights: Iterable[Floats]) -> None:
    """Check that a training came to numbers.

    Raises:
        ModelError: the loss or a weight is infinite or no number.
    """
    if not math.isfinite(loss) or not all(np.isfinite(array).all() for array in weights):
        raise ModelError(
            f"round {work.round_id}: the training diverged (loss {loss}); nothing was changed. "
            f"Lower the round's learning_rate, now {work.plan.local.settings['learning_rate']}"
        )


def build_update(
    work: Work,
    device_id: str,
    *,
    features: str,
    label_map: LabelMap,
    slots: Ints,
    classes: Sequence[str],
    known: Sequence[int] = (),
    new: Sequence[int] = (),
    share_names: bool = False,
) -> Update:
    """Return the document of an upload, still without metrics.

    Args:
        work: what the device was asked for.
        device_id: of the device.
        features: digest of the device's feature settings.
        label_map: of the device's model.
        slots: of the clips that the device trained on, int64 [clips].
        classes: the fleet's classes that the upload speaks of, in the order of its columns.
        known: slots of the classes that are described beside the new sounds.
        new: slots of the new sounds, in the order of their columns.
        share_names: whether the owner's words for new sounds travel.
    """
    return Update(
        round_id=work.round_id,
        device_id=device_id,
        features=features,
        public_set=work.public_set,
        classes=tuple(classes),
        clips=len(slots),
        reports=tuple(
            ClassReport(slot, label_map.names[slot] if share_names else None, int((slots == slot).sum()))
            for slot in new
        ),
        known=tuple(str(label_map.class_ids[slot]) for slot in known),
        label_entropy=label_entropy(slots),
    )
