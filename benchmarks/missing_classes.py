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
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import fmean

import numpy as np

from aggregator_server.aggregation.contract import Contribution, RoundInputs, SharedModel
from aggregator_server.rounds.others import plan_for_others
from aggregator_server.rounds.plan import make_plan
from aggregator_server.schemas import RoundRequest
from aggregator_server.strategies.others import aggregate
from aggregator_server.strategies.registry import strategy
from benchmarks.bundles import data_folder
from benchmarks.personalisation import LABELS, Corpus
from edge_client.learning.methods.registry import shared_model_method
from edge_client.learning.rounds.job import RoundContext
from edge_client.learning.rounds.score_sharing import ZeroShot
from edge_client.learning.rounds.weight_sharing import WeightSharing
from edge_client.learning.training_data import Clips, rescaled
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.arrays import Floats, Ints
from fleet_protocol.bundle import Bundle, read_bundle
from fleet_protocol.labels import LabelMap
from fleet_protocol.messages import Choice, ClassAssignment, ClassInfo, RoundPlan, Work, WorkKind
from fleet_protocol.public_set import PublicSet
from fleet_protocol.ready_bundles import find_bundle
from fleet_protocol.setting import Value
from fleet_protocol.tensors import Arrays

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
    """Devices and aggregator in one process.

    Attributes:
        corpus: all clips.
        bundle: of the shared model, untrained.
        plan: of every round.
        devices: those that take part.
        public: the public set, which grows.
        weights: the fleet's.
        rounds: how many were played.
        consensus: of the devices with another network; None before they scored anything.
    """

    corpus: Corpus
    bundle: Bundle
    plan: RoundPlan
    devices: list[Device]
    public: PublicSet
    weights: Arrays
    rounds: int = 0
    consensus: Floats | None = None
    assigned: dict[tuple[str, int], str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._model, self._shared = ModelRuntime(self.bundle), ModelRuntime(self.bundle)
        self._another = ModelRuntime.open(find_bundle(ANOTHER))

    def play(self) -> None:
        """Play one round with all devices."""
        self.rounds += 1
        nothing = np.zeros((len(self.public.labels), len(self.public.classes)), np.float32)
        result = aggregate(
            strategy("fedavg"),
            RoundInputs(
                round_id=self.rounds,
                plan=self.plan,
                public_set=self.public,
                consensus=nothing if self.consensus is None else self.consensus,
                contributions=tuple(self._contribute(device) for device in self.devices if not device.other),
                others=tuple(self._contribute(device) for device in self.devices if device.other),
                assigned=self.assigned,
                has_consensus=self.consensus is not None,
                model=SharedModel(self.bundle.manifest, self.weights, {}),
            ),
        )
        assert result.weights is not None
        self.weights, self.public, self.consensus = result.weights, result.public_set, result.consensus
        self.assigned |= {(one.device_id, one.slot): one.class_id for one in result.assignments}
        for device in self.devices:
            mine = tuple(
                ClassAssignment(one.slot, one.class_id)
                for one in result.assignments
                if one.device_id == device.device_id
            )
            job = self._job(device, "learn", mine)
            job.apply_result(adopt=True)
            device.label_map, device.weights = job.label_map, job.model.get_weights()

    def accuracy(self, test: Mapping[str, Ints], words: tuple[str, ...]) -> float:
        """Return the fleet's accuracy on some words' clips among all of its classes, in %."""
        self._shared.set_weights(self.weights)
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

    def _job(
        self, device: Device, kind: WorkKind, assignments: tuple[ClassAssignment, ...] = ()
    ) -> WeightSharing | ZeroShot:
        work = Work(
            kind=kind,
            round_id=self.rounds,
            plan=self.plan,
            public_set="0" * 64,
            consensus=None,
            classes=self.public.classes,
            assignments=assignments,
        )
        own = self._runtime(device)
        own.set_weights(device.weights)
        if device.other and self.plan.others is not None:
            work = replace(work, plan=plan_for_others(self.plan, self.plan.others))
            return ZeroShot(own, device.label_map, work, RoundContext(self.public, self.consensus), device.device_id)
        self._shared.set_weights(self.weights)
        model = replace(self.bundle, weights=self.weights)
        context = RoundContext(self.public, None, model, trained=self.rounds > 1, first=self.rounds == 1)
        method = shared_model_method(self.plan.local.name)
        return WeightSharing(method, own, device.label_map, work, context, device.device_id, self._shared)

    def _contribute(self, device: Device) -> Contribution:
        job = self._job(device, "contribute")
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
    return Fleet(corpus, bundle, plan, devices, public_set, bundle.weights), owned, test


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
    """Return accuracies in %, where two devices have another network and one device brings a word.

    Args:
        corpus: all clips.
        bringer: which device brings the word.
        seed: deal of the clips.
    """
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


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS), help="deals of the clips (1 2)")
    parser.add_argument("--others", action="store_true", help="with devices of two networks")
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    options = parser.parse_args()
    data = data_folder()
    corpus = Corpus(data / "gsc_v2_test", ModelRuntime.open(find_bundle("cnn2")))
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
    if options.json:
        print(json.dumps(means))


if __name__ == "__main__":
    main()
