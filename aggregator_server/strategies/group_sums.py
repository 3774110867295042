"""The sums of a private round's groups: the check of the masked uploads behind them, and what noisy ones can say."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from aggregator_server.aggregation.contract import Contribution, PrivateGroup, RoundInputs, UploadTerms
from aggregator_server.errors import AggregationError, MalformedUpdateError
from fleet_protocol.errors import SecureSumError
from fleet_protocol.messages.rest import Update
from fleet_protocol.numbers.arrays import Array, Doubles
from fleet_protocol.numbers.tensors import Arrays
from fleet_protocol.secure_sums.bounded_sums import COUNT, STANDS_OUT, NoisySums
from fleet_protocol.secure_sums.layouts import MASKED, ClassSums
from fleet_protocol.secure_sums.masking import Words, unmasked
from fleet_protocol.secure_sums.roster import Roster, context_digest


def check_masked(terms: UploadTerms, update: Update, arrays: Arrays, length: int) -> None:
    """Check a masked upload of ``length`` numbers. Raises MalformedUpdateError: it says more than these, or less."""
    if update.classes != terms.class_ids or update.known != terms.class_ids:
        raise MalformedUpdateError("a private upload names all classes of the fleet, in 'classes' and in 'known'")
    said = {name: getattr(update, name) for name in ("reports", "negatives", "metrics", "clips", "label_entropy")}
    if more := [name for name, value in said.items() if value]:
        raise MalformedUpdateError(f"a private upload says nothing of a device but its masked numbers, not {more[0]!r}")
    found = {name: (array.dtype, array.shape) for name, array in arrays.items()}
    if found != {MASKED: (np.dtype(np.uint32), (length,))}:
        shown = ", ".join(f"{name}: {dtype} {list(shape)}" for name, (dtype, shape) in sorted(found.items())[:8])
        raise MalformedUpdateError(f"a private upload has the array 'masked' alone, uint32 [{length}], not {shown}")


@dataclass(frozen=True)
class GroupSum:
    """The sum of a group, uint32 [numbers], or why there is none; ``suspects``: devices whose fault that is."""

    group: PrivateGroup
    words: Words | None
    outcome: str
    suspects: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What people call the group."""
        return f"group {self.group.index + 1}"

    @property
    def devices(self) -> int:
        """How many devices' numbers the sum has."""
        return len(self.group.uploaded)

    def judged(self, why_not: Callable[[Words], str | None]) -> "GroupSum":
        """Return the same group; without its sum where a function says why no honest devices come to that."""
        why = None if self.words is None else why_not(self.words)
        return self if why is None else GroupSum(self.group, None, why, self.group.uploaded)


class _Uploads(Mapping[str, Array]):
    """Masked numbers by device, read when they are asked for: all of a group may be large."""

    def __init__(self, contributions: Mapping[str, Contribution]) -> None:
        self._of = contributions

    def __getitem__(self, device_id: str) -> Array:
        return self._of[device_id].read()[MASKED]

    def __iter__(self) -> Iterator[str]:
        return iter(self._of)

    def __len__(self) -> int:
        return len(self._of)


def read_sums(inputs: RoundInputs) -> list[GroupSum]:
    """Return the sums of a round's groups."""
    return [_sum_of(inputs, group) for group in inputs.private or ()]


def require_one(sums: Sequence[GroupSum]) -> None:
    """Check that a group has a sum. Raises AggregationError: none has."""
    if all(one.words is None for one in sums):
        reasons = "; ".join(f"{one.name}: {one.outcome}" for one in sums[:8])
        raise AggregationError(f"no group's sum can be read ({reasons})")


def _sum_of(inputs: RoundInputs, group: PrivateGroup) -> GroupSum:
    if group.dropped is not None:
        return GroupSum(group, None, group.dropped)
    known = {c.update.device_id: c for c in inputs.contributions}
    if lacking := [device_id for device_id in group.uploaded if device_id not in known]:
        return GroupSum(group, None, f"the upload of {lacking[0]} is damaged, or the device was shut out since")
    uploads = _Uploads({device_id: known[device_id] for device_id in group.uploaded})
    try:
        # The round's own public set: nothing changes it while the round is open.
        update = known[group.uploaded[0]].update
        context = context_digest(inputs.round_id, inputs.plan, update.public_set, inputs.public_set.class_ids)
        roster = Roster(context, group.members)
        words = unmasked(roster, group.taking_part, uploads, group.commitments, group.revealed)
    except SecureSumError as error:
        return GroupSum(group, None, str(error), tuple(filter(None, [getattr(error, "device_id", None)])))
    return GroupSum(group, words, f"{len(group.uploaded)} of {len(group.members)} devices")


def described(sums: Sequence[GroupSum], stood_out: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    """Return what people see of groups: outcomes, and the devices of those that stood out, by what.

    ``stood_out``: by a group's index, what tells.
    """
    screened: dict[str, dict[str, Any]] = {}
    groups: list[dict[str, Any]] = []
    for one in sums:
        outcome, number = one.outcome, one.group.index + 1
        screened |= {device_id: {"group": number, "why": outcome} for device_id in one.suspects}
        if (why := stood_out.get(one.group.index)) is not None:
            outcome += ", stood out"
            screened |= {device_id: {"group": number, **why} for device_id in one.group.uploaded}
        groups.append({"devices": [member.device_id for member in one.group.members], "outcome": outcome})
    return {"aggregation": {"screened": screened}, "private_groups": groups}


_FARTHEST = 8.0  # standard deviations: of a million numbers none lies farther by chance


def impossible(table: NoisySums, devices: int, deviation: float) -> str | None:
    """Return what no sum of so many honest devices says; None where it may be one. ``deviation``: of its noise."""
    slack = _FARTHEST * deviation
    if (np.abs(table.counts - devices / 2) > devices / 2 + slack / COUNT).any():
        return "its sum says a number of devices that it has not, with any noise"
    if (np.abs(table.directions) > devices + slack).any():
        return "its sum says numbers that its devices cannot add, with any noise"
    return None


def heard(tables: Sequence[NoisySums], deviations: Sequence[float]) -> list[ClassSums]:
    """Return groups' sums as those of a round without noise, with the classes alone that stand out of all noise.

    ``deviations``: of the noise of each. A group weighs as all do, by the mean count: its own is mostly noise where
    groups are small.
    """
    counts: Doubles = np.mean([table.counts for table in tables], axis=0)
    there = counts * len(tables) > STANDS_OUT * float(np.linalg.norm(deviations)) / COUNT
    has, weights = there.astype(np.float64)[:, None], np.where(there, counts, 0.0)[:, None]
    return [ClassSums(has, weights, table.directions[:, None], np.zeros(len(counts))) for table in tables]
