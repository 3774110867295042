"""One set of weights learns what the owner taught, without forgetting what it knew.

After learning without forgetting (Li & Hoiem 2016): on sound that is nobody's clip the model is held to its own former
scores. After outlier exposure (Hendrycks et al. 2019): on the room's own sound it is taught to stay undecided, so that
quiet is not taken for one of the few sounds that it knows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from edge_client.learning.new_sounds import Synthesis, synthesise
from edge_client.learning.sgd import Optimiser, from_slots, settling, train_epoch
from edge_client.learning.teaching.taught import require_learned
from edge_client.learning.training_data import Clips
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.arrays import Floats, Ints
from fleet_protocol.labels import LabelMap
from fleet_protocol.public_set import PublicSet
from fleet_protocol.tensors import Arrays

# Rows of each label in one pass: rare labels are repeated, common ones drawn from, so that all weigh the same.
_ROWS = 100
# Public recordings in one pass, for each class that was known before.
_PUBLIC_ROWS = 50
# Rows of no sound in particular in one pass: as a share of the others, and at least.
_QUIET_SHARE, _QUIET_ROWS = 0.3, 200
# Rows of spliced clips in one pass, as a share of the owner's.
_SPLICED_SHARE = 0.5
# Where nothing else tells of a class, its data impressions do; they hold it so badly that the weights are held as well.
_IMPRESSIONS = Synthesis(count=32)
_PROXIMAL = 0.1


@dataclass(frozen=True)
class IncrementalTask:
    """What is to be learned, the same for both sets of weights.

    ``known`` are slots that the model must not forget. ``quiet`` and ``spliced``, what is no sound in particular and
    sounds made of several labels' clips, are normalised features, float32 [rows, frames, coefficients].
    """

    label_map: LabelMap
    known: tuple[int, ...]
    clips: Clips
    quiet: Floats
    spliced: Floats
    public_set: PublicSet | None

    def undecided(self) -> Floats:
        """Return the target for ``quiet`` and ``spliced``, float32 [capacity]: every label is equally likely."""
        target = np.zeros(self.label_map.capacity, np.float32)
        target[list({*self.known, *self.clips.slots.tolist()})] = 1.0
        target /= target.sum()
        return target


def learn(model: ModelRuntime, weights: Arrays, task: IncrementalTask, epochs: int, rate: float, seed: int) -> Arrays:
    """Return weights that learned a task; its own are overwritten. Raises ModelError if the training diverged."""
    rng = np.random.default_rng(seed)
    model.set_weights(weights)
    rehearsal = _Rehearsal.prepare(model, task, rng)
    model.set_weights(weights)  # the proximal term's anchor
    own_targets = from_slots(task.clips.slots, task.label_map.capacity)
    loss = math.nan
    for epoch in range(epochs):
        rows = _balanced(task.clips.slots, rng)
        x_public, public_targets = rehearsal.draw(rng)
        quiet = rng.permutation(len(task.quiet))[: max(_QUIET_ROWS, round(_QUIET_SHARE * (len(rows) + len(x_public))))]
        spliced = rng.permutation(len(task.spliced))[: round(_SPLICED_SHARE * len(rows))]
        x = np.concatenate([task.clips.draw(rng)[rows], x_public, task.quiet[quiet], task.spliced[spliced]])
        undecided = np.tile(task.undecided(), (len(quiet) + len(spliced), 1))
        targets = np.concatenate([own_targets[rows], public_targets, undecided])
        optimiser = Optimiser(settling(rate, epoch, epochs), proximal=rehearsal.proximal)
        loss = train_epoch(model, x, targets, task.label_map.mask, optimiser, rng)
    require_learned(loss, rate)
    return model.get_weights()


@dataclass(frozen=True)
class _Rehearsal:
    """Rows that keep the model from forgetting: public ones with its former ``scores``, and ``always`` impressions."""

    public: Floats
    scores: Floats
    per_pass: int
    always: Floats
    labels: Floats
    proximal: float

    @classmethod
    def prepare(cls, model: ModelRuntime, task: IncrementalTask, rng: np.random.Generator) -> _Rehearsal:
        """Ask the model, before it changes, for its opinion."""
        capacity = task.label_map.capacity
        opinions = np.zeros(capacity, np.float32)
        opinions[list(task.known)] = 1.0
        public = always = np.zeros((0, *model.manifest.input_shape), np.float32)
        labels = np.zeros((0, capacity), np.float32)
        covered = set(task.clips.slots.tolist())
        if task.public_set is not None and task.known:
            x = model.normalise(task.public_set.features)
            public = x[~task.public_set.synthetic]
            rows, slots = _discovered(task, covered)
            always, labels = x[rows], from_slots(slots, capacity)
            covered |= {slot for slot in task.known if task.label_map.class_ids[slot] in task.public_set.class_ids}
        lost = [slot for slot in task.known if slot not in covered]
        if lost:
            made = synthesise(model, opinions, lost, _IMPRESSIONS, rng).reshape(-1, *model.manifest.input_shape)
            made = model.normalise(made)
            always = np.concatenate([always, made])
            labels = np.concatenate([labels, model.predict(made, opinions)])
        scores = model.predict(public, opinions) if len(public) else np.zeros((0, capacity), np.float32)
        per_pass = min(len(public), _PUBLIC_ROWS * len(task.known))
        return cls(public, scores, per_pass, always, labels, _PROXIMAL if lost else 0.0)

    def draw(self, rng: np.random.Generator) -> tuple[Floats, Floats]:
        rows = rng.permutation(len(self.public))[: self.per_pass]
        return np.concatenate([self.public[rows], self.always]), np.concatenate([self.scores[rows], self.labels])


def _discovered(task: IncrementalTask, own: set[int]) -> tuple[Ints, Ints]:
    """Return rows and slots of the public set's data impressions, of known classes without own clips."""
    assert task.public_set is not None
    columns = {class_id: column for column, class_id in enumerate(task.public_set.class_ids)}
    slot_of = {
        columns[class_id]: slot
        for slot in task.known
        if slot not in own and (class_id := task.label_map.class_ids[slot]) in columns
    }
    labels = task.public_set.labels
    rows = np.flatnonzero(task.public_set.synthetic & np.isin(labels, list(slot_of)))
    return rows, np.array([slot_of[int(label)] for label in labels[rows]], np.int64)


def _balanced(slots: Ints, rng: np.random.Generator) -> Ints:
    parts = [np.resize(rng.permutation(np.flatnonzero(slots == slot)), _ROWS) for slot in np.unique(slots)]
    return np.concatenate(parts)
