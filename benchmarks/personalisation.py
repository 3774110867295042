"""Devices of unequal data: what dynamic selection saves, and what personal models gain (Xu et al. 2025).

Ten devices with 40, 160 or 640 Speech Commands clips of speakers of their own (five, three, two devices) share a cnn2
by FedAvg. Of every device's clips 20 % decide which model it keeps and other 20 % judge what it kept; the shared model
is judged on all other speakers. Selection, grouping, fine-tuning and the choice are the product's own code.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from aggregator_server.selection.contract import Candidate, History
from aggregator_server.selection.draw import select
from aggregator_server.strategies.plan_methods import complete
from benchmarks.bundles import BenchmarkError, data_folder
from edge_client.audio.recordings import Recordings, speaker_of
from edge_client.features.augmentation import augment
from edge_client.features.front_end import open_front_end
from edge_client.learning.personalisations.group_balanced import schedule
from edge_client.learning.personalisations.personalisation import PersonalTask, fine_tuned
from edge_client.learning.sgd import Optimiser, train_epoch
from edge_client.learning.targets import from_slots
from edge_client.learning.training_data import Clips, held_out_accuracy
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.arrays import Ints
from fleet_protocol.labels import LabelMap
from fleet_protocol.messages import Choice
from fleet_protocol.ready_bundles import find_bundle
from fleet_protocol.setting import Value
from fleet_protocol.tensors import Arrays

LABELS = ("down", "go", "left", "no", "off", "on", "right", "stop", "up", "yes")
CLIPS = (40,) * 5 + (160,) * 3 + (640,) * 2
SHARE = 0.2
COPIES = 3
ROUNDS, EPOCHS, RATE = 60, 2, 0.02
SELECTIONS = {
    "uniform": Choice("uniform", {"fraction": 0.3}),
    "size_proportional": Choice("size_proportional", {"fraction": 0.3}),
    "dynamic, R = 30": Choice("dynamic", {"fraction": 0.3, "switch_round": 30}),
    "dynamic, R from the loss": Choice("dynamic", {"fraction": 0.3}),
}
PERSONAL: dict[str, dict[str, Value] | None] = {
    "local": None,
    "group_balanced": {},
    "group_balanced, 5 rounds each": {"least_rounds": 5},
}
PLAIN: dict[str, Value] = {"labels": False, "learning_rate": 0.005}  # as published: on own clips alone


@dataclass(frozen=True)
class Device:
    """One device's clips: to train on, to choose its model by, and to judge the choice by."""

    train: Clips
    choose: Clips
    judge: Clips


class Corpus:
    """All clips of the ten words, with their features."""

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

    def clips(self, rows: Ints) -> Clips:
        """Return some of them."""
        return Clips(self.x[:, rows], self.slots[rows])

    def deal(self, rng: np.random.Generator) -> tuple[list[Device], Clips]:
        """Give every device speakers of its own; return the devices, and the clips of the speakers that are left."""
        speakers = iter(rng.permutation(np.unique(self.speakers)))
        devices = []
        for count in CLIPS:
            rows: list[int] = []
            while len(rows) < count:
                rows += np.flatnonzero(self.speakers == next(speakers)).tolist()
            order = rng.permutation(rows)
            edge = round(SHARE * len(order))
            parts = (order[2 * edge :], order[:edge], order[edge : 2 * edge])
            devices.append(Device(*(self.clips(part) for part in parts)))
        return devices, self.clips(np.flatnonzero(np.isin(self.speakers, list(speakers))))


class Fleet:
    """One deal of the clips, trained by FedAvg."""

    def __init__(self, corpus: Corpus, model: ModelRuntime, start: Arrays, seed: int) -> None:
        """Deal; ``start`` are the bundle's own weights."""
        self.devices, self.others = corpus.deal(np.random.default_rng(seed))
        self.model, self.start, self.seed = model, start, seed
        self.sizes = [len(device.train.slots) for device in self.devices]
        self.labels = LabelMap(model.manifest.capacity)
        for label in LABELS:
            self.labels = self.labels.add(label)

    def accuracy(self, weights: Arrays, clips: Clips) -> float:
        """Return it in %."""
        self.model.set_weights(weights)
        return 100 * held_out_accuracy(self.model, self.labels.mask, clips, range(len(LABELS)))

    def round(self, weights: Arrays, members: Sequence[int], seed: Sequence[int]) -> tuple[Arrays, float]:
        """Let some devices train; return the mean weights and the median loss."""
        trained, losses = [], []
        for index in members:
            rng, clips = np.random.default_rng([self.seed, *seed, index]), self.devices[index].train
            self.model.set_weights(weights)
            targets = from_slots(clips.slots, self.labels.capacity)
            for _ in range(EPOCHS):
                loss = train_epoch(self.model, clips.draw(rng), targets, self.labels.mask, Optimiser(RATE), rng)
            trained.append(self.model.get_weights())
            losses.append(loss)
        shares = np.array([self.sizes[index] for index in members]) / sum(self.sizes[index] for index in members)
        mean = {
            name: np.tensordot(shares, np.stack([one[name] for one in trained]), 1).astype(np.float32)
            for name in weights
        }
        return mean, float(np.median(losses))

    def train(self, choice: Choice) -> tuple[Arrays, dict[str, float]]:
        """Run the rounds; return the weights, and the accuracy of the last five with the clips trained on."""
        candidates = [Candidate(str(index), size) for index, size in enumerate(self.sizes)]
        wanted, weights, trained = complete("selection", choice), self.start, 0
        losses: list[float] = []
        accuracies: list[float] = []
        for number in range(ROUNDS):
            drawn = select(candidates, wanted, History(number, tuple(losses)), (self.seed, number))
            members = [int(one) for one in drawn]
            weights, loss = self.round(weights, members, [1, number])
            losses.append(loss)
            accuracies.append(self.accuracy(weights, self.others))
            trained += EPOCHS * sum(self.sizes[index] for index in members)
        return weights, {"accuracy": float(np.mean(accuracies[-5:])), "clips_trained": trained}

    def personal(self, weights: Arrays, groups: Mapping[str, Value] | None) -> list[dict[str, float]]:
        """Personalise for every device: groups' rounds first, unless None; return what each has of it, in %."""
        starts = [weights] * len(self.devices)
        settings = complete("personalisation", Choice("group_balanced", PLAIN | dict(groups or {}))).settings
        if groups is not None:
            planned = schedule({str(index): size for index, size in enumerate(self.sizes)}, settings)
            for number, (members, rounds) in enumerate(zip(planned.groups, planned.rounds, strict=True)):
                of_group = weights
                for step in range(rounds):
                    of_group, _ = self.round(of_group, [int(one) for one in members], [2, number, step])
                for one in members:
                    starts[int(one)] = of_group
        return [self._fine_tuned(index, starts[index], weights, settings) for index in range(len(self.devices))]

    def _fine_tuned(
        self, index: int, start: Arrays, weights: Arrays, settings: Mapping[str, Value]
    ) -> dict[str, float]:
        device, rng = self.devices[index], np.random.default_rng([self.seed, 3, index])
        before = self.accuracy(weights, device.judge)
        self.model.set_weights(start)
        task = PersonalTask(
            model=self.model,
            label_map=self.labels,
            clips=device.train,
            held_out=device.choose,
            settings=settings,
            rng=rng,
            global_weights=weights,
        )
        found = fine_tuned(task)
        kept = self.accuracy(self.model.get_weights(), device.judge)
        return {"clips": CLIPS[index], "global": before, "personal": kept, "kept": found["kept"]}


def mean_of(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean of every figure."""
    return {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=8, help="deals of the clips (8)")
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    options = parser.parse_args()
    model = ModelRuntime.open(find_bundle("cnn2"))
    start = model.get_weights()
    corpus = Corpus(data_folder() / "gsc_v2_test", model)
    selections: dict[str, list[dict[str, float]]] = {name: [] for name in SELECTIONS}
    personal: dict[str, list[dict[str, float]]] = {name: [] for name in PERSONAL}
    for seed in range(options.trials):
        fleet = Fleet(corpus, model, start, seed)
        for name, choice in SELECTIONS.items():
            weights, figures = fleet.train(choice)
            selections[name].append(figures)
        for name, groups in PERSONAL.items():
            personal[name] += fleet.personal(weights, groups)
    tables: dict[str, dict[str, Any]] = {
        "selection": {name: mean_of(rows) for name, rows in selections.items()},
        "personalisation": {
            name: {str(size): mean_of([row for row in rows if row["clips"] == size]) for size in sorted(set(CLIPS))}
            for name, rows in personal.items()
        },
    }
    for name, figures in tables["selection"].items():
        print(f"{name:26s} accuracy {figures['accuracy']:5.1f} %  {figures['clips_trained']:8.0f} clips trained on")
    for name, by_size in tables["personalisation"].items():
        for size, figures in by_size.items():
            print(
                f"{name:30s} {size:>4s} clips: global {figures['global']:5.1f} %  personal {figures['personal']:5.1f} %"
                f"  kept by {100 * figures['kept']:3.0f} %"
            )
    if options.json:
        print(json.dumps(tables))


if __name__ == "__main__":
    main()
