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
from edge_client.errors import EdgeError, ModelError
from edge_client.learning.rounds.client_update import RoundContext, percent
from edge_client.learning.rounds.guard import Evidence, Listener, choose_listener, public_rows
from edge_client.learning.rounds.score_sharing import ScoreSharing
from edge_client.learning.training_data import FEWEST, Clips, held_out_accuracy
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.bundle.bundle_file import read_bundle
from fleet_protocol.bundle.labels import LabelMap
from fleet_protocol.messages.rest import ClassAssignment, Work
from fleet_protocol.numbers.arrays import Ints
from fleet_protocol.numbers.tensors import Arrays
from fleet_simulator.errors import DivergedError, WorkerError
from fleet_simulator.experiment.faults import attacking_devices, attacks, poisoned
from fleet_simulator.experiment.sections import UserSection, ZeroShotExperiment
from fleet_simulator.partition.zero_shot_clips import UserClips, as_clips, variants
from fleet_simulator.runs.inputs import Inputs
from fleet_simulator.simulation.aggregator import FleetState, Uploads
from fleet_simulator.simulation.federation import Devices, State, part_of
from fleet_simulator.simulation.tasks import device_id


class VirtualUser:
    """One user. No two threads may use it at once."""

    def __init__(self, number: int, section: UserSection, clips: UserClips) -> None:
        """Open the user's model."""
        self.number, self.device_id = number, device_id(number)
        self.section, self.clips = section, clips
        self.take_up(section.bundle)

    def take_up(
        self,
        bundle: Path,
        label_map: LabelMap | None = None,
        trained: Arrays | None = None,
        listening: Arrays | None = None,
        unheard: tuple[int, ...] = (),
    ) -> None:
        """Take a model, untrained or as it was after an earlier round, and the labels that the user knows.

        ``listening`` are the weights that listen, where users refuse results that are worse; None: those of the last
        result. Slots that these never learned are ``unheard``.
        """
        found = read_bundle(bundle)
        self.bundle, self.model = bundle, ModelRuntime(found)
        self.trained: Arrays = found.weights if trained is None else trained
        capacity = found.manifest.capacity
        self.label_map = LabelMap(capacity) if label_map is None else replace(label_map, capacity=capacity)
        self.listening, self.unheard = listening, unheard

    @property
    def listening_labels(self) -> LabelMap:
        """The labels for listening: without the slots that the weights that listen never learned."""
        return replace(self.label_map, off=self.unheard)

    def begin(self, round_id: int) -> None:
        """Take up the model that the user gets before a round, if any: it starts untrained, and the labels stay."""
        for event in self.section.events:
            if event.round == round_id and event.bundle is not None:
                self.take_up(event.bundle, self.label_map)

    def contribute(self, work: Work, context: RoundContext, *, evaluated: bool) -> Contribution:
        """Do what a device does when it is asked to contribute. Raises DivergedError, WorkerError: names the user."""
        drawn = self.clips.of_round(self.number, work.round_id)
        job = self._job(work, context)
        try:
            job.take_labels(list(drawn))
            update, arrays = job.contribute(self.to_train_on(job, drawn), self.section.share_names)
        except ModelError as error:
            raise DivergedError(f"user {self.number + 1}: {error}") from error
        except EdgeError as error:
            raise WorkerError(f"user {self.number + 1}: {error}") from error
        if evaluated:
            update.metrics.update(self._held_out(job))
        new = job.label_map.new_since(self.label_map)
        self.trained, self.label_map = self.model.get_weights(), job.label_map
        if self.listening is not None:
            self.unheard += new
        return Contribution(update, lambda: arrays)

    def apply_result(
        self, work: Work, context: RoundContext, words: Mapping[str, str], *, evaluated: bool
    ) -> dict[str, Any]:
        """Do what a device does with a round's result; return what was measured, in %, on test clips if ``evaluated``.

        ``words``: the users' word for every class that the fleet discovered; devices do not get them.
        """
        job = self._job(work, context)
        measured: dict[str, Any] = dict(job.apply_result({info.class_id for info in work.classes}))
        if self.clips.section.held_out:
            measured |= self._choose(job, work.round_id)
        self.label_map = replace(job.label_map, off=())
        if evaluated:
            measured |= self._held_out(job)
            measured["new_classes"] = [
                found for class_id, word in words.items() if (found := self._recognition(class_id, word)) is not None
            ]
        return measured

    def _choose(self, job: ScoreSharing, round_id: int) -> dict[str, Any]:
        """Take what the round made, or keep what listened before, as edge_client/learning/rounds/kept_model.py does."""
        # The job's model then listens with it. Returns ``kept_own``, and how that was told, in %.
        model = job.model
        present = Listener(self.listening or self.trained, self.listening_labels)
        own, result = Listener(self.trained, self.label_map), Listener(model.get_weights(), job.label_map)
        chosen, verdict = choose_listener(model, present, result, own, self._evidence(job, round_id))
        if not self.clips.section.guard:
            chosen, verdict = result, replace(verdict, kept_own=False)
        self.listening = chosen.weights
        self.unheard = tuple(np.flatnonzero(job.label_map.mask > chosen.label_map.mask).tolist())
        model.set_weights(chosen.weights)
        self.label_map, job.label_map = job.label_map, replace(job.label_map, off=self.unheard)
        return {"kept_own": verdict.kept_own, **verdict.metrics}

    def _evidence(self, job: ScoreSharing, round_id: int) -> Evidence:
        held_out = self.clips.held_out(self.number, round_id)
        slot_of, public_set = job.label_map.slot_of, job.context.public_set
        own = as_clips({slot_of(label): self.clips.own_features(rows) for label, rows in held_out.items()}, job.model)
        heard = {slot_of(label) for label in self.clips.of_round(self.number, round_id)}
        judged = heard if len(own.slots) >= FEWEST else set()
        x = job.model.normalise(public_set.features)
        return Evidence(own, "own", public_rows(public_set, x, job.label_map, judged, heard))

    def to_train_on(self, job: ScoreSharing, drawn: Mapping[str, Ints]) -> Clips:
        """Return clips with their variants; ``drawn``: the rows of every label, each of which has a slot."""
        copies, shift_s = int(job.settings["augmented_copies"]), float(job.settings["shift_s"])
        features = {job.label_map.slot_of(label): self.clips.own_features(rows) for label, rows in drawn.items()}
        plain = as_clips(features, self.model)
        settings = self.model.manifest.feature_settings
        return Clips(variants(plain.x[0], copies, shift_s, settings, job.rng), plain.slots)

    def _job(self, work: Work, context: RoundContext) -> ScoreSharing:
        self.model.set_weights(self.trained)
        return ScoreSharing(self.model, self.label_map, work, context, self.device_id)

    def _held_out(self, job: ScoreSharing) -> dict[str, float]:
        """Return the accuracy on test clips of the user's labels, among these."""
        labels = [label for label in self.section.all_labels if label in job.label_map.names]
        features = {job.label_map.slot_of(label): self.clips.features(self.clips.test[label]) for label in labels}
        held_out = as_clips(features, self.model)
        return percent(
            {"held_out_accuracy": held_out_accuracy(self.model, job.label_map.mask, held_out, list(features))}
        )

    def _recognition(self, class_id: str, word: str) -> dict[str, Any] | None:
        """Return how the model knows a discovered class among all its classes; None where it has no slot for it."""
        slot = self.label_map.slot_of_class(class_id)
        if slot is None:
            return None

        def named(rows: Ints) -> float:
            x = self.model.normalise(self.clips.features(rows))
            return 100 * float((self.model.predict(x, self.listening_labels.mask).argmax(axis=1) == slot).mean())

        return {
            "class_id": class_id,
            "label": word,
            "heard": word in self.section.all_labels,
            "recognised": named(self.clips.test[word]),
            "mistaken": named(np.concatenate([self.clips.test[label] for label in self.section.labels])),
        }


class Users(Devices):
    """Virtual users."""

    def __init__(self, experiment: ZeroShotExperiment, inputs: Inputs, threads: ThreadPoolExecutor) -> None:
        """Read the clips; ``threads`` train users at the same time."""
        self._experiment = experiment
        manifest = read_bundle(experiment.users[0].bundle).manifest
        corpus = inputs.corpus(experiment.data, manifest, experiment.rounds.seed)
        self._clips = UserClips(experiment, corpus, manifest)
        self.first = FleetState(self._clips.public_set)
        self.users = [VirtualUser(number, section, self._clips) for number, section in enumerate(experiment.users)]
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
            trained, listening = (part_of(state.devices, f"{of}-{user.number}") for of in ("user", "listening"))
            label_map, unheard = LabelMap.from_json(kept["label_map"]), tuple(kept["unheard"])
            user.take_up(Path(kept["bundle"]), label_map, trained, listening or None, unheard)

    def kept(self) -> tuple[Arrays, dict[str, Any]]:
        """Return the users' memories, and their words for discovered classes, which the aggregator does not get."""
        arrays: Arrays = {}
        for user in self.users:
            arrays |= {f"user-{user.number}/{name}": array for name, array in user.trained.items()}
            arrays |= {f"listening-{user.number}/{name}": array for name, array in (user.listening or {}).items()}
        memories = [
            {"bundle": str(user.bundle), "label_map": user.label_map.to_json(), "unheard": list(user.unheard)}
            for user in self.users
        ]
        return arrays, {"words": self._words, "users": memories}

    def statistics(self, devices: Sequence[int]) -> list[DeviceStatistics]:
        """Return what users reported of their clips in the round before."""
        updates = [self._sent[device].update for device in devices if device in self._sent]
        return [DeviceStatistics(update.device_id, update.clips, update.label_entropy) for update in updates]

    def contribute(self, work: Work, devices: Sequence[int]) -> Uploads:
        """Have users do their part, each in a thread."""
        chosen = [self.users[device] for device in devices]
        for user in self.users:
            user.begin(work.round_id)
        context, due = self._context(), self._experiment.rounds.is_due(work.round_id)
        uploads = list(self._threads.map(lambda user: user.contribute(work, context, evaluated=due), chosen))
        self._sent = {
            user.number: self._attacked(user, upload, work.round_id)
            for user, upload in zip(chosen, uploads, strict=True)
        }
        losses = [float(upload.update.metrics["training_loss"]) for upload in uploads]
        return Uploads(list(self._sent.values()), losses)

    def learn(self, work: Work, result: RoundResult, _devices: Sequence[int]) -> dict[str, Any]:
        """Have users learn from the result; return what the round's entry says of them."""
        reports, context, due = self._reports(result), self._context(), self._experiment.rounds.is_due(work.round_id)

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

    def _attacked(self, user: VirtualUser, upload: Contribution, round_id: int) -> Contribution:
        """Return what the user sends: an attacker's new sounds are not what it heard."""
        faults = self._experiment.faults
        if user.number not in self.attackers or not attacks(faults, round_id) or not upload.update.reports:
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
                "label": self.users[number].label_map.names[report.slot],
                "class_id": given.get((upload.update.device_id, report.slot)),
            }
            for number, upload in self._sent.items()
            for report in upload.update.reports
        ]
        for class_id in {item["class_id"] for item in reports} - self._words.keys() - {None}:
            meant = [str(item["label"]) for item in reports if item["class_id"] == class_id]
            self._words[str(class_id)] = max(meant, key=meant.count)  # most reports' word, the first of equals
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
