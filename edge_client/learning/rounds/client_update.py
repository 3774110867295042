"""What every strategy's part on a device has in common: what the aggregator sent, what it checks, and its upload."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from edge_client.errors import ModelError, RecordingError
from edge_client.fleet.private_rounds import PrivateRounds
from edge_client.learning.class_links import take_labels
from edge_client.learning.new_sounds import describe
from edge_client.learning.training_data import Clips
from edge_client.model.runtime import ModelRuntime
from edge_client.storage.device_state import DeviceState
from fleet_protocol.bundle.bundle_file import Bundle
from fleet_protocol.bundle.feature_settings import FeatureSettings
from fleet_protocol.bundle.labels import LabelMap
from fleet_protocol.messages.public_set import PublicSet
from fleet_protocol.messages.rest import ClassReport, Update, Work, to_json
from fleet_protocol.methods.clip_utility import label_entropy
from fleet_protocol.methods.setting import Value
from fleet_protocol.numbers.arrays import Floats, Ints
from fleet_protocol.numbers.tensors import Arrays, pack
from fleet_protocol.secure_sums.layouts import MASKED
from fleet_protocol.secure_sums.masking import Words


def require_clips(work: Work, clips: Clips, label_map: LabelMap) -> None:
    """Check that a device has clips to learn from. Raises RecordingError if there are none."""
    if not len(clips.slots):
        raise RecordingError(
            f"round {work.round_id}: no readable clips of {', '.join(label_map.names) or 'any label'}; "
            "put recordings into <folder>/<label>/"
        )


def require_finite(work: Work, loss: float, weights: Iterable[Floats]) -> None:
    """Check that a training did not diverge. Raises ModelError if the loss or a weight is infinite or no number."""
    # A sum of squares that is finite says so of every value, ten times as quickly as asking each.
    if not math.isfinite(loss) or not all(math.isfinite(np.vdot(a, a)) or np.isfinite(a).all() for a in weights):
        raise ModelError(
            f"round {work.round_id}: the training diverged (loss {loss}); nothing was changed. "
            f"Lower the round's learning_rate, now {work.plan.local.settings['learning_rate']}"
        )


def build_update(
    work: Work,
    device_id: str,
    features: str,
    label_map: LabelMap,
    slots: Ints,
    of_fleet: Sequence[int],
    *,
    known: Sequence[int],
    new: Sequence[int],
    share_names: bool,
) -> Update:
    """Return the document of an upload, still without metrics.

    ``slots`` are of the clips that the device trained on, int64 [clips]; ``of_fleet`` those of the classes that the
    upload describes, in the order of its columns; ``known`` and ``new`` those of classes, and of new sounds, with a
    description.
    """
    return Update(
        round_id=work.round_id,
        device_id=device_id,
        features=features,
        public_set=work.public_set,
        classes=tuple(str(label_map.class_ids[slot]) for slot in of_fleet),
        clips=len(slots),
        reports=tuple(
            ClassReport(slot, label_map.names[slot] if share_names else None, int((slots == slot).sum()))
            for slot in new
        ),
        known=tuple(str(label_map.class_ids[slot]) for slot in known),
        label_entropy=label_entropy(slots),
    )


@dataclass(frozen=True)
class RoundContext:
    """What the aggregator sent along with the work.

    ``consensus``: f_G on the public set, float32 [samples, classes], in its columns; None before the first one.
    ``model``: bundle of the shared model with the fleet's present weights, if the strategy has one; ``trained``:
    whether any round has trained it.
    """

    public_set: PublicSet
    consensus: Floats | None
    model: Bundle | None = None
    trained: bool = False
    first: bool = False


class ClientState(Protocol):
    """What a device has of a round, by any strategy. Its label map as the round leaves it is replaced, not changed."""

    model: ModelRuntime
    label_map: LabelMap
    work: Work
    context: RoundContext


class ClientUpdate:
    """What a device computes in a round that trains a network, whichever arrays travel; a :class:`ClientState`.

    ``model`` is the device's own, trained in place. After :meth:`contribute` it holds the weights that the device
    trained, after :meth:`apply_result` those that recognise sounds. ``own_weights`` are the device's own, where
    :meth:`apply_result` put the fleet's into ``model`` and the device may listen with either; else None.
    """

    def __init__(
        self, model: ModelRuntime, label_map: LabelMap, work: Work, context: RoundContext, device_id: str
    ) -> None:
        self.model, self.label_map, self.device_id = model, label_map, device_id
        self.work, self.context = work, context
        self.own_weights: Arrays | None = None
        self.settings: Mapping[str, Value] = work.plan.local.settings
        # A device that is killed must do the very same work when it is reassigned.
        kind = ("contribute", "learn").index(work.kind)
        self.rng = np.random.default_rng([work.plan.seed, work.round_id, kind, int(device_id, 16)])

    def take_labels(self, labels: Sequence[str]) -> None:
        """Give every label that the owner taught a slot (``class_links.take_labels``). Raises LabelError."""
        self.label_map = take_labels(self.label_map, labels, self.work.classes)

    def contribute(self, clips: Clips, share_names: bool) -> tuple[Update, Arrays]:
        """Train on the round's clips; return the upload."""
        raise NotImplementedError

    def to_sum(self, clips: Clips, arrays: Arrays) -> Words:
        """Return what the device adds to its group's sum in a private round, uint32, in place of its upload.

        ``clips``, ``arrays``: what :meth:`contribute` got and returned.
        """
        raise NotImplementedError

    def apply_result(self, adopt: Container[str]) -> dict[str, float]:
        """Apply the round's result to the device's model, take up the classes of others that are in ``adopt``.

        Returns what was measured.
        """
        raise NotImplementedError

    def described(
        self, clips: Clips, new: list[int], of_fleet: Sequence[int], share_names: bool
    ) -> tuple[Update, Arrays]:
        """Return an upload's document without metrics, and arrays that describe the new sounds, of these slots.

        In a private round nothing is told of them, so there are none.
        """
        known = [slot for slot in of_fleet if clips.count(slot)] if new else []
        arrays: Arrays = {}
        if new and self.work.plan.private is None:
            x0, mask = self.model.normalise(self.context.public_set.features), self.label_map.mask
            arrays = describe(self.model, mask, clips, x0, known + new, self.settings, self.rng)
        whose = self.work, self.device_id, self.model.manifest.feature_settings.digest, self.label_map
        update = build_update(*whose, clips.slots, of_fleet, known=known, new=new, share_names=share_names)
        return update, arrays


def put_masked(
    state: DeviceState,
    work: Work,
    settings: FeatureSettings,
    numbers: Words,
    noise: Callable[[int, bytes], Words] | None = None,
) -> None:
    """Put the upload of a private round, which the server sums over a group, into the outbox, under masks.

    It stays as it is if it was made before.

    ``numbers``: what the device adds, uint32 [length of the round's layout]; ``noise``: as in
    :meth:`PrivateRounds.upload`. Raises SecureSumError if the device has not agreed on masks, WorkError if the upload
    was made before and is gone.
    """
    # What a plain upload tells of labels, clips and new sounds is left empty: only sums are told.
    classes = tuple(info.class_id for info in work.classes)
    update = Update(
        round_id=work.round_id,
        device_id=state.identity.load().device_id,
        features=settings.digest,
        public_set=work.public_set,
        classes=classes,
        clips=0,
        known=classes,
    )

    def make(mask: Callable[[Words], Words]) -> bytes:
        return pack({MASKED: mask(numbers)}, to_json(update))

    path, rounds = state.outbox.update_path(work.round_id), PrivateRounds(state)
    data = rounds.upload(work.round_id, state.outbox.read(path), make, noise)
    state.outbox.put(path, data)
    rounds.note_upload(data)


class DeviceRound(Protocol):
    """A device's part in one round, from its state folder to its outbox."""

    def contribute(self) -> None:
        """Write the upload into the outbox, and then the model."""

    def learn(self) -> None:
        """Write the report into the outbox, and then the model."""


# (runtime of the device's bundle, its label map, the work, what came along, the device's identifier, runtime of the
# shared model) -> the work of a method that trains a network.
StartUpdate = Callable[[ModelRuntime, LabelMap, Work, RoundContext, str, ModelRuntime | None], ClientUpdate]


def percent(metrics: dict[str, float]) -> dict[str, float]:
    """Return shares as percentages, without those that are not numbers."""
    return {name: 100.0 * value for name, value in metrics.items() if math.isfinite(value)}
