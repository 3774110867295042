"""One loop for every method that shares a model: they differ in the targets of a batch (docs/methods.md).

Classes of which a device has no clips are not forgotten: ``rehearsal`` goes over the public set by its labels, or by
the fleet's own opinion (learning without forgetting, Li & Hoiem 2016), and ``restrict`` leaves the outputs alone for
which neither clips nor public samples speak (restricted softmax, FedRS, Li & Zhan 2021). docs/methods.md has the
figures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from edge_client.learning.slot_order import SlotOrder
from edge_client.learning.targets import from_slots
from edge_client.learning.training_data import Clips
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.arrays import Floats
from fleet_protocol.setting import Value

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
        settings: Settings of the local method.
        rng: Generator of all random numbers.
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
        proximal: FedProx' mu.
        steps: Number of steps; None: as the settings ``steps`` and ``epochs`` say.
        rehearse: (x, targets) of a batch of the rehearsal, both in the shared model's terms; called before that step,
            by methods that train a model of the device's own as well.
    """

    targets: Targets
    proximal: float = 0.0
    steps: int | None = None
    rehearse: Callable[[Floats, Floats], None] = lambda _x, _targets: None


class TrainingMethod(Protocol):
    """What a local method says of the shared model's training."""

    @property
    def name(self) -> str:
        """Name in plans."""

    @property
    def prepare(self) -> Callable[[LocalTask], TrainingPlan]:
        """Function that does what comes before the training, and says how to train."""

    @property
    def any_architecture(self) -> bool:
        """Whether the device's bundle may differ from the shared one."""

    @property
    def keeps_own(self) -> bool:
        """Whether the device keeps a model that is trained on its own."""


@dataclass(frozen=True)
class Rehearsal:
    """Public rows that a model is trained on beside the device's clips.

    Attributes:
        x: Features normalised for the model, float32 [rows, frames, coefficients].
        targets: What the model shall answer, float32 [rows, capacity].
    """

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
    """Draw so many batches of the clips (0: ``epochs`` passes): (x, one-hot labels).

    Every pass has another order and other variants.
    """
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
