"""Zero-shot federated learning with new classes: the device's part (Gudur & Perepu 2021, algorithm 1).

Contribute: train on the round's clips and the public set's labels, score the public set, and describe new sounds by
data impressions; the aggregator adds the scores to the fleet's (alpha-update). Learn: link and adopt classes, and train
on the public set. With ``labels`` false the public set's labels are never used: the new consensus is distilled instead.
"""

from __future__ import annotations

import math
from collections.abc import Container

import numpy as np

from edge_client.learning import sgd
from edge_client.learning.class_links import adopt_classes, link_recognised, to_report
from edge_client.learning.rounds.client_update import ClientUpdate, RoundContext, percent, require_clips, require_finite
from edge_client.learning.training_data import Clips
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.bundle.labels import LabelMap
from fleet_protocol.errors import ProtocolError
from fleet_protocol.messages.rest import Update, Work
from fleet_protocol.numbers.arrays import Floats
from fleet_protocol.numbers.tensors import Arrays
from fleet_protocol.secure_sums.layouts import ScoreLayout
from fleet_protocol.secure_sums.masking import Words


class ScoreSharing(ClientUpdate):
    """One device's work in one round. The model is trained in place; the label map is replaced."""

    def __init__(
        self,
        model: ModelRuntime,
        label_map: LabelMap,
        work: Work,
        context: RoundContext,
        device_id: str,
        _shared: ModelRuntime | None = None,
    ) -> None:
        """Prepare. Raises FeatureMismatchError if model and public set compute features differently."""
        model.manifest.feature_settings.require_same(
            context.public_set.settings, f"this device's bundle ({model.manifest.architecture})", "the public set"
        )
        super().__init__(model, label_map, work, context, device_id)
        self._x0 = model.normalise(context.public_set.features)

    def contribute(self, clips: Clips, share_names: bool) -> tuple[Update, Arrays]:
        """Build and score; return the upload. Raises RecordingError if there are no clips to learn from."""
        require_clips(self.work, clips, self.label_map)
        new = to_report(self.label_map, set(clips.slots.tolist()))
        loss = self._build(clips, with_public_set=bool(new))
        slots, columns = self._owned()
        scores = self.model.predict(self._x0, self.label_map.mask, self._temperature)
        own = np.ascontiguousarray(scores[:, slots])
        update, arrays = self.described(clips, new, slots, share_names)
        measured = percent({"local_accuracy": self._public_accuracy(own, columns)})
        update.metrics.update(measured | {"classes": float(len(slots)), "training_loss": loss})
        return update, {"scores": own} | arrays

    def to_sum(self, clips: Clips, arrays: Arrays) -> Words:
        """Return the alpha-update of the device's classes and beta, which the device works out itself here.

        alpha = |D_m| / |D_0|, at most 1; beta: accuracy of the alpha-updated scores, less that of guessing if so set.
        """
        _, columns = self._owned()
        public = self.context.public_set
        own = arrays["scores"] * np.float32(min(1.0, len(clips.slots) / len(public.labels)))
        consensus = np.zeros_like(own) if self.context.consensus is None else self.context.consensus[:, columns]
        right = self._public_accuracy(consensus + own, columns)
        chance = 1 / len(columns) if self.work.plan.aggregation.settings["above_chance"] else 0.0
        beta = 0.0 if math.isnan(right) else right - chance
        return ScoreLayout.of(self.work.plan, len(public.classes), len(public.labels)).own(columns, beta, own)

    def apply_result(self, adopt: Container[str]) -> dict[str, float]:
        """Link what was recognised, adopt what others discovered, and learn the public set; return accuracies in %."""
        self.label_map = link_recognised(self.label_map, self.work.assignments)
        wanted = [info for info in self.work.classes if info.discovered_in is not None and info.class_id in adopt]
        self.label_map = adopt_classes(self.label_map, wanted)
        slots, columns = self._owned()
        metrics = {}
        if self.context.consensus is not None:
            metrics["global_accuracy"] = self._public_accuracy(self.context.consensus[:, columns], columns)
        for _ in range(int(self.settings["distill_epochs"])):
            if self.settings["labels"]:  # so a class that was just adopted is learned as well
                self._pass_over(*self._rehearsal(own=set(), recordings=True), 1.0)
            else:
                self._distil(rehearse=True)
        own = self.model.predict(self._x0, self.label_map.mask)[:, slots]
        metrics["distilled_accuracy"] = self._public_accuracy(own, columns)
        return percent(metrics) | {"classes": float(len(slots))}

    def _build(self, clips: Clips, *, with_public_set: bool) -> float:
        """Train on the round's clips and the public set's labels (choice 2 of the local update)."""
        # With ``labels`` false, on the consensus in place of the labels, and where there are new classes alone.
        labelled = bool(self.settings["labels"])
        rate, momentum, epochs = (self.settings[name] for name in ("learning_rate", "momentum", "epochs"))
        rows, labels = self._rehearsal(own=set(clips.slots.tolist()), recordings=labelled)
        targets = np.concatenate([sgd.from_slots(clips.slots, self.label_map.capacity), labels])
        loss = math.nan
        for epoch in range(int(epochs)):
            if with_public_set and not labelled:
                self._distil()
            step = sgd.settling(float(rate), epoch, int(epochs)) if labelled else float(rate)
            x = np.concatenate([clips.draw(self.rng), rows])
            optimiser = sgd.Optimiser(step, float(momentum))
            loss = sgd.train_epoch(self.model, x, targets, self.label_map.mask, optimiser, self.rng)
        require_finite(self.work, loss, ())
        return loss

    def _distil(self, *, rehearse: bool = False) -> None:
        """Pass once over the public recordings with the consensus as target. Their true labels are not used."""
        # Of a class without a public recording the consensus knows nothing here, so the device keeps its own opinion
        # (after learning without forgetting, Li & Hoiem 2016): pushed down on every recording, it would be unlearned.
        # ``rehearse`` passes over the data impressions of discovered classes as well, as what they are.
        if self.context.consensus is None:
            return
        mask = self.label_map.mask
        real = ~self.context.public_set.synthetic
        recorded = set(self.context.public_set.labels[real].tolist())
        pairs = [pair for pair in zip(*self._owned(), strict=True) if pair[1] in recorded]
        slots, columns = [slot for slot, _ in pairs], [column for _, column in pairs]
        targets = sgd.from_consensus(self.context.consensus[real][:, columns], slots, self.label_map.capacity)
        scored = targets.any(axis=1)
        x, targets = self._x0[real][scored], targets[scored]
        own = self.model.predict(x, mask, self._temperature)
        own[:, slots] = 0.0
        targets = targets * (1.0 - own.sum(axis=1, keepdims=True)) + own
        if rehearse:
            impressions, labels = self._rehearsal(own=set())
            labels = sgd.at_temperature(labels, mask, self._temperature)
            x, targets = np.concatenate([x, impressions]), np.concatenate([targets, labels])
        self._pass_over(x, targets, self._temperature)

    def _pass_over(self, x: Floats, targets: Floats, temperature: float) -> None:
        rate, momentum = float(self.settings["distill_learning_rate"]), float(self.settings["momentum"])
        optimiser = sgd.Optimiser(rate, momentum, temperature)
        sgd.train_epoch(self.model, x, targets, self.label_map.mask, optimiser, self.rng)

    @property
    def _temperature(self) -> float:
        return float(self.settings["score_temperature"])

    def _rehearsal(self, own: set[int], *, recordings: bool = False) -> tuple[Floats, Floats]:
        """Return public rows and targets of its classes: impressions but for ``own`` slots, and ``recordings``."""
        slots, columns = self._owned()
        slot_of = dict(zip(columns, slots, strict=True))
        imagined = [column for column, slot in slot_of.items() if slot not in own]
        labels, synthetic = self.context.public_set.labels, self.context.public_set.synthetic
        wanted = synthetic & np.isin(labels, imagined)
        if recordings:
            wanted |= ~synthetic & np.isin(labels, columns)
        rows = np.flatnonzero(wanted)
        wanted_slots = np.array([slot_of[int(label)] for label in labels[rows]], np.int64)
        return self._x0[rows], sgd.from_slots(wanted_slots, self.label_map.capacity)

    def _owned(self) -> tuple[list[int], list[int]]:
        """Return the slots that are linked to classes of the public set, and these classes' columns."""
        columns = {class_id: column for column, class_id in enumerate(self.context.public_set.class_ids)}
        linked = enumerate(self.label_map.class_ids)
        pairs = [(slot, columns[one]) for slot, one in linked if one is not None and one in columns]
        if not pairs:
            raise ProtocolError(
                f"none of this device's labels ({', '.join(self.label_map.names) or 'none'}) is a class of the public "
                f"set ({', '.join(columns)}): it has nothing to score. Name at least one label folder like a class"
            )
        return [slot for slot, _ in pairs], [column for _, column in pairs]

    def _public_accuracy(self, scores: Floats, columns: list[int]) -> float:
        """Accuracy on the public recordings of the device's classes, among these classes."""
        real = ~self.context.public_set.synthetic
        return sgd.accuracy(scores[real], self.context.public_set.labels[real], columns)
