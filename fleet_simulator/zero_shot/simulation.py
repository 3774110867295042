"""Zero-shot federated learning with new classes among virtual users (Gudur & Perepu 2021, algorithm 1).

What devices and aggregator do is their own code; here stands only who is asked what, and what happens to the users.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np

from aggregator_server.aggregation.contract import Contribution, RoundInputs, RoundResult, UploadTerms
from aggregator_server.aggregation.plausible import FeatureRange
from aggregator_server.strategies.registry import strategy
from edge_client.learning.rounds.job import RoundContext
from fleet_protocol.bundle import read_bundle
from fleet_protocol.messages import ClassAssignment, Work, WorkKind
from fleet_protocol.public_set import pack_consensus
from fleet_simulator.experiment.faults import SCORE_ATTACKS, accepted, attacking_devices, attacks, misjudged, poisoned
from fleet_simulator.experiment.zero_shot_sections import ZeroShotExperiment
from fleet_simulator.partition.zero_shot_clips import UserClips
from fleet_simulator.runs.about import about
from fleet_simulator.runs.inputs import Inputs
from fleet_simulator.runs.loop import available_cores, simulate
from fleet_simulator.runs.progress import Progress
from fleet_simulator.zero_shot.state import FleetState, load_fleet, save_fleet
from fleet_simulator.zero_shot.virtual_user import Memory, VirtualUser, word_of


def run_zero_shot(
    experiment: ZeroShotExperiment, folder: Path, workers: int | None, progress: Progress, inputs: Inputs | None = None
) -> list[dict[str, Any]]:
    """Run an experiment, or what is left of it; the result is the same whatever the number of workers.

    Args:
        experiment: what to do.
        folder: of the run; one that a killed run left is gone on with.
        workers: users that train at once, in threads (0: one); None: one for each core.
        progress: shows how it goes.
        inputs: what runs of this process share; None: nothing.

    Returns:
        An entry for each round; ``result.json`` holds the same, docs/simulator-zero-shot.md says what stands in it.

    Raises:
        SimulationError: the data, the run's folder or a training is at fault.
        ProtocolError: a bundle cannot be used.
    """

    @contextmanager
    def opened() -> Iterator[ZeroShotSimulation]:
        with ThreadPoolExecutor(available_cores() if workers is None else max(1, workers)) as threads:
            yield ZeroShotSimulation(experiment, folder, inputs or Inputs(), threads)

    told = about(experiment)
    rounds: list[dict[str, Any]] = simulate(folder, experiment.rounds.count, progress, opened, told)[0]["rounds"]
    return rounds


class ZeroShotSimulation:
    """A run: its users, the fleet's state, and how a round is played."""

    def __init__(
        self, experiment: ZeroShotExperiment, folder: Path, inputs: Inputs, threads: ThreadPoolExecutor
    ) -> None:
        """Read the clips, and the state where there is one; ``threads`` train users at the same time."""
        self.experiment = experiment
        self.folder = folder
        self.plan = experiment.rounds.plan
        self.strategy = strategy(experiment.rounds.strategy)
        self.digest = experiment.digest
        manifest = read_bundle(experiment.users[0].bundle).manifest
        corpus = inputs.corpus(experiment.data, manifest, experiment.rounds.seed)
        clips = UserClips(experiment, corpus, manifest)
        found = load_fleet(folder, clips.public_set, self.digest)
        self.state = FleetState(clips.public_set) if found is None else found[0]
        memories = [Memory.first(user.bundle) for user in experiment.users] if found is None else found[1]
        self.users = [
            VirtualUser(number, section, clips, memory)
            for number, (section, memory) in enumerate(zip(experiment.users, memories, strict=True))
        ]
        self._clips = clips
        self._threads = threads
        self._attackers = attacking_devices(experiment.faults, len(self.users), experiment.rounds.seed)

    @property
    def rounds(self) -> list[dict[str, Any]]:
        """One JSON-ready entry for each finished round."""
        return self.state.rounds

    def result(self) -> dict[str, Any]:
        """Return the rounds."""
        return {"rounds": self.rounds}

    def play(self, round_id: int, progress: Progress) -> dict[str, Any]:
        """Play one round and put the state after it on the disk; return the round's entry."""
        rounds = self.experiment.rounds
        due = bool(rounds.evaluate_every) and (round_id % rounds.evaluate_every == 0 or round_id == rounds.count)
        for user in self.users:
            user.begin(round_id)
        work, context = self._work("contribute", round_id), RoundContext(self.state.public_set, self.state.consensus)
        new = {label for user in self.users for label in user.unlinked(round_id)}
        count = len(new) or None if self.experiment.zero_shot.tell_count else None
        done = _counted(len(self.users), progress)
        uploads = list(self._threads.map(lambda user: done(user.contribute(work, context, evaluated=due)), self.users))
        uploads = [self._sent(user, upload, round_id) for user, upload in zip(self.users, uploads, strict=True)]
        result = self._aggregate(uploads, round_id, count)
        reports = self._take_up(result, uploads)
        applied = list(self._threads.map(lambda user: self._apply_result(user, result, round_id, due), self.users))
        entry = self._entry(round_id, uploads, applied, reports)
        self.state.rounds.append(entry)
        save_fleet(self.folder, self.state, [user.memory for user in self.users], self.digest)
        return entry

    def _work(self, kind: WorkKind, round_id: int, assignments: Sequence[ClassAssignment] = ()) -> Work:
        state, consensus = self.state, None
        if state.consensus is not None:
            consensus = hashlib.sha256(pack_consensus(state.consensus, state.public_set.class_ids)).hexdigest()
        return Work(
            kind=kind,
            round_id=round_id,
            plan=self.plan,
            public_set=state.digest,
            consensus=consensus,
            classes=state.public_set.classes,
            assignments=tuple(assignments),
        )

    def _sent(self, user: VirtualUser, upload: Contribution, round_id: int) -> Contribution:
        """Return what the user sends: an attacker's new sounds, or scores, are not what it heard."""
        faults = self.experiment.faults
        if user.number not in self._attackers or not attacks(faults, round_id):
            return upload
        if faults.attack in SCORE_ATTACKS:
            arrays = upload.read()
            changed = arrays | {"scores": misjudged(faults, arrays["scores"])}
            return Contribution(upload.update, lambda: changed)
        if not upload.update.reports:
            return upload
        rng = np.random.default_rng([self.plan.seed, round_id, 1, user.number])
        arrays = poisoned(faults, upload.read(), len(upload.update.known), rng)
        return Contribution(upload.update, lambda: arrays)

    def _aggregate(self, uploads: Sequence[Contribution], round_id: int, count: int | None) -> RoundResult:
        state = self.state
        public_set, consensus = state.public_set, state.consensus
        terms = UploadTerms(
            state.digest,
            len(public_set.labels),
            public_set.class_ids,
            public_set.settings,
            feature_range=partial(FeatureRange.of, public_set.features[~public_set.synthetic]),
        )
        taken = accepted(self.strategy, terms, uploads, attackers=bool(self._attackers))
        before = np.zeros((len(public_set.labels), len(public_set.classes)), np.float32)
        return self.strategy.aggregate(
            RoundInputs(
                round_id=round_id,
                plan=self.plan,
                public_set=public_set,
                consensus=before if consensus is None else consensus,
                contributions=tuple(taken),
                new_classes=count,
                assigned=state.assigned,
                has_consensus=consensus is not None,
            )
        )

    def _take_up(self, result: RoundResult, uploads: Sequence[Contribution]) -> list[dict[str, Any]]:
        """Make the result the fleet's; return what was reported, and which class it got."""
        state = self.state
        state.public_set, state.consensus = result.public_set, result.consensus
        given = {(item.device_id, item.slot): item.class_id for item in result.assignments}
        state.assigned |= given
        reports = [
            {
                "user": user.number + 1,
                "label": user.memory.label_map.names[report.slot],
                "class_id": given.get((user.device_id, report.slot)),
            }
            for user, upload in zip(self.users, uploads, strict=True)
            for report in upload.update.reports
        ]
        for class_id in {item["class_id"] for item in reports} - state.words.keys() - {None}:
            state.words[str(class_id)] = word_of([str(i["label"]) for i in reports if i["class_id"] == class_id])
        return reports

    def _apply_result(self, user: VirtualUser, result: RoundResult, round_id: int, due: bool) -> dict[str, Any]:
        mine = [
            ClassAssignment(item.slot, item.class_id) for item in result.assignments if item.device_id == user.device_id
        ]
        context = RoundContext(self.state.public_set, self.state.consensus)
        return user.apply_result(self._work("learn", round_id, mine), context, self.state.words, evaluated=due)

    def _entry(
        self,
        round_id: int,
        uploads: Sequence[Contribution],
        applied: Sequence[Mapping[str, Any]],
        reports: list[dict[str, Any]],
    ) -> dict[str, Any]:
        users = []
        for user, upload, after in zip(self.users, uploads, applied, strict=True):
            before, after = dict(upload.update.metrics), dict(after)
            row: dict[str, Any] = {"user": user.number + 1, "architecture": user.model.manifest.architecture}
            row |= {"clips": upload.update.clips, "loss": before.pop("training_loss")}
            for when, measured in (("before", before), ("after", after)):
                if "held_out_accuracy" in measured:
                    row[f"held_out_{when}"] = measured.pop("held_out_accuracy")
            users.append(row | before | after)
        return {
            "round": round_id,
            "devices": len(users),
            "loss": median(row["loss"] for row in users),
            "accuracy": fmean(row["global_accuracy"] for row in users) / 100,
            "users": users,
            "arrivals": self._arrivals(round_id),
            "reports": reports,
        }

    def _arrivals(self, round_id: int) -> list[dict[str, Any]]:
        """Return the new clips that users really got."""
        found = []
        for user in self.users:
            for label in dict.fromkeys(e.label for e in user.section.events if e.label and e.round == round_id):
                stock = self._clips.stocks[user.number][label]
                clips = stock.available(round_id) - stock.available(round_id - 1)
                found.append({"user": user.number + 1, "label": label, "clips": clips})
        return found


def _counted(of: int, progress: Progress) -> Callable[[Contribution], Contribution]:
    """Return a function that tells the progress of every upload that it lets through."""
    count: list[int] = []

    def done(upload: Contribution) -> Contribution:
        count.append(1)
        progress.devices_done(len(count), of)
        return upload

    return done
