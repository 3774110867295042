"""Federated learning with a shared model: the device's part, whatever the local method (docs/methods.md).

Contribute: train the shared model from the fleet's weights and upload it; describe new sounds as in the zero-shot
strategy, so that the aggregator gives their classes a slot. Learn: take up classes, and listen with the result.
"""

from __future__ import annotations

import math
from collections.abc import Container, Sequence

import numpy as np

from edge_client.errors import ModelError
from edge_client.learning.class_links import SlotOrder, adopt_classes, link_recognised, move_head, to_report, unlinked
from edge_client.learning.rounds.client_update import ClientUpdate, RoundContext, percent, require_clips, require_finite
from edge_client.learning.rounds.local_training import LocalTask, PublicRows, TrainingMethod, prepare_task, train_shared
from edge_client.learning.sgd import accuracy
from edge_client.learning.training_data import Clips, rescaled
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.bundle.bundle_file import Bundle, Manifest
from fleet_protocol.bundle.labels import LabelMap
from fleet_protocol.errors import ProtocolError
from fleet_protocol.messages.rest import ClassInfo, Update, Work
from fleet_protocol.numbers.tensors import Arrays
from fleet_protocol.secure_sums.layouts import WeightLayout
from fleet_protocol.secure_sums.masking import Words


class WeightSharing(ClientUpdate):
    """One device's work in one round. The device's model is trained in place; the label map is replaced."""

    def __init__(
        self,
        method: TrainingMethod,
        model: ModelRuntime,
        label_map: LabelMap,
        work: Work,
        context: RoundContext,
        device_id: str,
        shared: ModelRuntime | None,
        public: PublicRows | None = None,
    ) -> None:
        """Prepare.

        ``shared`` is the runtime of ``context.model``; None where the round has none. It may be ``model`` itself, where
        the device keeps no model of its own. ``public`` is the public set as the shared model takes it, of a process
        that does the work of many devices; these then do not measure how the shared model does on it. None: it is made
        of ``context``.

        Raises FeatureMismatchError if the models and the public set compute features differently; ModelError if the
        method needs the fleet's bundle, and this device has another; ProtocolError if the round has no shared model.
        """
        if context.model is None or shared is None:
            raise ProtocolError(f"round {work.round_id} ({work.plan.local.name}) came without a shared model")
        super().__init__(model, label_map, work, context, device_id)
        self.method = method
        self.bundle: Bundle = context.model
        named = {"this device's bundle": model.manifest, "the fleet's shared model": self.bundle.manifest}
        for what, manifest in named.items():
            used = f"{what} ({manifest.architecture})"
            manifest.feature_settings.require_same(context.public_set.settings, used, "the public set")
        if not method.any_architecture:
            _require_same_model(model.manifest, self.bundle.manifest, method.name)
        self.shared = shared
        self._class_ids = tuple(info.class_id for info in work.classes)
        self._measures = public is None
        if public is None:
            rows = context.public_set
            x0 = shared.normalise(rows.features)
            public = PublicRows(shared, x0, rows.labels, rows.synthetic, trained=context.trained)
        self._public = public

    def contribute(self, clips: Clips, share_names: bool) -> tuple[Update, Arrays]:
        """Train on the round's clips; return the upload. Raises RecordingError without clips, or ModelError."""
        require_clips(self.work, clips, self.label_map)
        new = to_report(self.label_map, set(clips.slots.tolist()))
        order = SlotOrder.of(self.label_map, self._class_ids, self.bundle.manifest.capacity, new)
        metrics = {"global_accuracy": self._public_accuracy()}
        whole = LocalTask(
            shared=self.shared,
            own=self.model,
            order=order,
            mask=order.mask(),
            clips=Clips(rescaled(clips.x, self.model, self.shared), order.slots_to_shared(clips.slots)),
            own_clips=clips,
            settings=self.settings,
            rng=self.rng,
            first=self.context.first,
        )
        task, rehearsal = prepare_task(whole, self._public)
        loss = train_shared(task, self.method.prepare(task), rehearsal)
        trained = self.shared.get_weights()
        require_finite(self.work, loss, trained.values())
        metrics["local_accuracy"] = self._public_accuracy()
        if not self.method.keeps_own and self.model is not self.shared:
            self.model.set_weights(self._in_own_order(trained, order, self.model.get_weights()))
        of_fleet = [slot for slot, class_id in enumerate(self.label_map.class_ids) if class_id in self._class_ids]
        update, described = self.described(clips, new, of_fleet, share_names)
        update.metrics.update(percent(metrics) | {"classes": float(len(self._class_ids)), "training_loss": loss})
        return update, {f"weights/{name}": array for name, array in trained.items()} | described

    def to_sum(self, _clips: Clips, arrays: Arrays) -> Words:
        """Return how far the weights moved; columns of the head for the device's new sounds did not, for the fleet."""
        before = self.bundle.weights
        trained = {name: arrays[f"weights/{name}"].copy() for name in before}
        for name in self.bundle.manifest.head.weights:
            trained[name][..., len(self._class_ids) :] = before[name][..., len(self._class_ids) :]
        return WeightLayout.of(self.work.plan, self.bundle.manifest.weight_shapes).own(trained, before)

    def apply_result(self, adopt: Container[str]) -> dict[str, float]:
        """Link what was recognised, adopt classes, take the shared model over; labels that are no class keep theirs."""
        self.label_map = link_recognised(self.label_map, self.work.assignments)
        wanted = [info for info in self.work.classes if info.discovered_in is None or info.class_id in adopt]
        if not self.method.any_architecture:
            self.label_map = adopt_classes(self.label_map, wanted)
            self._take_over()
        elif self.work.fine_tune:
            self._take_up(wanted)
        measured = percent({"global_accuracy": self._public_accuracy()})
        return measured | {"classes": float(len(self._class_ids))}

    def _take_over(self) -> None:
        order = SlotOrder.of(self.label_map, self._class_ids, self.bundle.manifest.capacity)
        self.model.set_weights(self._in_own_order(self.bundle.weights, order, self.model.get_weights()))

    def _take_up(self, classes: Sequence[ClassInfo]) -> None:
        """Let a model of the device's own know the fleet's classes, which fine-tuning by public labels teaches it."""
        # Where the shared model is of the same architecture, fine-tuning starts from that, and chooses. It needs to
        # know all of the device's labels. A head without room for all classes keeps the labels that it has.
        missing = [info for info in classes if self.label_map.slot_of_class(info.class_id) is None]
        if len(missing) <= self.label_map.room:
            self.label_map = adopt_classes(self.label_map, classes)
        if self.model.manifest.network == self.bundle.manifest.network and not unlinked(self.label_map):
            self.own_weights = self.model.get_weights()
            self._take_over()

    def _in_own_order(self, weights: Arrays, order: SlotOrder, into: Arrays) -> Arrays:
        return move_head(weights, into, self.bundle.manifest.head, order.shared, order.own)

    def _public_accuracy(self) -> float:
        """Accuracy of the shared model on the public recordings, among all classes of the fleet; NaN: not measured."""
        if not self._measures:
            return math.nan
        real = ~self.context.public_set.synthetic
        count = len(self._class_ids)
        mask = np.zeros(self.bundle.manifest.capacity, np.float32)
        mask[:count] = 1.0
        scores = self.shared.predict(self._public.x[real], mask)[:, :count]
        return accuracy(scores, self.context.public_set.labels[real], range(count))


def _require_same_model(own: Manifest, shared: Manifest, method: str) -> None:
    if own is not shared and own.network != shared.network:
        raise ModelError(
            f"{method} trains the fleet's model ({shared.architecture}, capacity {shared.capacity}) and this device's "
            f"bundle is another ({own.architecture}, capacity {own.capacity}): install the fleet's bundle, or open "
            "rounds with the strategy 'fedmlac' or 'zero_shot', which take any architecture, or with 'others', which "
            "says what devices like this one do meanwhile"
        )
