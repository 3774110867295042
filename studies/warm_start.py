"""A fleet that does not start from nothing: the model has learned from a few public speakers before.

So begin the keyword spotters that are sold, and the first hundreds of rounds, in which all methods are alike, need
not be played. The bundle is kept in a folder, for the runs of every method that start from it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from edge_client.learning.sgd import Optimiser, accuracy, from_slots, train_epoch
from fleet_protocol.bundle.bundle_file import read_bundle, write_bundle
from fleet_protocol.ground.atomic_files import write_durably
from fleet_protocol.numbers.arrays import Floats, Ints
from fleet_simulator.experiment.sections import Experiment, ModelSection
from fleet_simulator.partition.splits import hold_out, split
from studies.fleets import shared_inputs, simulated
from studies.run import Call, Figures


def warm_call(
    function: Callable[..., Figures], experiment: Experiment, learning_rate: float, epochs: int, folder: Path
) -> Call:
    """Return a call of one of the two functions below; ``folder`` holds the trained bundles."""
    bundle = experiment.model.bundle
    arguments = {"experiment": experiment, "bundle": bundle, "learning_rate": learning_rate, "epochs": epochs}
    return Call(function, arguments | {"folder": folder})


def from_warm_start(experiment: Experiment, bundle: Path, learning_rate: float, epochs: int, folder: Path) -> Figures:
    """Run an experiment from a model that was trained on its public set.

    The untrained ``bundle`` is named once more so that its content counts in the run's digest. Returns what
    :func:`simulated` returns, and ``start``: the trained model's ``accuracy`` on the test clips, 0..1.
    """
    trained = _warm(experiment, bundle, learning_rate, epochs, folder)
    with tempfile.TemporaryDirectory() as scratch:
        figures = simulated(dataclasses.replace(experiment, model=ModelSection(trained)), Path(scratch) / "run")
    start = judged_start(experiment, bundle, learning_rate, epochs, folder)
    return figures | {"start": {"accuracy": start["strangers"]}}


def judged_start(experiment: Experiment, bundle: Path, learning_rate: float, epochs: int, folder: Path) -> Figures:
    """Return the accuracies, 0..1, of the model that :func:`from_warm_start` begins with, under the same arguments.

    ``strangers`` are on the test clips, ``start`` of ``devices`` on their own held-out clips.
    """
    trained = _warm(experiment, bundle, learning_rate, epochs, folder)
    inputs, seed = shared_inputs(), experiment.rounds.seed
    model, start = inputs.model(trained, "shared"), inputs.bundle(trained)
    corpus = inputs.corpus(experiment.data, start.manifest, seed)
    dealt = split(corpus, experiment)
    own = hold_out(dealt.devices, experiment.fleet.held_out, seed, corpus.windows)
    mask = _mask(start.manifest.capacity, len(corpus.names))
    model.set_weights(start.weights)

    def judged(rows: Ints) -> float:
        scores = model.predict(corpus.features(rows), mask)[:, : len(corpus.names)]
        return accuracy(scores, corpus.labels[rows], range(len(corpus.names)))

    devices = [{"device": number, "start": judged(one.evaluate)} for number, one in enumerate(own)]
    return {"strangers": judged(dealt.test), "devices": devices}


def _warm(experiment: Experiment, bundle: Path, learning_rate: float, epochs: int, folder: Path) -> Path:
    """Return the trained bundle, which is made where it is not there yet."""
    what = f"{experiment.data} {experiment.fleet} {experiment.rounds.seed} {learning_rate} {epochs}"
    name = hashlib.sha256(what.encode() + bundle.read_bytes()).hexdigest()[:32]
    trained = folder / f"{name}.auricle"
    if not trained.is_file():
        write_durably(trained, _trained(experiment, bundle, learning_rate, epochs), 0o644)
    return trained


def _mask(capacity: int, classes: int) -> Floats:
    return (np.arange(capacity) < classes).astype(np.float32)


def _trained(experiment: Experiment, bundle: Path, learning_rate: float, epochs: int) -> bytes:
    """Return the bundle with weights trained on the public set; the rate falls to nothing in the second half."""
    inputs, seed = shared_inputs(), experiment.rounds.seed
    model, untrained = inputs.model(bundle, "shared"), inputs.bundle(bundle)
    corpus = inputs.corpus(experiment.data, untrained.manifest, seed)
    rows = split(corpus, experiment).public
    x, targets = corpus.features(rows), from_slots(corpus.labels[rows], untrained.manifest.capacity)
    mask = _mask(untrained.manifest.capacity, len(corpus.names))
    rng = np.random.default_rng([seed, 9])
    model.set_weights(untrained.weights)
    for epoch in range(epochs):
        rate = learning_rate * min(1.0, 2 * (epochs - epoch) / epochs)
        train_epoch(model, x, targets, mask, Optimiser(rate), rng)
    return write_bundle(read_bundle(bundle).manifest, untrained.graph, model.get_weights())
