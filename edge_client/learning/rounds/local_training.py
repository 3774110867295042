"""One loop for every method that shares a model: they differ in the targets of a batch (docs/methods.md).

Classes of which a device has no clips are not forgotten: ``rehearsal`` goes over the public set by its labels, or by
the fleet's own opinion (learning without forgetting, Li & Hoiem 2016), and ``restrict`` leaves the outputs alone for
which neither clips nor public samples speak (restricted softmax, FedRS, Li & Zhan 2021).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass

import numpy as np

from edge_client.learning.class_links import SlotOrder
from edge_client.learning.sgd import from_slots
from edge_client.learning.training_data import Clips
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.methods.local_methods import MethodTerms
from fleet_protocol.methods.setting import Value
from fleet_protocol.numbers.arrays import Bools, Floats, Ints

Targets = Callable[[Floats, Floats], Floats]


@dataclass(frozen=True, kw_only=True)
class LocalTask:
    """What a local method can look at when it makes its targets.

    Attributes:
        shared: The shared model, with the fleet's weights; the loop trains it.
        own: The device's model, with the weights that the device last trained.
        order: Pairs of slots that mean the same in both models.
        mask: Trained outputs, float32 [shared capacity].
        clips: The round's clips, normalised for the shared model, with its slots.
        own_clips: The same clips for the device's model.
        first: Whether the device contributes for the first time, with a model that no round has trained.
    """

    shared: ModelRuntime
    own: ModelRuntime
    order: SlotOrder
    mask: Floats
    clips: Clips
    own_clips: Clips
    settings: Mapping[str, Value]
    rng: np.random.Generator
    first: bool = False

    def number(self, name: str) -> float:
        """Return a setting as a number."""
        return float(self.settings[name])

    @property
    def batch(self) -> int:
        """Rows of a step, which both models take."""
        return min(self.shared.manifest.batch, self.own.manifest.batch)

    @property
    def own_mask(self) -> Floats:
        """float32 [own capacity]: the device's slots that the clips train."""
        mask = np.zeros(self.order.own_capacity, np.float32)
        mask[np.unique(self.own_clips.slots)] = 1.0
        return mask

    def for_own(self, x: Floats) -> Floats:
        """Return a batch that is normalised for the shared model as the device's own takes it."""
        return self.own.normalise(self.shared.denormalise(x))


@dataclass(frozen=True)
class TrainingPlan:
    """How a method trains the shared model.

    Attributes:
        targets: (x, one-hot labels) of a batch, both in the shared model's terms -> its targets, float32 [rows,
            shared capacity]. It is called once for every step, before the step.
        steps: Number of steps; None: as the settings ``steps`` and ``epochs`` say.
        rehearse: (x, targets) of a batch of the rehearsal, both in the shared model's terms; called before that step,
            by methods that train a model of the device's own as well.
    """

    targets: Targets
    proximal: float = 0.0
    steps: int | None = None
    rehearse: Callable[[Floats, Floats], None] = lambda _x, _targets: None


@dataclass(frozen=True)
class TrainingMethod(MethodTerms):
    """What a local method says of the shared model's training.

    Attributes:
        prepare: Does what comes before the training, and says how to train.
        keeps_own: Whether the device keeps a model that is trained on its own (by ``prepare`` or the targets); else
            the device's model becomes what the shared model was trained to.
    """

    prepare: Callable[[LocalTask], TrainingPlan]
    _: KW_ONLY
    keeps_own: bool = False


@dataclass(frozen=True)
class Rehearsal:
    """Normalised public rows, float32 [rows, frames, coefficients], and answers wanted, float32 [rows, capacity]."""

    x: Floats
    targets: Floats


def train_shared(task: LocalTask, plan: TrainingPlan, rehearsal: Rehearsal) -> float:
    """Train the shared model in place; return the mean loss of the last pass over the clips."""
    model, mask = task.shared, task.mask
    rate, momentum = task.number("learning_rate"), task.number("momentum")
    losses: list[float] = []
    for x, labels in _batches(task, plan.steps or int(task.settings["steps"])):
        wanted = plan.targets(x, labels)
        losses.append(model.train_step(x, wanted, mask, learning_rate=rate, momentum=momentum, proximal=plan.proximal))
        if len(rehearsal.x):
            rows = task.rng.integers(len(rehearsal.x), size=len(x))
            x, wanted = rehearsal.x[rows], rehearsal.targets[rows]
            plan.rehearse(x, wanted)
            model.train_step(x, wanted, mask, learning_rate=rate, momentum=momentum, proximal=plan.proximal)
    last = -(-len(task.clips.slots) // task.batch)
    return float(np.mean(losses[-last:]))


def _batches(task: LocalTask, steps: int) -> Iterator[tuple[Floats, Floats]]:
    """Draw so many batches of the clips (0: ``epochs`` passes), each pass in another order: (x, one-hot labels)."""
    batch = task.batch
    labels = from_slots(task.clips.slots, task.order.shared_capacity)
    per_pass = -(-len(labels) // batch)
    left = steps or int(task.settings["epochs"]) * per_pass
    while left > 0:
        x, order = task.clips.draw(task.rng), task.rng.permutation(len(labels))
        for start in range(0, min(left, per_pass) * batch, batch):
            rows = order[start : start + batch]
            yield x[rows], labels[rows]
        left -= per_pass


class PublicRows:
    """The public set as the shared model takes it, with its labels or the fleet's opinion on it.

    The model must hold the fleet's weights whenever an opinion is needed; it has one once a round ``trained`` it. The
    last rehearsal is kept: virtual devices of one round mostly have the same. ``x`` are normalised features, float32
    [rows, frames, coefficients]; ``labels``, int64 [rows], the fleet's classes, which are the shared model's slots;
    ``synthetic``, bool [rows], data impressions.
    """

    def __init__(self, shared: ModelRuntime, x: Floats, labels: Ints, synthetic: Bools, *, trained: bool) -> None:
        self._shared, self._trained = shared, trained
        self.x, self.labels, self._synthetic = x, labels, synthetic
        # A model that no round has trained has no opinion worth keeping.
        self._only_imagined = np.setdiff1d(labels[synthetic], labels[~synthetic] if trained else labels)
        self._last: tuple[bytes, Rehearsal] | None = None

    def to_rehearse(self, slots: Ints, *, by_opinion: bool = False) -> Ints:
        """Return the rows that keep classes from being forgotten, int64 [n].

        These are the recordings, ``by_opinion`` only once the fleet has one on them, and the data impressions of
        classes of which the device has no clips in the shared model's ``slots``.
        """
        rows = ~self._synthetic & (self._trained or not by_opinion)
        if self._synthetic.any():
            rows |= self._synthetic & ~np.isin(self.labels, slots)
        return np.flatnonzero(rows)

    def rehearsal(self, rows: Ints, opinions: Floats, weight: float, *, by_opinion: bool = False) -> Rehearsal:
        """Return rows with the answers that the shared model is to learn for them.

        The label of a recording leaves a class alone of which nobody has a recording: there the answer stays what the
        fleet's model gives, f, and the label gets the rest,

            t = (1 - sum_u f_u) y + sum_u f_u e_u,   u the classes with data impressions alone.

        With t = y, recordings would push such a class down on every device, and only one that has clips pulls it up.

        ``opinions``, float32 [capacity], has the outputs among which the fleet's model answers recordings; ``weight``
        is the rehearsal's against the device's own clips. ``by_opinion``: recordings keep the model's answers of now.
        """
        key = np.float64(weight).tobytes() + opinions.tobytes() + bytes([by_opinion]) + rows.tobytes()
        if self._last is None or self._last[0] != key:
            targets = from_slots(self.labels[rows], len(opinions))
            recorded = ~self._synthetic[rows]
            if recorded.any() and (by_opinion or self._only_imagined.size):
                opinion = self._shared.predict(self.x[rows[recorded]], opinions)
                targets[recorded] = opinion if by_opinion else self._leaving_alone(targets[recorded], opinion)
            x = self.x if len(rows) == len(self.x) else self.x[rows]
            self._last = key, Rehearsal(x, weight * targets)
        return self._last[1]

    def _leaving_alone(self, labels: Floats, opinion: Floats) -> Floats:
        """Return labels, float32 [rows, capacity], that say nothing of classes that nobody has recorded."""
        kept = np.zeros_like(opinion)
        kept[:, self._only_imagined] = opinion[:, self._only_imagined]
        return np.asarray((1 - kept.sum(axis=1, keepdims=True)) * labels + kept)


def prepare_task(task: LocalTask, public: PublicRows) -> tuple[LocalTask, Rehearsal]:
    """Return what the plan's local method gets of a task, and what keeps other classes from being forgotten.

    An output for which neither clips nor public rows speak could only be pushed down; ``restrict`` leaves it alone.
    """
    settings, mask = task.settings, task.mask
    weight, by_opinion = task.number("rehearsal"), settings["rehearsal_by"] == "opinion"
    rows = public.to_rehearse(task.clips.slots, by_opinion=by_opinion) if weight else np.zeros(0, np.int64)
    if settings["restrict"]:
        mask = np.zeros_like(mask)
        mask[task.clips.slots] = mask[public.labels[rows]] = 1.0
    opinions = mask * (np.arange(len(mask)) < task.order.classes)
    rehearsal = public.rehearsal(rows, opinions, weight, by_opinion=by_opinion)
    return dataclasses.replace(task, mask=mask), rehearsal
