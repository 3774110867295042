"""Prototypes: the device's part of a round, in which no network is trained (docs/methods.md, "Prototypes").

Contribute: send the mean embedding of each label's clips, of a long word also of what comes before, and of what the
owner said is not the label. Learn: take up classes, and fit the head as teaching does, with the fleet's prototypes
beside the device's own clips. In a private round the means travel masked (``put_masked``).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Container, Mapping

import numpy as np

from edge_client.clips.folders import SOUND
from edge_client.config import Config
from edge_client.errors import ModelError, RecordingError
from edge_client.learning.class_links import adopt_classes, link_recognised, take_labels, to_report
from edge_client.learning.negative_prototypes import denied_groups
from edge_client.learning.rounds.client_update import RoundContext, build_update, put_masked
from edge_client.learning.rounds.clips import held_out_metrics
from edge_client.learning.rounds.kept_model import adoptable, after_round, choose_of, finish
from edge_client.learning.teaching.heard import Before, Embedder
from edge_client.learning.teaching.job import go_over
from edge_client.learning.teaching.material import kind_of
from edge_client.model.runtime import ModelRuntime
from edge_client.storage.device_state import DeviceState
from edge_client.storage.saved_model import SavedModel
from fleet_protocol.bundle.bundle_file import Manifest
from fleet_protocol.bundle.labels import LabelMap
from fleet_protocol.errors import SecureSumError
from fleet_protocol.limits import STATES_BEFORE, WORD_S
from fleet_protocol.messages.public_set import PublicSet
from fleet_protocol.messages.rest import Update, Work, to_json
from fleet_protocol.numbers.arrays import Floats
from fleet_protocol.numbers.fleet_prototypes import FleetPrototypes
from fleet_protocol.numbers.joint_statistics import JointStatistics
from fleet_protocol.numbers.tensors import Arrays, pack
from fleet_protocol.numbers.word_order import WordOrder
from fleet_protocol.secure_sums.bounded_sums import BoundedLayout, directions_of
from fleet_protocol.secure_sums.layouts import SumLayout
from fleet_protocol.secure_sums.masking import Words


class PrototypeExchange:
    """What a device sends its fleet in a round, and what it learns from it; ``label_map`` is replaced, not changed."""

    def __init__(self, manifest: Manifest, label_map: LabelMap, work: Work, context: RoundContext) -> None:
        """Prepare. Raises ModelError if the bundle has no words of a pretraining, FeatureMismatchError."""
        statistics = manifest.embedding_statistics
        if statistics is None or not manifest.background:
            raise ModelError(
                "the strategy prototypes needs a bundle with the words of its front end's pretraining, and this "
                f'device\'s ({manifest.architecture}) has none; use another, such as bundle = "base"'
            )
        self._manifest, self._statistics = manifest, statistics
        self._settings = manifest.feature_settings
        self._settings.require_same(
            context.public_set.settings, f"this device's bundle ({manifest.architecture})", "the public set"
        )
        self.label_map = label_map
        self._work = work

    def contribute(
        self,
        takes: Mapping[str, Floats],
        device_id: str,
        *,
        share_names: bool,
        rejected: Mapping[str, Floats] | None = None,
        before: Mapping[str, Before] | None = None,
    ) -> tuple[Update, Arrays]:
        """Give every label a slot; return the upload of an open round. Raises LabelError: the head has no free slot.

        ``takes`` are embeddings by label, float32 [clips, variants, numbers], of which the first variant is the clip
        itself; ``rejected``, as ``takes``, those of what its owner said is not it: sent for classes that the fleet has,
        if the plan asks for corrections; ``before``: what comes before the takes of long words, sent if the plan asks
        for the order. An older aggregator asks for neither.
        """
        label_map = take_labels(self.label_map, tuple(takes), self._work.classes)
        owners = np.concatenate([np.full(len(clips), label_map.slot_of(label)) for label, clips in takes.items()])
        with_clips = sorted(set(owners.tolist()))
        new = to_report(label_map, with_clips)
        of_fleet = {info.class_id for info in self._work.classes}
        known = [slot for slot in with_clips if label_map.class_ids[slot] in of_fleet]
        whose = self._work, device_id, self._settings.digest, label_map
        update = build_update(*whose, owners, known, known=known, new=new, share_names=share_names)
        own = np.concatenate([clips[:, 0] for clips in takes.values()])
        means = np.stack([_mean(own[owners == slot])[None] for slot in (*known, *new)])
        counts = np.array([np.count_nonzero(owners == slot) for slot in (*known, *new)], np.float32)
        self.label_map = label_map
        arrays: Arrays = {"prototypes": means, "counts": counts}
        asked = self._work.plan.aggregation.settings
        if asked.get("order", False):
            label_of = {label_map.slot_of(label): label for label in takes}
            words = [self._order(takes[label_of[slot]], (before or {}).get(label_of[slot])) for slot in (*known, *new)]
            arrays |= WordOrder.of(words, self._settings.shape).arrays
        denied = self._denied(rejected or {}, of_fleet) if asked.get("corrections", False) else []
        if denied:
            update = dataclasses.replace(update, negatives=tuple(class_id for class_id, _ in denied))
            arrays["negatives"] = np.stack([_mean(clips)[None] for _, clips in denied])
            arrays["negative_counts"] = np.array([len(clips) for _, clips in denied], np.float32)
        return update, arrays

    def of_classes(
        self, takes: Mapping[str, Floats], before: Mapping[str, Before]
    ) -> dict[int, tuple[list[Floats], int, float]]:
        """Give every label a slot; return what a private round sums of each class of the fleet that the device has.

        By the class's place in the work: means, float32 [frames, numbers], of its clips and of the windows before them,
        number of clips, length of the word, s. New sounds are not among it. Raises LabelError as :meth:`contribute`.
        """
        self.label_map = label_map = take_labels(self.label_map, tuple(takes), self._work.classes)
        places, found = {info.class_id: place for place, info in enumerate(self._work.classes)}, {}
        for label, clips in takes.items():
            place = places.get(label_map.class_ids[label_map.slot_of(label)] or "")
            if place is not None and len(clips):
                windows, length_s = self._order(clips, before.get(label))
                found[place] = ([_mean(clips[:, 0])[None], *windows], len(clips), length_s)
        return found

    def to_sum(
        self, takes: Mapping[str, Floats], before: Mapping[str, Before]
    ) -> tuple[Words, Callable[[int, bytes], Words] | None]:
        """Return what the device adds in a private round, uint32, and what draws its share of the noise, if any.

        With noise directions of the newest windows alone are added. Raises LabelError as :meth:`contribute`;
        SecureSumError if the plan cannot be summed, or the server whitens otherwise than this device's front end.
        """
        plan, classes = self._work.plan, len(self._work.classes)
        found = self.of_classes(takes, before)
        if plan.private is None or not plan.private.noise:
            return SumLayout.of(plan, classes, self._settings.shape).own(found), None
        if self._manifest.statistics_digest != plan.private.statistics:
            raise SecureSumError("the round whitens by other statistics than this device's front end has; update it")
        layout = BoundedLayout.of(plan, classes, self._settings.shape)
        directions = {
            place: (directions_of(self._statistics, means[0].reshape(1, -1))[0], clips)
            for place, (means, clips, _) in found.items()
        }
        return layout.own(directions), layout.noise

    def _order(self, takes: Floats, before: Before | None) -> tuple[Floats, float]:
        """Return the mean windows before a label's takes, float32 [states, frames, numbers], and its length, s."""
        own, statistics = takes[:, 0], self._statistics
        if before is None or kind_of([own], self._manifest) == SOUND:
            return np.zeros((0, *self._settings.shape), np.float32), 0.0
        rows = np.stack([_mean(windows) for windows in before.rows[:STATES_BEFORE]])
        if isinstance(statistics, JointStatistics):  # nobody asked what sound a part of a word is
            rows[:, statistics.split :] = _mean(own)[statistics.split :]
        return rows[:, None], min(before.length_s, WORD_S)

    def _denied(self, rejected: Mapping[str, Floats], of_fleet: Container[str]) -> list[tuple[str, Floats]]:
        """Return classes, and clips that are not of them, float32 [any, numbers], a group of clips each."""
        classes = dict(zip(self.label_map.names, self.label_map.class_ids, strict=True))
        return [
            (class_id, group)
            for label, clips in sorted(rejected.items())
            if (class_id := classes.get(label)) is not None and class_id in of_fleet
            for group in denied_groups(clips[:, 0], self._statistics)
        ]

    def apply_result(self, adopt: Container[str]) -> None:
        """Link what was recognised; take up the classes of other devices that are in ``adopt``."""
        self.label_map = link_recognised(self.label_map, self._work.assignments)
        wanted = [info for info in self._work.classes if info.discovered_in is not None and info.class_id in adopt]
        self.label_map = adopt_classes(self.label_map, wanted)


def _mean(embeddings: Floats) -> Floats:
    return np.asarray(embeddings.mean(axis=0, dtype=np.float64), np.float32)


class PrototypeRound:
    """One device's work in one round; a :class:`edge_client.learning.rounds.client_update.ClientState`."""

    def __init__(self, config: Config, state: DeviceState, saved: SavedModel, work: Work) -> None:
        """Prepare; the blobs of the work are in the state folder. Raises ModelError as :class:`PrototypeExchange`."""
        self.context = RoundContext(PublicSet.unpack(state.blobs.read(work.public_set)), None)
        self.label_map, self.work = saved.progress.label_map, work
        self.model: ModelRuntime
        self._exchange = PrototypeExchange(saved.bundle.manifest, self.label_map, work, self.context)
        self._settings = saved.bundle.manifest.feature_settings
        self._config, self._state, self._saved = config, state, saved

    def contribute(self) -> None:
        """Write the upload, and then the slots. Raises RecordingError without clips, LabelError without a slot."""
        heard = Embedder(self._config, self._settings, self._state.embeddings_path).embeddings()
        if not heard.takes:
            raise RecordingError(
                f"round {self.work.round_id}: no readable clips in {self._config.clips_folder}; record or import some"
            )
        device, own_id = self._config.device, self._state.identity.load().device_id
        if self.work.plan.private is not None:
            put_masked(self._state, self.work, self._settings, *self._exchange.to_sum(heard.takes, heard.before))
        else:
            rejected = heard.rejected if device.share_corrections else {}
            update, arrays = self._exchange.contribute(
                heard.takes, own_id, share_names=device.share_names, rejected=rejected, before=heard.before
            )
            self._state.outbox.put(self._state.outbox.update_path(self.work.round_id), pack(arrays, to_json(update)))
        label_map, before = self._exchange.label_map, self._saved.progress
        unheard = (*before.unheard, *label_map.new_since(before.label_map))
        progress = dataclasses.replace(before, label_map=label_map, contributed=self.work.round_id, unheard=unheard)
        self._state.model.save(self._saved.bundle.weights, self._saved.listening, progress)

    def learn(self) -> None:
        """Write the report, and then the model. Raises LabelError without a slot, ModelError on divergence."""
        self._exchange.apply_result(adoptable(self._config, self._state))
        self.label_map = self._exchange.label_map
        provisional: tuple[str, ...] = ()
        if self.work.prototypes is not None:
            provisional = FleetPrototypes.unpack(self._state.blobs.read(self.work.prototypes)).provisional
        progress = after_round(self._saved.progress, self)
        progress = dataclasses.replace(progress, provisional=provisional, unheard=())
        made = go_over(self._config, self._state, dataclasses.replace(self._saved, progress=progress))
        if made is None:
            raise RecordingError(f"no readable clips in {self._config.clips_folder}; record or import some first")
        self.model = ModelRuntime(self._saved.bundle, self._config.device.threads)
        chosen, verdict, made = choose_of(self._config, self._state, self._saved, self, made)
        metrics = verdict.metrics | held_out_metrics(self._config, self)
        finish(self._state, self.work, made, chosen, verdict, metrics)
