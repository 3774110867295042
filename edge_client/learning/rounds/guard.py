"""The guard: what a round made replaces the model that listens only if it is at least as good.

Both are asked the same: which of the device's clips, and of the public set's rows, they name rightly as they would
listen. A tie goes to the round. Where the result is refused, what the device itself trained in the round is asked next.
A device that keeps a model of its own leaves the outputs off that this model never learned: it misses the fleet's new
sounds until a round is accepted, which is better than to hear them where they are not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from edge_client.learning.training_data import FEWEST, Clips
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.bundle.labels import LabelMap
from fleet_protocol.messages.public_set import PublicSet
from fleet_protocol.numbers.arrays import Bools, Floats
from fleet_protocol.numbers.tensors import Arrays

# Share of what a model named rightly that a new class may cost.
_MOST_LOST = 0.1


@dataclass(frozen=True)
class Listener:
    """A model as it listens. ``label_map``: Labels; slots that the weights do not know are off."""

    weights: Arrays
    label_map: LabelMap


@dataclass(frozen=True)
class Evidence:
    """What two models are judged by. Slots are those of the newer label map, in which no slot of the older moved.

    ``own`` are clips that are as new, or as familiar (``taught``), to the one model as to the other; ``name`` is what
    the metrics call them.
    """

    own: Clips
    name: str
    public: Clips
    taught: bool = False


@dataclass(frozen=True)
class Verdict:
    """The outcome. ``metrics``: Shares of the evidence that both models named rightly, in %.

    They are ``held_out_before``, ``held_out_after``, or ``taught_`` in place of ``held_out_``; ``public_before``,
    ``public_after``; without what there is none.
    """

    kept_own: bool
    metrics: dict[str, float]


def choose_listener(
    model: ModelRuntime, present: Listener, result: Listener, own: Listener | None, evidence: Evidence
) -> tuple[Listener, Verdict]:
    """Return which of the models a device listens with after a round, and what became of the round's result.

    The runtime's weights are overwritten. ``own`` is what the device itself trained in the round, without the result;
    None where it did not take part.
    """
    verdict = judge(model, present, result, evidence)
    if not verdict.kept_own:
        return result, verdict
    if own is not None and not judge(model, present, own, evidence).kept_own:
        return own, verdict
    return present, verdict


def judge(model: ModelRuntime, present: Listener, candidate: Listener, evidence: Evidence) -> Verdict:
    """Decide with which model a device listens after a round; the runtime's weights are overwritten.

    The candidate must name as many of the own clips rightly, and as many of the public rows; a part with fewer than
    :data:`FEWEST` rows says nothing. Rows of a class that the present model does not know count as missed by it. Where
    both models have learned the own clips, either part may lose as many as chance would: the square root of those on
    which the models differ. One learned clip more or less did not tell which model is better on others
    (docs/device.md).

    A class that is new costs the others something. Then own clips and public rows are asked together, and may be lost
    as far as chance would lose them. Of what the present model named rightly, no more than a tenth, or than by chance,
    may be lost in either part, however much of the new class is gained.
    """
    grown = bool((candidate.label_map.listening_mask > present.label_map.listening_mask).any())
    metrics: dict[str, float] = {}
    kept_own = False
    all_lost, all_gained = 0, 0
    for name, clips in _parts(evidence):
        before, after = (recognised(model, listener, clips) for listener in (present, candidate))
        metrics |= {f"{name}_before": 100.0 * float(before.mean()), f"{name}_after": 100.0 * float(after.mean())}
        lost, gained = int((before & ~after).sum()), int((after & ~before).sum())
        all_lost, all_gained = all_lost + lost, all_gained + gained
        excused = math.sqrt(lost + gained) if evidence.taught else 0.0
        kept_own |= _loses_too_much(before, after, clips, present) if grown else lost - gained > excused
    if grown:
        kept_own |= all_lost - all_gained > math.sqrt(all_lost + all_gained)
    return Verdict(kept_own, metrics)


def _loses_too_much(before: Bools, after: Bools, clips: Clips, present: Listener) -> bool:
    """Return whether a candidate names far fewer rows of the classes that the present model knows."""
    known = present.label_map.listening_mask[clips.slots] > 0
    before, after = before[known], after[known]
    net = int(before.sum()) - int(after.sum())
    return net > max(_MOST_LOST * int(before.sum()), math.sqrt(int((before != after).sum())))


def recognised(model: ModelRuntime, listener: Listener, clips: Clips) -> Bools:
    """Return which clips a model names rightly, bool [clips]: none with a single output, which hears nothing."""
    mask = listener.label_map.listening_mask
    if mask.sum() < 2:
        return np.zeros(len(clips.slots), np.bool_)
    model.set_weights(listener.weights)
    found: Bools = model.predict(clips.x[0], mask).argmax(axis=1) == clips.slots
    return found


def public_rows(public_set: PublicSet, x: Floats, label_map: LabelMap, judged: set[int], heard: set[int]) -> Clips:
    """Return the public rows that tell of classes of which the device's own clips do not; those of ``judged`` slots do.

    Data impressions count for a class of which there is nothing else: neither a public recording nor an own clip. ``x``
    are the public set's normalised features, float32 [rows, frames, coefficients]; ``heard`` are slots with own clips.
    """
    labels, real = public_set.labels, ~public_set.synthetic
    recorded = set(labels[real].tolist())
    rows, slots = [], []
    for column, class_id in enumerate(public_set.class_ids):
        slot = label_map.slot_of_class(class_id)
        if slot is None or slot in judged or (column not in recorded and slot in heard):
            continue
        found = np.flatnonzero((labels == column) & (real | (column not in recorded)))
        rows.append(found)
        slots.append(np.full(len(found), slot, np.int64))
    none = np.zeros(0, np.int64)
    chosen = np.concatenate([none, *rows])
    return Clips(x[chosen][None], np.concatenate([none, *slots]))


def _parts(evidence: Evidence) -> list[tuple[str, Clips]]:
    parts = ((evidence.name, evidence.own), ("public", evidence.public))
    return [(name, clips) for name, clips in parts if len(clips.slots) >= FEWEST]
