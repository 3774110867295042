"""A virtual user with a model and labels of its own, whose work in a round is done by the device's own code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from aggregator_server.aggregation.contract import Contribution
from edge_client.errors import EdgeError, ModelError
from edge_client.learning.rounds.client_update import RoundContext, percent
from edge_client.learning.rounds.model_selection import Evidence, Listener, choose_listener, public_rows
from edge_client.learning.rounds.zero_shot import ZeroShot
from edge_client.learning.training_data import FEWEST, Clips, held_out_accuracy
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.arrays import Ints
from fleet_protocol.bundle import read_bundle
from fleet_protocol.labels import LabelMap
from fleet_protocol.messages import Work
from fleet_protocol.tensors import Arrays
from fleet_simulator.errors import DivergedError, WorkerError
from fleet_simulator.experiment.zero_shot_sections import UserSection
from fleet_simulator.partition.zero_shot_clips import UserClips, as_clips, variants
from fleet_simulator.simulation.tasks import device_id


@dataclass
class Memory:
    """What a user's device keeps from round to round."""

    bundle: Path  # Path of its present model
    trained: Arrays  # Weights that its rounds go on from
    label_map: LabelMap  # Labels and classes of the model's slots
    # Weights that listen, where users refuse results that are worse; None: those of the last result
    listening: Arrays | None = None
    unheard: tuple[int, ...] = ()  # Slots that these never learned

    @property
    def listening_labels(self) -> LabelMap:
        """The labels for listening: without the slots that the weights that listen never learned."""
        return replace(self.label_map, off=self.unheard)

    @classmethod
    def first(cls, path: Path) -> Memory:
        """Return what a new device has."""
        bundle = read_bundle(path)
        return cls(path, bundle.weights, LabelMap(bundle.manifest.capacity))


class VirtualUser:
    """One user. No two threads may use it at once."""

    def __init__(self, number: int, section: UserSection, clips: UserClips, memory: Memory) -> None:
        """Open the user's model."""
        self.number = number
        self.device_id = device_id(number)
        self.section = section
        self.clips = clips
        self.take_up(memory)

    def take_up(self, memory: Memory) -> None:
        """Go on with what a device had after an earlier round."""
        self.memory = memory
        self.model = ModelRuntime(read_bundle(memory.bundle))

    def begin(self, round_id: int) -> None:
        """Take up the model that the user gets before a round, if any."""
        for event in self.section.events:
            if event.round == round_id and event.bundle is not None:
                new = Memory.first(event.bundle)  # it starts untrained, and the labels stay
                new.label_map = replace(self.memory.label_map, capacity=new.label_map.capacity)
                self.take_up(new)

    def unlinked(self, round_id: int) -> set[str]:
        """Return the user's labels in a round that are no class of the fleet yet, so far as the user knows."""
        labels, label_map = self.clips.of_round(self.number, round_id), self.memory.label_map
        slots = {slot.name: slot.class_id for slot in label_map.slots}
        return {label for label in labels if slots.get(label) is None}

    def contribute(self, work: Work, context: RoundContext, *, evaluated: bool) -> Contribution:
        """Do what a device does when it is asked to contribute.

        Raises DivergedError, WorkerError: the training diverged, or failed otherwise; names the user.
        """
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
        new = job.label_map.new_since(self.memory.label_map)
        self.memory.trained, self.memory.label_map = self.model.get_weights(), job.label_map
        if self.memory.listening is not None:
            self.memory.unheard += new
        return Contribution(update, lambda: arrays)

    def apply_result(
        self, work: Work, context: RoundContext, words: Mapping[str, str], *, evaluated: bool
    ) -> dict[str, Any]:
        """Do what a device does with a round's result; return what was measured, in %.

        Args:
            words: the users' word for every class that the fleet discovered; devices do not get them.
            evaluated: whether the resulting model is evaluated on the test clips too.
        """
        job = self._job(work, context)
        measured: dict[str, Any] = dict(job.apply_result(True))
        if self.clips.section.held_out:
            measured |= self._choose(job, work.round_id)
        self.memory.label_map = replace(job.label_map, off=())
        if evaluated:
            measured |= self._held_out(job)
            measured["new_classes"] = [
                found for class_id, word in words.items() if (found := self._recognition(class_id, word)) is not None
            ]
        return measured

    def _choose(self, job: ZeroShot, round_id: int) -> dict[str, Any]:
        """Take what the round made, or keep what listened before, as edge_client/learning/rounds/choice.py does it.

        The job's model then listens with it. Returns ``kept_own``, and how that was told, in %.
        """
        memory, model = self.memory, job.model
        present = Listener(memory.listening or memory.trained, memory.listening_labels)
        own, result = Listener(memory.trained, memory.label_map), Listener(model.get_weights(), job.label_map)
        chosen, verdict = choose_listener(model, present, result, own, self._evidence(job, round_id))
        if not self.clips.section.guard:
            chosen, verdict = result, replace(verdict, kept_own=False)
        memory.listening = chosen.weights
        memory.unheard = tuple(np.flatnonzero(job.label_map.mask > chosen.label_map.mask).tolist())
        model.set_weights(chosen.weights)
        memory.label_map, job.label_map = job.label_map, replace(job.label_map, off=memory.unheard)
        return {"kept_own": verdict.kept_own, **verdict.metrics}

    def _evidence(self, job: ZeroShot, round_id: int) -> Evidence:
        held_out = self.clips.held_out(self.number, round_id)
        slot_of, public_set = job.label_map.slot_of, job.context.public_set
        own = as_clips({slot_of(label): self.clips.own_features(rows) for label, rows in held_out.items()}, job.model)
        heard = {slot_of(label) for label in self.clips.of_round(self.number, round_id)}
        judged = heard if len(own.slots) >= FEWEST else set()
        x = job.model.normalise(public_set.features)
        return Evidence(own, "own", public_rows(public_set, x, job.label_map, judged, heard))

    def to_train_on(self, job: ZeroShot, drawn: Mapping[str, Ints]) -> Clips:
        """Return clips with their variants; ``drawn``: the rows of every label, each of which has a slot."""
        copies, shift_s = int(job.settings["augmented_copies"]), float(job.settings["shift_s"])
        features = {job.label_map.slot_of(label): self.clips.own_features(rows) for label, rows in drawn.items()}
        plain = as_clips(features, self.model)
        settings = self.model.manifest.feature_settings
        return Clips(variants(plain.x[0], copies, shift_s, settings, job.rng), plain.slots)

    def _job(self, work: Work, context: RoundContext) -> ZeroShot:
        self.model.set_weights(self.memory.trained)
        return ZeroShot(self.model, self.memory.label_map, work, context, self.device_id)

    def _held_out(self, job: ZeroShot) -> dict[str, float]:
        """Return the accuracy on test clips of the user's labels, among these."""
        labels = [label for label in self.section.all_labels if label in job.label_map.names]
        slots = [job.label_map.slot_of(label) for label in labels]
        features = {
            slot: self.clips.features(self.clips.test[label]) for slot, label in zip(slots, labels, strict=True)
        }
        held_out = as_clips(features, self.model)
        return percent({"held_out_accuracy": held_out_accuracy(self.model, job.label_map.mask, held_out, slots)})

    def _recognition(self, class_id: str, word: str) -> dict[str, Any] | None:
        """Return how the model knows a discovered class among all its classes; None where it has no slot for it."""
        slot = self.memory.label_map.slot_of_class(class_id)
        if slot is None:
            return None
        own = [self.clips.test[label] for label in self.section.labels]
        return {
            "class_id": class_id,
            "label": word,
            "heard": word in self.section.all_labels,
            "recognised": self._named(slot, self.clips.test[word]),
            "mistaken": self._named(slot, np.concatenate(own)),
        }

    def _named(self, slot: int, rows: Ints) -> float:
        """Return the share of test clips that the model takes for a slot's class, in %."""
        x = self.model.normalise(self.clips.features(rows))
        return 100 * float((self.model.predict(x, self.memory.listening_labels.mask).argmax(axis=1) == slot).mean())


def word_of(reports: Sequence[str]) -> str:
    """Return the word that most reports of a class mean, the first of equals."""
    return max(reports, key=reports.count)
