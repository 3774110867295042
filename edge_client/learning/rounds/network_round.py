"""The device's part of a round that trains a network, from its state folder to its outbox."""

from __future__ import annotations

import dataclasses
import json

from edge_client.config import Config
from edge_client.learning.personalisations.personalisation import PersonalTask, personalisations
from edge_client.learning.rounds.choice import choose, result_of
from edge_client.learning.rounds.clips import held_out_metrics, own_clips, public_clips, to_evaluate_on, to_train_on
from edge_client.learning.rounds.job import NetworkJob, RoundContext, StartJob
from edge_client.model.runtime import ModelRuntime
from edge_client.storage.device_state import DeviceState
from edge_client.storage.saved_model import SavedModel
from fleet_protocol.bundle import unpack_bundle
from fleet_protocol.errors import TensorError
from fleet_protocol.messages import Learned, Work, to_json
from fleet_protocol.public_set import PublicSet, unpack_consensus
from fleet_protocol.tensors import Arrays, pack, unpack


class NetworkRound:
    """One device's work in one round; a :class:`edge_client.learning.rounds.job.DeviceRound`."""

    def __init__(self, config: Config, state: DeviceState, saved: SavedModel, work: Work, start: StartJob) -> None:
        self._config = config
        self._state = state
        self._saved = saved
        self._work = work
        self._model = ModelRuntime(saved.bundle, config.device.threads)
        self._start = start

    def _job(self, work: Work) -> NetworkJob:
        context = _context(self._state, work, first=not self._saved.progress.contributed)
        shared = None if context.model is None else ModelRuntime(context.model, self._config.device.threads)
        device_id = self._state.identity.load().device_id
        return self._start(self._model, self._saved.progress.label_map, work, context, device_id, shared)

    def contribute(self) -> None:
        """Train, and write the upload into the outbox, and then the model."""
        config, state, before, job = self._config, self._state, self._saved.progress, self._job(self._work)
        source = own_clips(config, job)
        job.take_labels(source.labels())
        update, arrays = job.contribute(to_train_on(config, job, source), config.device.share_names)
        update.metrics.update(held_out_metrics(config, job))
        state.outbox.put(state.outbox.update_path(job.work.round_id), pack(arrays, to_json(update)))
        progress = dataclasses.replace(before, label_map=job.label_map, contributed=job.work.round_id)
        trained = job.model.get_weights()
        if before.learned or before.taught or before.background_trained:
            new = job.label_map.new_since(before.label_map)
            progress = dataclasses.replace(progress, unheard=(*before.unheard, *new))
            state.model.save(trained, self._saved.listening, progress)
        else:  # before the first consensus the device listens with what it trained
            state.model.save(trained, trained, progress)

    def learn(self) -> None:
        """Apply the round's result, and write the report into the outbox, and then the model."""
        config, state, fleets = self._config, self._state, None
        if self._work.fleet_weights is not None:  # what the device would listen with, had it no group
            without = dataclasses.replace(self._work, weights=self._work.fleet_weights)
            self._job(without).apply_result(config.device.learn_discovered)
            fleets = self._model.get_weights()
            self._model.set_weights(self._saved.bundle.weights)
        job = self._job(self._work)
        metrics = job.apply_result(config.device.learn_discovered)
        if job.work.fine_tune:
            metrics.update(_personalise(config, job, fleets))
        made, taught = result_of(config, state, self._saved, job)
        chosen, verdict = choose(config, self._saved, job, made, taught=taught)
        metrics.update(verdict.metrics | held_out_metrics(config, job))
        report = Learned(job.work.round_id, metrics, personalised=job.work.fine_tune, kept_own=verdict.kept_own)
        state.outbox.put(state.outbox.learned_path(job.work.round_id), json.dumps(to_json(report)).encode())
        chosen.save(state)


def _personalise(config: Config, job: NetworkJob, fleets: Arrays | None) -> dict[str, float]:
    """Do what the plan's personalisation says with the result; return what was measured."""
    how = job.work.plan.personalisation
    adapt = personalisations()[how.name].adapt
    if adapt is None:
        return {}
    source = own_clips(config, job)
    clips = to_train_on(config, job, source)
    return adapt(
        PersonalTask(
            model=job.model,
            label_map=job.label_map,
            clips=clips,
            held_out=to_evaluate_on(job, source.held_out),
            settings=how.settings,
            rng=job.rng,
            public=public_clips(job, clips),
            global_weights=job.model.get_weights() if fleets is None else fleets,
            own_weights=job.own_weights,
        )
    )


def _context(state: DeviceState, work: Work, *, first: bool) -> RoundContext:
    public_set = PublicSet.unpack(state.blobs.read(work.public_set))
    consensus = None
    if work.consensus is not None:
        consensus, scored = unpack_consensus(state.blobs.read(work.consensus))
        if (len(consensus), scored) != (len(public_set.labels), public_set.class_ids):
            raise TensorError(f"the consensus {work.consensus} is not on the public set {work.public_set}")
    if work.model is None:
        return RoundContext(public_set, consensus)
    model = unpack_bundle(state.blobs.read(work.model), "the shared model")
    if work.weights is not None:
        weights = unpack(state.blobs.read(work.weights))[0]
        model = dataclasses.replace(model, weights=weights)
    return RoundContext(public_set, consensus, model, trained=work.weights is not None, first=first)
