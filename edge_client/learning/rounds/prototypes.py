"""Prototypes: the device's part of a round, in which no network is trained (docs/methods.md, "Prototypes").

Contribute: send the mean embedding of each label's clips. Learn: take up classes, and fit the head as teaching does,
with the fleet's prototypes beside the device's own clips.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping

import numpy as np

from edge_client.audio.recordings import Recordings
from edge_client.clips.files import store_digest
from edge_client.config import Config
from edge_client.errors import ModelError, RecordingError
from edge_client.learning.class_links import adopt_classes, link_recognised, take_labels, unlinked
from edge_client.learning.prototype_noise import noise_rng, private_mean
from edge_client.learning.rounds.job import percent
from edge_client.learning.rounds.upload import build_update
from edge_client.learning.teaching.head_job import teach_head
from edge_client.learning.teaching.hearing import Hearing
from edge_client.learning.teaching.job import NO_CLIPS, learned_from
from edge_client.learning.teaching.taught import Taught
from edge_client.learning.training_data import gather, held_out_accuracy
from edge_client.model.runtime import ModelRuntime
from edge_client.storage.device_state import DeviceState, Progress, SavedModel
from fleet_protocol.arrays import Floats
from fleet_protocol.atomic_files import write_durably
from fleet_protocol.messages import Learned, Update, Work, to_json
from fleet_protocol.prototypes import FleetPrototypes
from fleet_protocol.public_set import PublicSet
from fleet_protocol.tensors import Arrays, pack


class PrototypeRound:
    """One device's work in one round."""

    def __init__(self, config: Config, state: DeviceState, saved: SavedModel, work: Work) -> None:
        """Prepare.

        Args:
            config: Configuration of the device.
            state: Its state folder.
            saved: Its model.
            work: What the aggregator asks for; its blobs are in the state folder.

        Raises:
            ModelError: the device's bundle carries no words of a pretraining.
            FeatureMismatchError: the bundle and the public set compute features differently.
        """
        manifest = saved.bundle.manifest
        self._statistics = manifest.embedding_statistics
        if self._statistics is None or not manifest.background:
            raise ModelError(
                "the strategy prototypes needs a bundle with the words of its front end's pretraining, and this "
                f'device\'s ({manifest.architecture}) has none; use another, such as bundle = "base"'
            )
        public_set = PublicSet.unpack(state.blob_path(work.public_set).read_bytes())
        self._settings = manifest.feature_settings
        self._settings.require_same(
            public_set.settings, f"this device's bundle ({manifest.architecture})", "the public set"
        )
        self._config = config
        self._state = state
        self._saved = saved
        self._work = work

    def contribute(self) -> None:
        """Write the upload into the outbox, and then the labels' slots.

        Raises:
            RecordingError: there is no readable clip.
            LabelError: the head has no free slot.
        """
        takes = Hearing(self._config, self._settings, self._state.embeddings_path).heard().takes
        if not takes:
            raise RecordingError(
                f"round {self._work.round_id}: no readable clips in {self._config.clips_folder}; record or import some"
            )
        update, arrays, progress = self._upload(takes)
        write_durably(self._state.update_path(self._work.round_id), pack(arrays, to_json(update)))
        self._state.save_model(self._saved.bundle.weights, self._saved.listening, progress)

    def _upload(self, takes: Mapping[str, Floats]) -> tuple[Update, Arrays, Progress]:
        label_map = take_labels(self._saved.progress.label_map, tuple(takes), self._work.classes)
        owners = np.concatenate([np.full(len(clips), label_map.slot_of(label)) for label, clips in takes.items()])
        with_clips = sorted(set(owners.tolist()))
        new = [slot for slot in unlinked(label_map) if slot in with_clips]
        of_fleet = {info.class_id for info in self._work.classes}
        known = [slot for slot in with_clips if label_map.class_ids[slot] in of_fleet]
        update = build_update(
            self._work,
            self._state.identity().device_id,
            features=self._settings.digest,
            label_map=label_map,
            slots=owners,
            classes=[str(label_map.class_ids[slot]) for slot in known],
            known=known,
            new=new,
            share_names=self._config.device.share_names,
        )
        own = np.concatenate([clips[:, 0] for clips in takes.values()])
        means = np.stack([self._mean(own[owners == slot])[None] for slot in (*known, *new)])
        counts = np.array([np.count_nonzero(owners == slot) for slot in (*known, *new)], np.float32)
        progress = dataclasses.replace(self._saved.progress, label_map=label_map, contributed=self._work.round_id)
        return update, {"prototypes": means, "counts": counts}, progress

    def _mean(self, embeddings: Floats) -> Floats:
        """Return the mean embedding of a class, with the plan's noise: the same as long as its clips are the same."""
        assert self._statistics is not None
        settings = self._work.plan.local.settings
        clip_norm, noise = float(settings["clip_norm"]), float(settings["noise"])
        rng = noise_rng(self._state.noise_key(), embeddings, clip_norm, noise)
        return private_mean(embeddings, self._statistics, clip_norm, noise, rng)

    def learn(self) -> None:
        """Write the report into the outbox, and then the model.

        Raises:
            LabelError: the head has no free slot.
            ModelError: the training diverged.
        """
        round_id, former = self._work.round_id, self._saved.progress
        label_map = link_recognised(former.label_map, self._work.assignments)
        if self._config.device.learn_discovered:
            label_map = adopt_classes(
                label_map, [info for info in self._work.classes if info.discovered_in is not None]
            )
        saved = dataclasses.replace(self._saved, progress=dataclasses.replace(former, label_map=label_map))
        digest = store_digest(self._config.clips_folder)  # before the clips are read, as when teaching
        taught = teach_head(self._config, self._state, saved, int(digest or NO_CLIPS, 16))
        report = Learned(round_id, self._held_out(taught), personalised=self._work.fine_tune)
        write_durably(self._state.learned_path(round_id), json.dumps(to_json(report)).encode())
        progress = dataclasses.replace(
            learned_from(former, taught, digest),
            learned=round_id,
            fine_tuned=round_id if self._work.fine_tune else former.fine_tuned,
            provisional=self._provisional(),
        )
        self._state.save_model(taught.trained, taught.listening, progress)
        self._state.save_expectations([dataclasses.asdict(expected) for expected in taught.expected])

    def _provisional(self) -> tuple[str, ...]:
        if self._work.prototypes is None:
            return ()
        return FleetPrototypes.unpack(self._state.blob_path(self._work.prototypes).read_bytes()).provisional

    def _held_out(self, taught: Taught) -> dict[str, float]:
        """Return the accuracy on the clips held out for it, in %, among the labels; nothing without such clips."""
        if self._config.recordings.evaluation is None:
            return {}
        source, label_map = Recordings(self._config.recordings.evaluation, self._settings), taught.label_map
        slots = {label: label_map.slot_of(label) for label in source.labels() if label in label_map.names}
        model = ModelRuntime(
            dataclasses.replace(self._saved.bundle, weights=taught.listening), self._config.device.threads
        )
        clips = gather(source, self._work.round_id, slots, model, np.random.default_rng(0), copies=0, noise=None)
        return percent({"held_out_accuracy": held_out_accuracy(model, label_map.mask, clips, list(slots.values()))})
