"""The child process that trains: its memory returns when it ends, and listening goes on meanwhile.

`python -m edge_client.learning.worker CONFIG` reads the work as one line of JSON from its standard input: what the
aggregator asks for, or `{"kind": "teach"}` when the owner taught something. What it makes is in the state folder when
it exits with 0: an upload or a report in the outbox, then the model, each written whole. Its parent keeps the pipe open
for as long as the work is wanted.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import sys
import threading
from pathlib import Path

import numpy as np

from edge_client.augmentation import BackgroundNoise
from edge_client.capture.recordings import Recordings
from edge_client.config import Config, load_config
from edge_client.device_state import DeviceState, SavedModel
from edge_client.durable import write_durably
from edge_client.learning.teach import TEACH, teach
from edge_client.learning.training_data import gather
from edge_client.learning.zero_shot import Fleet, ZeroShot
from edge_client.model_runtime import ModelRuntime
from fleet_protocol.errors import AuricleError
from fleet_protocol.messages import Learned, Work, parse, to_json
from fleet_protocol.public_set import PublicSet, unpack_consensus
from fleet_protocol.tensors import pack


def main() -> int:
    """Do the work that stands on standard input; return the exit status."""
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s", stream=sys.stderr)
    try:
        document = json.loads(sys.stdin.readline())
        work = None if document == TEACH else parse(Work, document)
        threading.Thread(target=_end_with_parent, daemon=True).start()
        config = load_config(Path(sys.argv[1]))
        os.nice(config.training.nice)
        run(config, work)
    except (AuricleError, OSError) as error:
        print(f"auricle-edge: {error}", file=sys.stderr)
        return 1
    return 0


def _end_with_parent() -> None:
    """Stop at once when the daemon is gone: its successor will ask for the same work again."""
    sys.stdin.read()
    os._exit(1)


def run(config: Config, work: Work | None) -> None:
    """Do one piece of work and save what came of it: first what is to be sent, then the model.

    Should power fail in between, the model is as it was, and the same work is done again.

    Args:
        config: the device's.
        work: of the aggregator; None: learn what the owner taught.

    Raises:
        AuricleError: naming what is wrong with the state, the bundle, the recordings or what the aggregator sent.
    """
    state = DeviceState(config.device.state)
    state.lock("training")
    if work is None:
        teach(config, state)
        return
    identity = state.identity()
    saved = state.load_model(config.model.bundle)
    model = ModelRuntime(saved.bundle, config.device.threads)
    job = ZeroShot(model, saved.progress.label_map, work, _fleet(state, work), identity.device_id)
    if work.kind == "contribute":
        _contribute(config, state, saved, job)
    else:
        _learn(config, state, saved, job)


def _fleet(state: DeviceState, work: Work) -> Fleet:
    public_set = PublicSet.unpack(state.blob_path(work.public_set).read_bytes())
    if work.consensus is None:
        return Fleet(public_set, None)
    return Fleet(public_set, unpack_consensus(state.blob_path(work.consensus).read_bytes())[0])


def _contribute(config: Config, state: DeviceState, saved: SavedModel, job: ZeroShot) -> None:
    recordings = config.recordings
    source = Recordings(
        config.clips_folder,
        job.model.manifest.feature_settings,
        per_round=recordings.per_round,
        seed=config.device.seed,
    )
    labels = source.labels()
    job.take_labels(labels)
    slots = {label: job.label_map.slot_of(label) for label in labels}
    noise = None
    if recordings.background is not None:
        noise = BackgroundNoise.load(recordings.background, job.model.manifest.feature_settings.sample_rate_hz)
    copies = int(job.settings["augmented_copies"])
    clips = gather(source, job.work.round_id, slots, job.model, job.rng, copies=copies, noise=noise)
    update, arrays = job.contribute(clips, config.device.share_names)
    update.metrics.update(_held_out(config, job))
    write_durably(state.update_path(job.work.round_id), pack(arrays, to_json(update)))
    progress = dataclasses.replace(saved.progress, label_map=job.label_map, contributed=job.work.round_id)
    # Before the first consensus the device listens with what it trained.
    trained = job.model.get_weights()
    state.save_model(trained, saved.listening if saved.progress.learned else trained, progress)


def _learn(config: Config, state: DeviceState, saved: SavedModel, job: ZeroShot) -> None:
    metrics = job.learn(config.device.learn_discovered)
    metrics.update(_held_out(config, job))
    report = Learned(job.work.round_id, metrics)
    write_durably(state.learned_path(job.work.round_id), json.dumps(to_json(report)).encode())
    progress = dataclasses.replace(saved.progress, label_map=job.label_map, learned=job.work.round_id, taught="")
    state.save_model(saved.bundle.weights, job.model.get_weights(), progress)


def _held_out(config: Config, job: ZeroShot) -> dict[str, float]:
    """Return the accuracy on the held-out clips of labels that the device knows."""
    folder = config.recordings.evaluation
    if folder is None:
        return {}
    source = Recordings(folder, job.model.manifest.feature_settings)
    names = [label for label in source.labels() if label in job.label_map.names]
    slots = {label: job.label_map.slot_of(label) for label in names}
    clips = gather(source, 0, slots, job.model, np.random.default_rng(0), copies=0, noise=None)
    return job.evaluate(clips, list(slots.values()))


if __name__ == "__main__":
    sys.exit(main())
