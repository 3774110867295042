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
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean

import numpy as np

from aggregator_server.aggregation.contract import Contribution
from aggregator_server.rounds.plan import make_plan
from aggregator_server.schemas import RoundRequest
from benchmarks.command import BenchmarkError, Command, data_folder
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
from fleet_protocol.bundle import Bundle, read_bundle
from fleet_protocol.labels import LabelMap
from fleet_protocol.messages import Choice, ClassAssignment, ClassInfo, Work
from fleet_protocol.public_set import PublicSet
from fleet_protocol.ready_bundles import find_bundle
from fleet_protocol.setting import Value
from fleet_protocol.tensors import Arrays
from fleet_simulator.simulation.aggregator import Aggregator, FleetState, Uploads

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

    device_id: str
    rows: Mapping[str, Ints]
    label_map: LabelMap
    weights: Arrays
    other: bool = False


@dataclass
class Fleet:
    """Devices and aggregator in one process."""

    corpus: Corpus  # all clips
    bundle: Bundle  # of the shared model, untrained
    aggregator: Aggregator  # of the fleet
    devices: list[Device]  # those that take part
    rounds: int = 0  # how many were played

    def __post_init__(self) -> None:
        self._model, self._shared = ModelRuntime(self.bundle), ModelRuntime(self.bundle)
        self._another = ModelRuntime.open(find_bundle(ANOTHER))

    @property
    def public(self) -> PublicSet:
        """The public set, which grows."""
        return self.aggregator.state.public_set

    def play(self) -> None:
        """Play one round with all devices."""
        self.rounds += 1
        work = self.aggregator.work("contribute", self.rounds, self.aggregator.plan)
        own, others = (
            [self._contribute(device, work) for device in self.devices if device.other == other]
            for other in (False, True)
        )
        result, _ = self.aggregator.close(work, Uploads(own, others))
        for device in self.devices:
            mine = tuple(
                ClassAssignment(one.slot, one.class_id)
                for one in result.assignments
                if one.device_id == device.device_id
            )
            work = self.aggregator.work("learn", self.rounds, self.aggregator.plan)
            job = self._job(device, replace(work, assignments=mine))
            job.apply_result(adopt=True)
            device.label_map, device.weights = job.label_map, job.model.get_weights()

    def accuracy(self, test: Mapping[str, Ints], words: tuple[str, ...]) -> float:
        """Return the fleet's accuracy on some words' clips among all of its classes, in %."""
        self._shared.set_weights(self.aggregator.state.weights)
        names = [info.name for info in self.public.classes]
        mask = (np.arange(self.bundle.manifest.capacity) < len(names)).astype(np.float32)
        right = []
        for word in words:
            # A discovered class is the last one, whatever the aggregator calls it.
            wanted = names.index(word) if word in names else len(names) - 1
            found = self._shared.predict(self.corpus.x[0][test[word]], mask).argmax(axis=1)
            right.append(float((found == wanted).mean()))
        return 100 * fmean(right)

    def own_accuracy(self, device: Device, test: Mapping[str, Ints], word: str) -> float:
        """Return a device's own accuracy on a word's clips among all labels that it knows, in %."""
        model = self._runtime(device)
        model.set_weights(device.weights)
        names = [info.name for info in self.public.classes]
        class_id = self.public.class_ids[names.index(word) if word in names else len(names) - 1]
        x = rescaled(self.corpus.x[:, test[word]], self._model, model)[0]
        found = model.predict(x, device.label_map.mask).argmax(axis=1)
        return 100 * float((found == device.label_map.slot_of_class(class_id)).mean())

    def _runtime(self, device: Device) -> ModelRuntime:
        return self._another if device.other else self._model

    def _job(self, device: Device, work: Work) -> WeightSharing | ZeroShot:
        own, state = self._runtime(device), self.aggregator.state
        own.set_weights(device.weights)
        if device.other:
            work, context = self.aggregator.work_for_others(work), RoundContext(state.public_set, state.consensus)
            return ZeroShot(own, device.label_map, work, context, device.device_id)
        self._shared.set_weights(state.weights)
        model = replace(self.bundle, weights=state.weights)
        context = RoundContext(state.public_set, None, model, trained=self.rounds > 1, first=self.rounds == 1)
        method = shared_model_method(work.plan.local.name)
        return WeightSharing(method, own, device.label_map, work, context, device.device_id, self._shared)

    def _contribute(self, device: Device, work: Work) -> Contribution:
        job = self._job(device, work)
        job.take_labels(tuple(device.rows))
        slots = [np.full(len(rows), job.label_map.slot_of(word)) for word, rows in device.rows.items()]
        x = self.corpus.x[:, np.concatenate(list(device.rows.values()))]
        clips = Clips(rescaled(x, self._model, job.model), np.concatenate(slots))
        update, arrays = job.contribute(clips, share_names=False)
        device.label_map = job.label_map
        return Contribution(update, partial(dict, arrays))


def fleet_of(
    corpus: Corpus, words: tuple[str, ...], settings: Mapping[str, Value], seed: int
) -> tuple[Fleet, list[dict[str, Ints]], dict[str, Ints]]:
    """Return a fleet that knows some words, the clips of all words that every device has, and the test clips."""
    bundle = read_bundle(find_bundle("cnn2"))
    rng = np.random.default_rng(seed)
    people = np.array_split(rng.permutation(np.unique(corpus.speakers)), 8)

    def clips_of(speakers: list[int], word: str, count: int) -> Ints:
        there = np.isin(corpus.speakers, np.concatenate([people[one] for one in speakers]))
        return rng.permutation(np.flatnonzero(there & (corpus.slots == LABELS.index(word))))[:count]

    owned = [{WORDS[word]: clips_of([k], WORDS[word], PER_CLASS) for word in have} for k, have in enumerate(HAVE)]
    public = [clips_of([4], word, PUBLIC) for word in words]
    test = {word: clips_of([5, 6, 7], word, TEST) for word in WORDS}
    rows, model = np.concatenate(public), ModelRuntime(bundle)
    classes = tuple(ClassInfo(word, word) for word in words)
    public_set = PublicSet(
        bundle.manifest.feature_settings,
        classes,
        model.denormalise(corpus.x[0][rows]),
        np.repeat(np.arange(len(words)), [len(part) for part in public]),
        np.zeros(len(rows), np.bool_),
    )
    devices = [
        Device(
            f"{1 + k:032x}",
            {word: rows for word, rows in mine.items() if word in words},
            LabelMap(bundle.manifest.capacity),
            bundle.weights,
        )
        for k, mine in enumerate(owned)
    ]
    mean = Choice("weighted_mean", {"clips_cap": 0.0})
    request = RoundRequest("fedavg", settings=dict(settings), aggregation=mean, seed=seed, others=Choice("zero_shot"))
    plan = make_plan(request)
    aggregator = Aggregator("fedavg", plan, FleetState(public_set, bundle.weights), bundle.manifest)
    return Fleet(corpus, bundle, aggregator, devices), owned, test


def trial(corpus: Corpus, settings: Mapping[str, Value], seed: int) -> dict[str, float]:
    """Return accuracies in %: after some rounds, and of old and new words before and after one device brings one."""
    fleet, _, test = fleet_of(corpus, WORDS, settings, seed)
    found = {}
    for number in range(1, ROUNDS + 1):
        fleet.play()
        if number in SHOWN:
            found[f"{number} rounds"] = fleet.accuracy(test, WORDS)
    old = WORDS[:-1]
    fleet, owned, test = fleet_of(corpus, old, settings, seed)
    for _ in range(BEFORE):
        fleet.play()
    found["old before"] = fleet.accuracy(test, old)
    fleet.devices[-1].rows = owned[-1]
    for _ in range(AFTER):
        fleet.play()
    return found | {"old after": fleet.accuracy(test, old), "new": fleet.accuracy(test, WORDS[-1:])}


def trial_with_others(corpus: Corpus, bringer: int, seed: int) -> dict[str, float]:
    """Return accuracies in %, where two devices have another network and one device brings a word."""
    old, new = WORDS[:-1], WORDS[-1]
    fleet, owned, test = fleet_of(corpus, old, {}, seed)
    another = read_bundle(find_bundle(ANOTHER))
    for device in fleet.devices[2:]:
        device.other, device.weights = True, another.weights
        device.label_map = LabelMap(another.manifest.capacity)
    for _ in range(BEFORE):
        fleet.play()
    found = {"old before": fleet.accuracy(test, old)}
    fleet.devices[bringer].rows = {**fleet.devices[bringer].rows, new: owned[-1][new]}
    for _ in range(AFTER):
        fleet.play()
    found |= {"old after": fleet.accuracy(test, old), "new": fleet.accuracy(test, (new,))}
    own = {one.device_id: fleet.own_accuracy(one, test, new) for one in fleet.devices if one.other}
    by_itself = own.pop(fleet.devices[bringer].device_id, None)
    found["new, others without clips"] = fmean(own.values())
    return found if by_itself is None else found | {"new, who brought it": by_itself}


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
        print(f"{name:22s}", "  ".join(f"{key} {value:4.1f}" for key, value in means[name].items()), flush=True)
    return means


if __name__ == "__main__":
    sys.exit(main())
