"""The device's part of a round that trains a network, from its state folder to its outbox."""

from __future__ import annotations

import dataclasses

from edge_client.config import Config
from edge_client.learning.personalisation import PersonalTask, personalisations
from edge_client.learning.rounds.client_update import ClientUpdate, RoundContext, StartUpdate, put_masked
from edge_client.learning.rounds.clips import held_out_metrics, own_clips, public_clips, to_evaluate_on, to_train_on
from edge_client.learning.rounds.kept_model import adoptable, choose, finish, result_of
from edge_client.model.runtime import ModelRuntime
from edge_client.storage.device_state import DeviceState
from edge_client.storage.saved_model import SavedModel
from fleet_protocol.bundle.bundle_file import unpack_bundle
from fleet_protocol.errors import TensorError
from fleet_protocol.messages.public_set import PublicSet, unpack_consensus
from fleet_protocol.messages.rest import Work, to_json
from fleet_protocol.numbers.tensors import Arrays, pack, unpack


class TrainingRound:
    """One device's work in one round; a :class:`edge_client.learning.rounds.client_update.DeviceRound`."""

    def __init__(self, config: Config, state: DeviceState, saved: SavedModel, work: Work, start: StartUpdate) -> None:
        self._config, self._state, self._saved = config, state, saved
        self._work, self._start = work, start
        self._model = ModelRuntime(saved.bundle, config.device.threads)

    def _update(self, work: Work) -> ClientUpdate:
        context = _context(self._state, work, first=not self._saved.progress.contributed)
        shared = None if context.model is None else ModelRuntime(context.model, self._config.device.threads)
        device_id = self._state.identity.load().device_id
        return self._start(self._model, self._saved.progress.label_map, work, context, device_id, shared)

    def contribute(self) -> None:
        """Train, and write the upload into the outbox, and then the model."""
        config, state, before, client = self._config, self._state, self._saved.progress, self._update(self._work)
        source = own_clips(config, client)
        client.take_labels(source.labels())
        clips = to_train_on(config, client, source)
        update, arrays = client.contribute(clips, config.device.share_names)
        if client.work.plan.private is not None:
            settings = client.model.manifest.feature_settings
            put_masked(state, client.work, settings, client.to_sum(clips, arrays))
        else:
            update.metrics.update(held_out_metrics(config, client))
            state.outbox.put(state.outbox.update_path(client.work.round_id), pack(arrays, to_json(update)))
        progress = dataclasses.replace(before, label_map=client.label_map, contributed=client.work.round_id)
        trained = client.model.get_weights()
        if before.learned or before.taught or before.background_trained:
            new = client.label_map.new_since(before.label_map)
            progress = dataclasses.replace(progress, unheard=(*before.unheard, *new))
            state.model.save(trained, self._saved.listening, progress)
        else:  # before the first consensus the device listens with what it trained
            state.model.save(trained, trained, progress)

    def learn(self) -> None:
        """Apply the round's result, and write the report into the outbox, and then the model."""
        config, state, fleets = self._config, self._state, None
        if self._work.fleet_weights is not None:  # what the device would listen with, had it no group
            without = dataclasses.replace(self._work, weights=self._work.fleet_weights)
            self._update(without).apply_result(adoptable(config, state))
            fleets = self._model.get_weights()
            self._model.set_weights(self._saved.bundle.weights)
        client = self._update(self._work)
        metrics = client.apply_result(adoptable(config, state))
        if client.work.fine_tune:
            metrics.update(_personalise(config, client, fleets))
        made, taught = result_of(config, state, self._saved, client)
        chosen, verdict = choose(config, self._saved, client, made, taught=taught)
        metrics.update(verdict.metrics | held_out_metrics(config, client))
        finish(state, client.work, made, chosen, verdict, metrics)


def _personalise(config: Config, client: ClientUpdate, fleets: Arrays | None) -> dict[str, float]:
    """Do what the plan's personalisation says with the result; return what was measured."""
    how = client.work.plan.personalisation
    adapt = personalisations()[how.name].adapt
    if adapt is None:
        return {}
    source = own_clips(config, client)
    clips = to_train_on(config, client, source)
    return adapt(
        PersonalTask(
            model=client.model,
            label_map=client.label_map,
            clips=clips,
            held_out=to_evaluate_on(client, source.held_out),
            settings=how.settings,
            rng=client.rng,
            public=public_clips(client, clips),
            global_weights=client.model.get_weights() if fleets is None else fleets,
            own_weights=client.own_weights,
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
