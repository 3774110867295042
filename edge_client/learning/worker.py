"""The child process that trains: its memory returns when it ends, and listening goes on meanwhile.

`python -m edge_client.learning.worker CONFIG` reads its job as one line of JSON from its standard input
(edge_client/learning/training_job.py). Its result is in the state folder when it exits with 0: an upload or a report in
the outbox, then the model, each written whole. Its parent keeps the pipe open for as long as the job is wanted.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import sys
import threading
from pathlib import Path

from edge_client.audio.recordings import Recordings
from edge_client.config import Config, load_config
from edge_client.errors import WorkError
from edge_client.learning.class_links import follow_fleet
from edge_client.learning.methods.local_method import LocalMethod, PrototypeMethod
from edge_client.learning.methods.registry import local_methods
from edge_client.learning.personalisations.personalisation import PersonalTask
from edge_client.learning.personalisations.registry import personalisations
from edge_client.learning.rounds.checked_plan import checked_plan
from edge_client.learning.rounds.choice import choose, result_of
from edge_client.learning.rounds.clips import held_out_metrics, own_clips, public_clips, to_evaluate_on, to_train_on
from edge_client.learning.rounds.job import RoundContext, RoundJob
from edge_client.learning.rounds.prototypes import PrototypeRound
from edge_client.learning.rounds.weight_sharing import WeightSharing
from edge_client.learning.rounds.zero_shot import ZeroShot
from edge_client.learning.teaching.job import teach
from edge_client.learning.training_job import OwnerTraining, TrainingJob, from_line
from edge_client.logs import set_up_log
from edge_client.model.runtime import ModelRuntime
from edge_client.storage.device_state import DeviceState, SavedModel
from fleet_protocol.bundle import unpack_bundle
from fleet_protocol.errors import AuricleError, TensorError
from fleet_protocol.messages import Learned, Work, to_json
from fleet_protocol.public_set import PublicSet, unpack_consensus
from fleet_protocol.tensors import Arrays, pack, unpack

# How long a command may have the model to itself (edge_client/learning/forgotten_labels.py), s.
_PATIENCE_S = 30.0


def main() -> int:
    """Do the job on standard input; return the exit status."""
    set_up_log()
    try:
        job = from_line(sys.stdin.readline())
        threading.Thread(target=_end_with_parent, daemon=True).start()
        config = load_config(Path(sys.argv[1]))
        os.nice(config.training.nice)
        run(config, job)
    except (AuricleError, OSError) as error:
        print(f"auricle-edge: {error}", file=sys.stderr)
        return 1
    return 0


def _end_with_parent() -> None:
    """Stop at once when the daemon is gone: its successor will ask for the same work again."""
    sys.stdin.read()
    os._exit(1)


def run(config: Config, job: TrainingJob) -> None:
    """Do one job and save its result: first what is to be sent, then the model.

    After a power cut in between, the model is as it was, and the same job is done again.

    Args:
        config: Configuration of the device.
        job: A round's work, or learning what the owner taught.

    Raises:
        AuricleError: naming what is wrong with the state, the bundle, the recordings or what the aggregator sent.
    """
    state = DeviceState(config.device.state)
    state.lock("training", _PATIENCE_S)
    if isinstance(job, OwnerTraining):
        teach(config, state)
        return
    work = dataclasses.replace(job.work, plan=checked_plan(job.work.plan))
    saved = _following(config, state.load_model(config.model.bundle), work)
    if isinstance(local_methods().get(work.plan.local.name), PrototypeMethod):
        prototype_round = PrototypeRound(config, state, saved, work)
        prototype_round.contribute() if work.kind == "contribute" else prototype_round.learn()
        return
    model = ModelRuntime(saved.bundle, config.device.threads)
    start = functools.partial(_start, config, state, saved, model)
    if work.kind == "contribute":
        _contribute(config, state, saved, start(work))
        return
    fleets = None
    if work.fleet_weights is not None:  # what the device would listen with, had it no group
        start(dataclasses.replace(work, weights=work.fleet_weights)).apply_result(config.device.learn_discovered)
        fleets = model.get_weights()
        model.set_weights(saved.bundle.weights)
    _learn(config, state, saved, start(work), fleets)


def _following(config: Config, saved: SavedModel, work: Work) -> SavedModel:
    """Return the device's model with its labels linked as the fleet's classes are now."""
    labels = Recordings(config.clips_folder, saved.bundle.manifest.feature_settings).labels()
    followed = follow_fleet(saved.progress.label_map, work, labels)
    return dataclasses.replace(saved, progress=dataclasses.replace(saved.progress, label_map=followed))


def _start(config: Config, state: DeviceState, saved: SavedModel, model: ModelRuntime, work: Work) -> RoundJob:
    """Prepare the device's part of the plan's local method.

    Raises:
        WorkError: this version does not know the method.
    """
    method, label_map, device_id = work.plan.local.name, saved.progress.label_map, state.identity().device_id
    found = local_methods().get(method)
    if found is None:
        known = ", ".join(local_methods())
        raise WorkError(f"this device knows no local method {method!r} (known: {known}); update its software")
    context = _context(state, work, first=not saved.progress.contributed)
    if not isinstance(found, LocalMethod):
        return ZeroShot(model, label_map, work, context, device_id)
    shared = None if context.model is None else ModelRuntime(context.model, config.device.threads)
    return WeightSharing(model, label_map, work, context, device_id, shared)


def _context(state: DeviceState, work: Work, *, first: bool) -> RoundContext:
    public_set = PublicSet.unpack(state.blob(work.public_set))
    consensus = None
    if work.consensus is not None:
        consensus, scored = unpack_consensus(state.blob(work.consensus))
        if (len(consensus), scored) != (len(public_set.labels), public_set.class_ids):
            raise TensorError(f"the consensus {work.consensus} is not on the public set {work.public_set}")
    if work.model is None:
        return RoundContext(public_set, consensus)
    model = unpack_bundle(state.blob(work.model), "the shared model")
    if work.weights is not None:
        weights = unpack(state.blob(work.weights))[0]
        model = dataclasses.replace(model, weights=weights)
    return RoundContext(public_set, consensus, model, trained=work.weights is not None, first=first)


def _contribute(config: Config, state: DeviceState, saved: SavedModel, job: RoundJob) -> None:
    source = own_clips(config, job)
    job.take_labels(source.labels())
    clips = to_train_on(config, job, source)
    update, arrays = job.contribute(clips, config.device.share_names)
    update.metrics.update(held_out_metrics(config, job))
    state.to_send(state.update_path(job.work.round_id), pack(arrays, to_json(update)))
    new = job.label_map.new_since(saved.progress.label_map)
    progress = dataclasses.replace(saved.progress, label_map=job.label_map, contributed=job.work.round_id)
    trained = job.model.get_weights()
    if saved.progress.learned or saved.progress.taught or saved.progress.background_trained:
        progress = dataclasses.replace(progress, unheard=(*saved.progress.unheard, *new))
        state.save_model(trained, saved.listening, progress)
    else:  # before the first consensus the device listens with what it trained
        state.save_model(trained, trained, progress)


def _learn(config: Config, state: DeviceState, saved: SavedModel, job: RoundJob, fleets: Arrays | None) -> None:
    metrics = job.apply_result(config.device.learn_discovered)
    chosen = job.work.plan.personalisation
    adapt = personalisations()[chosen.name].adapt
    if job.work.fine_tune and adapt is not None:
        source = own_clips(config, job)
        clips = to_train_on(config, job, source)
        task = PersonalTask(
            model=job.model,
            label_map=job.label_map,
            clips=clips,
            held_out=to_evaluate_on(job, source.held_out),
            settings=chosen.settings,
            rng=job.rng,
            public=public_clips(job, clips),
            global_weights=job.model.get_weights() if fleets is None else fleets,
            own_weights=job.own_weights,
        )
        metrics.update(adapt(task))
    made, taught = result_of(config, state, saved, job)
    chosen, verdict = choose(config, saved, job, made, taught=taught)
    metrics.update(verdict.metrics | held_out_metrics(config, job))
    report = Learned(job.work.round_id, metrics, personalised=job.work.fine_tune, kept_own=verdict.kept_own)
    state.to_send(state.learned_path(job.work.round_id), json.dumps(to_json(report)).encode())
    chosen.save(state)


if __name__ == "__main__":
    sys.exit(main())
