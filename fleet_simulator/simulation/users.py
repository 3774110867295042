"""The devices of an experiment with ``[[users]]``: each has a model and labels of its own, and meets new sounds.

Gudur & Perepu 2021, algorithm 1. What devices and aggregator do is their own code; here stands what happens to users.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from aggregator_server.aggregation.contract import Contribution, RoundResult
from aggregator_server.strategies.strategy import DeviceStatistics
from edge_client.learning.rounds.client_update import RoundContext
from fleet_protocol.arrays import Ints
from fleet_protocol.bundle import read_bundle
from fleet_protocol.labels import LabelMap
from fleet_protocol.messages import ClassAssignment, Work
from fleet_protocol.tensors import Arrays
from fleet_simulator.experiment.faults import SCORE_ATTACKS, attacking_devices, attacks, misjudged, poisoned
from fleet_simulator.experiment.zero_shot_sections import ZeroShotExperiment
from fleet_simulator.partition.zero_shot_clips import UserClips
from fleet_simulator.runs.inputs import Inputs
from fleet_simulator.runs.progress import Progress
from fleet_simulator.simulation.aggregator import FleetState, Uploads
from fleet_simulator.simulation.federation import Contributed, Devices, State
from fleet_simulator.simulation.virtual_user import Memory, VirtualUser, word_of


class Users(Devices):
    """Virtual users."""

    def __init__(self, experiment: ZeroShotExperiment, inputs: Inputs, threads: ThreadPoolExecutor) -> None:
        """Read the clips; ``threads`` train users at the same time."""
        self._experiment = experiment
        manifest = read_bundle(experiment.users[0].bundle).manifest
        corpus = inputs.corpus(experiment.data, manifest, experiment.rounds.seed)
        self._clips = UserClips(experiment, corpus, manifest)
        self.first = FleetState(self._clips.public_set)
        self.users = [
            VirtualUser(number, section, self._clips, Memory.first(section.bundle))
            for number, section in enumerate(experiment.users)
        ]
        self.clips: Ints = np.ones(len(self.users), np.int64)
        self._threads = threads
        self.attackers = attacking_devices(experiment.faults, len(self.users), experiment.rounds.seed)
        self._words: dict[str, str] = {}
        self._sent: dict[int, Contribution] = {}

    def restore(self, state: State) -> None:
        """Take up where a state was saved."""
        super().restore(state)
        self._words = state.document.get("words", {})
        for user, kept in zip(self.users, state.document.get("users", ()), strict=False):
            trained, listening = (
                {name.removeprefix(prefix): array for name, array in state.devices.items() if name.startswith(prefix)}
                for prefix in (f"user-{user.number}/", f"listening-{user.number}/")
            )
            label_map, unheard = LabelMap.from_json(kept["label_map"]), tuple(kept["unheard"])
            user.take_up(Memory(Path(kept["bundle"]), trained, label_map, listening or None, unheard))

    def kept(self) -> tuple[Arrays, dict[str, Any]]:
        """Return the users' memories, and their words for discovered classes, which the aggregator does not get."""
        arrays: Arrays = {}
        for user in self.users:
            arrays |= {f"user-{user.number}/{name}": array for name, array in user.memory.trained.items()}
            listening = user.memory.listening or {}
            arrays |= {f"listening-{user.number}/{name}": array for name, array in listening.items()}
        memories = [
            {
                "bundle": str(user.memory.bundle),
                "label_map": user.memory.label_map.to_json(),
                "unheard": list(user.memory.unheard),
            }
            for user in self.users
        ]
        return arrays, {"words": self._words, "users": memories}

    def statistics(self, devices: Sequence[int]) -> list[DeviceStatistics]:
        """Return what users reported of their clips in the round before."""
        updates = [self._sent[device].update for device in devices if device in self._sent]
        return [DeviceStatistics(update.device_id, update.clips, update.label_entropy) for update in updates]

    def contribute(self, work: Work, _for_others: Work, devices: Sequence[int], progress: Progress) -> Contributed:
        """Have users do their part, each in a thread."""
        round_id, chosen = work.round_id, [self.users[device] for device in devices]
        for user in self.users:
            user.begin(round_id)
        new = {label for user in self.users for label in user.unlinked(round_id)}
        context, due = self._context(), self._is_due(round_id)
        asked = self._threads.map(lambda user: user.contribute(work, context, evaluated=due), chosen)
        uploads = []
        for upload in asked:
            uploads.append(upload)
            progress.devices_done(len(uploads), len(chosen))
        uploads = [self._attacked(user, upload, round_id) for user, upload in zip(chosen, uploads, strict=True)]
        self._sent = {user.number: upload for user, upload in zip(chosen, uploads, strict=True)}
        losses = [float(upload.update.metrics["training_loss"]) for upload in uploads]
        told = len(new) or None if self._experiment.zero_shot.tell_count else None
        return Contributed(Uploads(uploads), losses, told)

    def learn(self, work: Work, _for_others: Work, result: RoundResult, _devices: Sequence[int]) -> dict[str, Any]:
        """Have users learn from the result; return what the round's entry says of them."""
        reports, context, due = self._reports(result), self._context(), self._is_due(work.round_id)

        def apply(user: VirtualUser) -> dict[str, Any]:
            mine = [
                ClassAssignment(item.slot, item.class_id)
                for item in result.assignments
                if item.device_id == user.device_id
            ]
            return user.apply_result(replace(work, assignments=tuple(mine)), context, self._words, evaluated=due)

        applied = list(self._threads.map(apply, self.users))
        rows = [self._row(user, after) for user, after in zip(self.users, applied, strict=True)]
        return {
            "accuracy": fmean(row["global_accuracy"] for row in rows) / 100,
            "users": rows,
            "arrivals": self._arrivals(work.round_id),
            "reports": reports,
        }

    def _context(self) -> RoundContext:
        return RoundContext(self.state.fleet.public_set, self.state.fleet.consensus)

    def _is_due(self, round_id: int) -> bool:
        rounds = self._experiment.rounds
        return bool(rounds.evaluate_every) and (round_id % rounds.evaluate_every == 0 or round_id == rounds.count)

    def _attacked(self, user: VirtualUser, upload: Contribution, round_id: int) -> Contribution:
        """Return what the user sends: an attacker's new sounds, or scores, are not what it heard."""
        faults = self._experiment.faults
        if user.number not in self.attackers or not attacks(faults, round_id):
            return upload
        if faults.attack in SCORE_ATTACKS:
            arrays = upload.read()
            changed = arrays | {"scores": misjudged(faults, arrays["scores"])}
            return Contribution(upload.update, lambda: changed)
        if not upload.update.reports:
            return upload
        rng = np.random.default_rng([self._experiment.rounds.seed, round_id, 1, user.number])
        arrays = poisoned(faults, upload.read(), len(upload.update.known), rng)
        return Contribution(upload.update, lambda: arrays)

    def _reports(self, result: RoundResult) -> list[dict[str, Any]]:
        """Return what was reported, and which class it got; note the users' word for every new class."""
        given = {(item.device_id, item.slot): item.class_id for item in result.assignments}
        reports = [
            {
                "user": number + 1,
                "label": self.users[number].memory.label_map.names[report.slot],
                "class_id": given.get((upload.update.device_id, report.slot)),
            }
            for number, upload in self._sent.items()
            for report in upload.update.reports
        ]
        for class_id in {item["class_id"] for item in reports} - self._words.keys() - {None}:
            self._words[str(class_id)] = word_of([str(i["label"]) for i in reports if i["class_id"] == class_id])
        return reports

    def _row(self, user: VirtualUser, after: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a round's entry says of a user."""
        row: dict[str, Any] = {"user": user.number + 1, "architecture": user.model.manifest.architecture}
        before, after = {}, dict(after)
        if user.number in self._sent:
            update = self._sent[user.number].update
            before = dict(update.metrics)
            row |= {"clips": update.clips, "loss": before.pop("training_loss")}
        for when, measured in (("before", before), ("after", after)):
            if "held_out_accuracy" in measured:
                row[f"held_out_{when}"] = measured.pop("held_out_accuracy")
        return row | before | after

    def _arrivals(self, round_id: int) -> list[dict[str, Any]]:
        """Return the new clips that users really got."""
        found = []
        for user in self.users:
            for label in dict.fromkeys(e.label for e in user.section.events if e.label and e.round == round_id):
                stock = self._clips.stocks[user.number][label]
                clips = stock.available(round_id) - stock.available(round_id - 1)
                found.append({"user": user.number + 1, "label": label, "clips": clips})
        return found
