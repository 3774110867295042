"""Devices that lack classes: what keeps a fleet from forgetting, and what becomes of a class that one device brings.

Four devices with three of eight words each, 15 clips for a class, share a cnn2 by FedAvg; 20 rounds of 8 passes. Then a
fleet trains 12 rounds with seven classes, and for 12 more one of its devices has clips of the eighth, which the
aggregator has to recognise as a new class. Devices and aggregator are the product's own code. Speakers of the devices,
of the public set and of the test clips differ.

With ``--others`` the last two devices have another network and take part by scores: one of either kind brings the
eighth word, and it is asked what the other kind makes of it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from aggregator_server.aggregation.contract import Contribution, RoundResult
from benchmarks.command import BenchmarkError, Command, data_folder, said
from edge_client.audio.recordings import Recordings, speaker_of
from edge_client.features.augmentation import augment
from edge_client.features.front_end import open_front_end
from edge_client.learning.methods.local_method import shared_model_method
from edge_client.learning.rounds.job import RoundContext
from edge_client.learning.rounds.score_sharing import ZeroShot
from edge_client.learning.rounds.weight_sharing import WeightSharing
from edge_client.learning.training_data import Clips, rescaled
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.arrays import Ints
from fleet_protocol.bundle import read_bundle
from fleet_protocol.labels import LabelMap
from fleet_protocol.messages import ClassAssignment, ClassInfo, Work
from fleet_protocol.public_set import PublicSet
from fleet_protocol.ready_bundles import find_bundle
from fleet_protocol.setting import Value
from fleet_protocol.tensors import Arrays
from fleet_simulator.experiment.sections import DataSection, Experiment, FleetSection, ModelSection, RoundsSection
from fleet_simulator.runs.progress import Progress
from fleet_simulator.simulation.aggregator import FleetState, Uploads
from fleet_simulator.simulation.federation import Contributed, Devices, Federation
from fleet_simulator.simulation.tasks import device_id
from studies.fleets import MEAN

LABELS = ("down", "go", "left", "no", "off", "on", "right", "stop", "up", "yes")
COPIES = 3  # augmented ones of each clip
WORDS = LABELS[:8]
HAVE = ((0, 1, 2), (2, 3, 4), (4, 5, 6), (6, 7, 0))  # the words of each device
PER_CLASS, PUBLIC, TEST = 15, 10, 30  # clips of a word on a device, in the public set, to test with
ROUNDS, BEFORE, AFTER = 20, 12, 12
ANOTHER = "ann3"  # network of the devices that take part by scores; chosen with seed 3
SHOWN = (3, 10, 20)
SEEDS = (1, 2)
OPINION: dict[str, Value] = {"rehearsal_by": "opinion"}
SETTINGS: Mapping[str, dict[str, Value]] = {
    "neither": {"rehearsal": 0.0, "restrict": False},
    "own outputs alone": {"rehearsal": 0.0},
    "rehearsal by opinion": OPINION | {"restrict": False},
    "rehearsal by labels": {"restrict": False},
    "both, by opinion": OPINION,
    "both, by labels": {},
}


class Corpus:
    """All clips of the ten words, with their features.

    Attributes:
        x: Normalised features of every clip and its copies, float32 [1 + copies, clips, frames, coefficients].
        slots: Every clip's word, int64 [clips].
        speakers: Who speaks, [clips].
    """

    def __init__(self, folder: Path, model: ModelRuntime) -> None:
        """Compute the features once; raise BenchmarkError where there are no recordings."""
        settings = model.manifest.feature_settings
        recordings, front_end, rng = Recordings(folder, settings), open_front_end(settings), np.random.default_rng(0)
        paths = [path for label in LABELS for path in recordings.clips(label)]
        if not paths:
            raise BenchmarkError(f"{folder} holds no recordings of {', '.join(LABELS)}; set AURICLE_DATA")
        clips = recordings.load(paths)
        variants = [clips, *(augment(clips, settings.sample_rate_hz, rng, None) for _ in range(COPIES))]
        self.x = np.stack([model.normalise(front_end(variant)) for variant in variants])
        self.slots = np.array([LABELS.index(path.parent.name) for path in paths])
        self.speakers = np.array([speaker_of(path) for path in paths])


@dataclass
class Device:
    """What a device keeps from round to round; ``rows`` are its clips of every word, ``other`` says it is no cnn2."""

    rows: Mapping[str, Ints]
    label_map: LabelMap
    weights: Arrays
    other: bool = False


class Fleet(Devices):
    """Devices that know some words at first, in the simulator's loop of rounds; they are numbered from 1.

    Attributes:
        devices: Those that take part.
        owned: Clips of all words that every device could have.
        test: Clips to test with, by word.
    """

    def __init__(self, corpus: Corpus, words: tuple[str, ...], settings: Mapping[str, Value], seed: int) -> None:
        """Deal the clips."""
        path = find_bundle("cnn2")
        self._corpus, self._bundle = corpus, read_bundle(path)
        self._model, self._shared = ModelRuntime(self._bundle), ModelRuntime(self._bundle)
        self._another = ModelRuntime.open(find_bundle(ANOTHER))
        rng = np.random.default_rng(seed)
        people = np.array_split(rng.permutation(np.unique(corpus.speakers)), 8)

        def clips_of(speakers: list[int], word: str, count: int) -> Ints:
            there = np.isin(corpus.speakers, np.concatenate([people[one] for one in speakers]))
            return rng.permutation(np.flatnonzero(there & (corpus.slots == LABELS.index(word))))[:count]

        self.owned = [
            {WORDS[word]: clips_of([k], WORDS[word], PER_CLASS) for word in have} for k, have in enumerate(HAVE)
        ]
        public = [clips_of([4], word, PUBLIC) for word in words]
        self.test = {word: clips_of([5, 6, 7], word, TEST) for word in WORDS}
        self.manifest = self._bundle.manifest
        capacity, rows = self.manifest.capacity, np.concatenate(public)
        public_set = PublicSet(
            self.manifest.feature_settings,
            tuple(ClassInfo(word, word) for word in words),
            self._model.denormalise(corpus.x[0][rows]),
            np.repeat(np.arange(len(words)), [len(part) for part in public]),
            np.zeros(len(rows), np.bool_),
        )
        self.devices = [
            Device(
                {word: rows for word, rows in mine.items() if word in words}, LabelMap(capacity), self._bundle.weights
            )
            for mine in self.owned
        ]
        self.first = FleetState(public_set, self._bundle.weights)
        self.clips = np.array([0, *(sum(map(len, device.rows.values())) for device in self.devices)])
        rounds = RoundsSection(
            count=1, strategy="fedavg", seed=seed, local=dict(settings), aggregation=MEAN, others={"name": "zero_shot"}
        )
        data, fleet = DataSection("synthetic"), FleetSection(devices=len(self.devices))
        self._federation = Federation(Experiment(data, fleet, ModelSection(path), rounds), self)

    def play(self, rounds: int) -> None:
        """Play some rounds with all devices."""
        for _ in range(rounds):
            self._federation.play(len(self.state.rounds) + 1, Progress())

    def contribute(self, work: Work, for_others: Work, devices: Sequence[int], _progress: Progress) -> Contributed:
        """Have devices train, each its own kind of model."""
        sent: tuple[list[Contribution], list[Contribution]] = ([], [])
        for number in devices:
            device = self.devices[number - 1]
            job = self._job(number, for_others if device.other else work)
            job.take_labels(tuple(device.rows))
            slots = [np.full(len(rows), job.label_map.slot_of(word)) for word, rows in device.rows.items()]
            x = self._corpus.x[:, np.concatenate(list(device.rows.values()))]
            clips = Clips(rescaled(x, self._model, job.model), np.concatenate(slots))
            update, arrays = job.contribute(clips, share_names=False)
            device.label_map = job.label_map
            sent[device.other].append(Contribution(update, partial(dict, arrays)))
        return Contributed(Uploads(*sent), ())

    def learn(self, work: Work, for_others: Work, result: RoundResult, devices: Sequence[int]) -> dict[str, Any]:
        """Have devices take over what the round made."""
        for number in devices:
            device = self.devices[number - 1]
            mine = (ClassAssignment(a.slot, a.class_id) for a in result.assignments if a.device_id == device_id(number))
            job = self._job(number, replace(for_others if device.other else work, assignments=tuple(mine)))
            job.apply_result(adopt=True)
            device.label_map, device.weights = job.label_map, job.model.get_weights()
        return {}

    def accuracy(self, words: tuple[str, ...]) -> float:
        """Return the fleet's accuracy on some words' clips among all of its classes, in %."""
        state = self.state.fleet
        self._shared.set_weights(state.weights)
        mask = (np.arange(self._bundle.manifest.capacity) < len(state.public_set.classes)).astype(np.float32)
        found = {word: self._shared.predict(self._corpus.x[0][self.test[word]], mask) for word in words}
        return 100 * fmean(float((found[word].argmax(axis=1) == self._place(word)).mean()) for word in words)

    def own_accuracy(self, device: Device, word: str) -> float:
        """Return a device's own accuracy on a word's clips among all labels that it knows, in %."""
        model = self._another if device.other else self._model
        model.set_weights(device.weights)
        x = rescaled(self._corpus.x[:, self.test[word]], self._model, model)[0]
        found = model.predict(x, device.label_map.mask).argmax(axis=1)
        class_id = self.state.fleet.public_set.class_ids[self._place(word)]
        return 100 * float((found == device.label_map.slot_of_class(class_id)).mean())

    def _place(self, word: str) -> int:
        """Return a word's place among the classes; a discovered one is the last, whatever the aggregator calls it."""
        names = [info.name for info in self.state.fleet.public_set.classes]
        return names.index(word) if word in names else len(names) - 1

    def _job(self, number: int, work: Work) -> WeightSharing | ZeroShot:
        device, state = self.devices[number - 1], self.state.fleet
        own = self._another if device.other else self._model
        own.set_weights(device.weights)
        if device.other:
            context = RoundContext(state.public_set, state.consensus)
            return ZeroShot(own, device.label_map, work, context, device_id(number))
        self._shared.set_weights(state.weights)
        model, first = replace(self._bundle, weights=state.weights), work.round_id == 1
        context = RoundContext(state.public_set, None, model, trained=not first, first=first)
        method = shared_model_method(work.plan.local.name)
        return WeightSharing(method, own, device.label_map, work, context, device_id(number), self._shared)


def trial(corpus: Corpus, settings: Mapping[str, Value], seed: int) -> dict[str, float]:
    """Return accuracies in %: after some rounds, and of old and new words before and after one device brings one."""
    fleet, found = Fleet(corpus, WORDS, settings, seed), {}
    for number in range(1, ROUNDS + 1):
        fleet.play(1)
        if number in SHOWN:
            found[f"{number} rounds"] = fleet.accuracy(WORDS)
    old = WORDS[:-1]
    fleet = Fleet(corpus, old, settings, seed)
    fleet.play(BEFORE)
    found["old before"] = fleet.accuracy(old)
    fleet.devices[-1].rows = fleet.owned[-1]
    fleet.play(AFTER)
    return found | {"old after": fleet.accuracy(old), "new": fleet.accuracy(WORDS[-1:])}


def trial_with_others(corpus: Corpus, bringer: int, seed: int) -> dict[str, float]:
    """Return accuracies in %, where two devices have another network and one device brings a word."""
    old, new = WORDS[:-1], WORDS[-1]
    fleet, another = Fleet(corpus, old, {}, seed), read_bundle(find_bundle(ANOTHER))
    for device in fleet.devices[2:]:
        device.other, device.weights = True, another.weights
        device.label_map = LabelMap(another.manifest.capacity)
    fleet.play(BEFORE)
    found = {"old before": fleet.accuracy(old)}
    who = fleet.devices[bringer]
    who.rows = {**who.rows, new: fleet.owned[-1][new]}
    fleet.play(AFTER)
    found |= {"old after": fleet.accuracy(old), "new": fleet.accuracy((new,))}
    others = [one for one in fleet.devices if one.other and one is not who]
    found["new, others without clips"] = fmean(fleet.own_accuracy(one, new) for one in others)
    return found | ({"new, who brought it": fleet.own_accuracy(who, new)} if who.other else {})


def main() -> int:
    """Run the benchmark."""
    parser = Command("benchmarks.missing_classes", __doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS), help="deals of the clips (1 2)")
    parser.add_argument("--others", action="store_true", help="with devices of two networks")
    return parser.run(work)


def work(options: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Print a line for each setting; return the means over the seeds."""
    corpus = Corpus(data_folder() / "gsc_v2_test", ModelRuntime.open(find_bundle("cnn2")))
    trials: dict[str, Callable[[int], dict[str, float]]] = {
        name: partial(trial, corpus, settings) for name, settings in SETTINGS.items()
    }
    if options.others:
        bringers = {"weights": 1, "scores": len(HAVE) - 1}
        trials = {f"brought by {kind}": partial(trial_with_others, corpus, one) for kind, one in bringers.items()}
    means = {}
    for name, run in trials.items():
        rows = [run(seed) for seed in options.seeds]
        means[name] = {key: fmean(row[key] for row in rows) for key in rows[0]}
        said({"trial": name} | means[name])
    return means


if __name__ == "__main__":
    sys.exit(main())
