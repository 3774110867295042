"""What users of :mod:`studies.gudur.users` would listen with without a fleet: on the same clips."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from edge_client.learning.sgd import Optimiser, accuracy, from_slots, settling, train_epoch
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.bundle.bundle_file import read_bundle
from fleet_protocol.numbers.arrays import Floats, Ints
from fleet_simulator.errors import DivergedError
from fleet_simulator.experiment.sections import UserSection, ZeroShotExperiment
from fleet_simulator.partition.zero_shot_clips import UserClips
from studies.fleets import shared_inputs
from studies.gudur.users import experiment_of
from studies.run import Figures

KINDS = {"alone": (True, False), "public only": (False, True), "own and public": (True, True)}
"""What each kind of model is trained on: own clips, and the public set's labels."""


def without_fleet(kind: str, **chosen: Any) -> Figures:  # noqa: ANN401  (see `experiment_of`)
    """Train every user's model of :func:`studies.gudur.users.experiment_of` without a fleet, as often as in its rounds.

    ``kind`` is of :data:`KINDS`; public clips are those of labels that the user knows from the start. The learning rate
    falls in the last passes of a round; one that diverges is halved. Returns ``learning_rate`` and, of each of
    ``users``, the ``samples`` trained on, and ``own`` and ``strangers``: accuracies in % among its labels after the
    last round, on its held-out clips and on test clips of the labels that it has by then.
    """
    return users_alone(kind, experiment_of(**chosen))


def users_alone(kind: str, experiment: ZeroShotExperiment) -> Figures:
    """Return what :func:`without_fleet` does, of any experiment whose users hold clips out."""
    manifest = read_bundle(experiment.users[0].bundle).manifest
    corpus = shared_inputs().corpus(experiment.data, manifest, experiment.rounds.seed)
    clips = UserClips(experiment, corpus, manifest)
    rate = float(experiment.plan.local.settings["learning_rate"])
    while True:
        try:
            found = [_User(number, experiment, clips, kind, rate).judged() for number in range(len(experiment.users))]
            return {"users": found, "learning_rate": rate}
        except DivergedError:
            rate /= 2


class _User:
    """A user without a fleet; the slots of its model are its labels in their order."""

    def __init__(self, number: int, experiment: ZeroShotExperiment, clips: UserClips, kind: str, rate: float) -> None:
        self._number, self._clips, self._kind, self._rate = number, clips, kind, rate
        self._section: UserSection = experiment.users[number]
        self._rounds, self._local = experiment.rounds, experiment.plan.local.settings
        self._rng = np.random.default_rng([experiment.rounds.seed, number])
        self._labels = self._section.all_labels
        self._heard: set[int] = set()
        self._samples = 0
        self._model = ModelRuntime(read_bundle(self._section.bundle))

    def judged(self) -> dict[str, float]:
        """Train through all rounds; return the accuracies."""
        for round_id in range(1, self._rounds.count + 1):
            for event in self._section.events:
                if event.round == round_id and event.bundle is not None:
                    self._model = ModelRuntime(read_bundle(event.bundle))
            self._train(round_id)
        clips, count = self._clips, self._rounds.count
        own = {label: clips.own_features(rows) for label, rows in clips.held_out(self._number, count).items()}
        there = [label for label in self._labels if clips.stocks[self._number][label].available(count)]
        test = {label: clips.features(clips.test[label]) for label in there}
        return {"own": self._accuracy(own), "strangers": self._accuracy(test), "samples": self._samples}

    def _train(self, round_id: int) -> None:
        x, slots = self._rows(round_id)
        self._heard |= set(slots.tolist())
        targets, mask = from_slots(slots, self._model.manifest.capacity), self._mask()
        epochs, momentum = int(self._local["epochs"]), float(self._local["momentum"])
        for epoch in range(epochs):
            optimiser = Optimiser(settling(self._rate, epoch, epochs), momentum)
            loss = train_epoch(self._model, x, targets, mask, optimiser, self._rng)
        self._samples += epochs * len(x)
        if not np.isfinite(loss):
            raise DivergedError(f"user {self._number + 1}: the loss is {loss}; take a smaller learning rate")

    def _rows(self, round_id: int) -> tuple[Floats, Ints]:
        """Return normalised features and slots of the clips of a round."""
        own, public = KINDS[self._kind]
        features: list[tuple[Any, Ints]] = []
        if own:
            for label, rows in self._clips.of_round(self._number, round_id).items():
                features.append((self._clips.own_features(rows), np.full(len(rows), self._labels.index(label))))
        if public:
            dealt = self._clips.public_set
            for label in self._section.labels:
                rows = np.flatnonzero(dealt.labels == dealt.class_ids.index(label))
                features.append((dealt.features[rows], np.full(len(rows), self._labels.index(label))))
        x, slots = zip(*features, strict=True)
        return self._model.normalise(np.concatenate(x)), np.concatenate(slots).astype(np.int64)

    def _mask(self) -> Floats:
        return np.isin(np.arange(self._model.manifest.capacity), list(self._heard)).astype(np.float32)

    def _accuracy(self, features: Mapping[str, Floats]) -> float:
        """Return the accuracy in %; a clip of a label that the model never learned counts as missed."""
        x = self._model.normalise(np.concatenate(list(features.values())))
        slots = np.repeat([self._labels.index(label) for label in features], [len(rows) for rows in features.values()])
        scores = self._model.predict(x, self._mask())[:, : len(self._labels)]
        return 100 * accuracy(scores, slots, range(len(self._labels)))
