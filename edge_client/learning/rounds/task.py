"""What a local method gets to work on in a round: one function for devices and for the simulator's virtual devices."""

from __future__ import annotations

import numpy as np

from edge_client.learning.rounds.local_training import LocalTask, Rehearsal
from edge_client.learning.slot_order import SlotOrder
from edge_client.learning.targets import from_slots
from edge_client.learning.training_data import Clips
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.arrays import Bools, Floats, Ints
from fleet_protocol.messages import Work


class PublicRows:
    """The public set as the shared model takes it, with its labels or the fleet's opinion on it.

    The model must hold the fleet's weights whenever an opinion is needed. The last rehearsal is kept: virtual devices
    of one round mostly have the same.
    """

    def __init__(self, shared: ModelRuntime, x: Floats, labels: Ints, synthetic: Bools, *, trained: bool) -> None:
        """Take over a public set.

        Args:
            shared: the shared model.
            x: features normalised for it, float32 [rows, frames, coefficients].
            labels: int64 [rows], the fleet's classes, which are the shared model's slots.
            synthetic: bool [rows], True for data impressions.
            trained: whether the fleet has trained the shared model, so that it has an opinion on recordings.
        """
        self._shared = shared
        self._x = x
        self.labels = labels
        self._trained = trained
        self._synthetic = synthetic
        # A model that no round has trained has no opinion worth keeping.
        self._only_imagined = np.setdiff1d(labels[synthetic], labels[~synthetic] if trained else labels)
        self._last: tuple[bytes, Rehearsal] | None = None

    def to_rehearse(self, slots: Ints, *, by_opinion: bool = False) -> Ints:
        """Return the rows that keep classes from being forgotten, int64 [n].

        These are the recordings, and the data impressions of classes of which the device has no clips.

        Args:
            slots: the shared model's slots of the device's clips.
            by_opinion: whether recordings count only once the fleet has an opinion on them.
        """
        recorded = ~self._synthetic & (self._trained or not by_opinion)
        return np.flatnonzero(recorded | (self._synthetic & ~np.isin(self.labels, slots)))

    def rehearsal(self, rows: Ints, opinions: Floats, weight: float, *, by_opinion: bool = False) -> Rehearsal:
        """Return rows with what the shared model shall answer to them.

        The label of a recording leaves a class alone of which nobody has a recording: there the answer stays what the
        fleet's model gives, f, and the label gets the rest,

            t = (1 - sum_u f_u) y + sum_u f_u e_u,   u the classes with data impressions alone.

        With t = y, recordings would push such a class down on every device, and only one that has clips pulls it up.

        Args:
            rows: of the public set.
            opinions: float32 [capacity], the outputs among which the fleet's model answers recordings.
            weight: of the rehearsal against the device's own clips.
            by_opinion: whether it shall go on to answer recordings as it does; else it shall answer their labels.
        """
        key = np.float64(weight).tobytes() + opinions.tobytes() + bytes([by_opinion]) + rows.tobytes()
        if self._last is None or self._last[0] != key:
            targets = from_slots(self.labels[rows], len(opinions))
            recorded = ~self._synthetic[rows]
            if recorded.any() and (by_opinion or self._only_imagined.size):
                opinion = self._shared.predict(self._x[rows[recorded]], opinions)
                targets[recorded] = opinion if by_opinion else self._leaving_alone(targets[recorded], opinion)
            x = self._x if len(rows) == len(self._x) else self._x[rows]
            self._last = key, Rehearsal(x, weight * targets)
        return self._last[1]

    def _leaving_alone(self, labels: Floats, opinion: Floats) -> Floats:
        """Return labels, float32 [rows, capacity], that say nothing of classes that nobody has recorded."""
        kept = np.zeros_like(opinion)
        kept[:, self._only_imagined] = opinion[:, self._only_imagined]
        return np.asarray((1 - kept.sum(axis=1, keepdims=True)) * labels + kept)


def prepare_task(
    work: Work,
    *,
    shared: ModelRuntime,
    own: ModelRuntime,
    order: SlotOrder,
    clips: Clips,
    own_clips: Clips,
    public: PublicRows,
    rng: np.random.Generator,
    first: bool,
) -> tuple[LocalTask, Rehearsal]:
    """Return what the plan's local method gets, and what keeps other classes from being forgotten.

    An output for which neither clips nor public rows speak could only be pushed down; ``restrict`` leaves it alone.

    Args:
        work: what the device was asked for.
        shared: the shared model, with the fleet's weights.
        own: the device's model, with the weights that the device last trained.
        order: which slot of the one is which of the other.
        clips: the round's, normalised for the shared model, with its slots.
        own_clips: the same for the device's model.
        public: the public set.
        rng: of the device in this round.
        first: whether the device contributes for the first time.
    """
    settings = work.plan.local.settings
    weight, by_opinion = float(settings["rehearsal"]), settings["rehearsal_by"] == "opinion"
    rows = public.to_rehearse(clips.slots, by_opinion=by_opinion) if weight else np.zeros(0, np.int64)
    if settings["restrict"]:
        mask = np.zeros(order.shared_capacity, np.float32)
        mask[clips.slots] = mask[public.labels[rows]] = 1.0
    else:
        mask = order.mask()
    opinions = mask * (np.arange(len(mask)) < order.classes)
    rehearsal = public.rehearsal(rows, opinions, weight, by_opinion=by_opinion)
    task = LocalTask(
        shared=shared,
        own=own,
        order=order,
        mask=mask,
        clips=clips,
        own_clips=own_clips,
        settings=settings,
        rng=rng,
        first=first,
    )
    return task, rehearsal
