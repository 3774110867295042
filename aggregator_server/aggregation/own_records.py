"""What each device's own earlier updates pointed to, so that one that changes sides is seen.

    u_k = theta_k - theta                               what device k's training changed
    s_k = A u_k / || A u_k ||                           A adds up weights with random signs in groups (a count sketch)
    c_k = the cosine of s_k and r_k
    k has turned if c_k < -0.1, where the round's median | c_j | is 0.2 or more
    r_k <- 0.8 r_k + 0.2 s_k  of an upload that counts,  r_k = s_k of its first

Late in the training the honest devices' updates add up to about nothing, so their directions do not show a flipped one
(docs/methods.md, "The screened mean"). But each goes on pulling to its own clips, round after round. Where the last
update of half of the devices turned, it was the model that did: then nobody has. A device that has turned
``SUSPICION`` times in a row is in quarantine, and its record begins anew, so that it can come back. After very few
steps, or many rounds away, updates are much noise and the median is small: then nobody is judged.

A is drawn from the first uploads: it stays on the server, and whoever knew it could hide a turn from it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from aggregator_server.aggregation.contract import as_rows, from_rows
from aggregator_server.aggregation.disk_matrix import DiskMatrix
from aggregator_server.aggregation.updates import Updates, in_blocks
from aggregator_server.errors import AggregationError
from aggregator_server.limits import SUSPICION
from fleet_protocol.arrays import Array, Bools, Doubles, Floats, Ints
from fleet_protocol.setting import Setting
from fleet_protocol.tensors import Arrays

TURNED_BELOW = -0.1
SAYS_SOMETHING = 0.2
TURNED = {"distances": {}, "against": False, "turned": True}
"""Why an upload does not count, as a round's details have it."""
OWN_RECORDS = Setting(True, "whether uploads that point against their device's own earlier ones are set aside")

_GROUPS = 256  # numbers of a sketch: its cosines err by 1/16 at most (standard deviation)
_MEMORY = 0.8
_ID_BYTES = 32
_ROWS = 32
_TOGETHER = 2_048  # records that are looked at together
_DEVICES, _SKETCHES, _TURNS, _KEY = (f"records.{name}" for name in ("devices", "sketches", "turns", "key"))


@dataclass(frozen=True)
class Records:
    """The devices' records, in the order of their ids.

    Attributes:
        sketches: Records r_k, float16 [devices, numbers].
        turns: Number of each one's last updates in a row that pointed against its record, int64 [devices].
        key: Seed of A, uint64 [2].
    """

    device_ids: tuple[str, ...]
    sketches: NDArray[np.float16]
    turns: Ints
    key: Array

    @classmethod
    def of(cls, state: Arrays, updates: Updates) -> Records:
        """Read what :meth:`arrays` returned; without it, or with another model's, begin with none."""
        numbers = min(_GROUPS, updates.layout.width)
        kept = state.get(_SKETCHES)
        if kept is None or kept.shape[1:] != (numbers,):
            found = hashlib.sha256()
            for _, block in updates.row_blocks():
                found.update(np.ascontiguousarray(block).data)
            key = np.frombuffer(found.digest(), np.uint64, 2)
            return cls((), np.zeros((0, numbers), np.float16), np.zeros(0, np.int64), key)
        ids = tuple(from_rows(state[_DEVICES]))
        return cls(ids, kept, state[_TURNS].astype(np.int64), state[_KEY])

    def arrays(self) -> Arrays:
        """Return them as arrays to be kept; 553 bytes for each device."""
        return {
            _DEVICES: as_rows(self.device_ids, _ID_BYTES),
            _SKETCHES: self.sketches,
            _TURNS: np.minimum(self.turns, 255).astype(np.uint8),
            _KEY: self.key,
        }

    def judged(self, device_ids: Sequence[str], sketches: Sketches) -> tuple[Bools, Records]:
        """Tell which updates point against their devices' records, bool [updates]; and count that."""
        rows = {device_id: row for row, device_id in enumerate(self.device_ids)}
        places = np.array([place for place, device_id in enumerate(device_ids) if device_id in rows], np.intp)
        known = np.array([rows[device_ids[place]] for place in places], np.intp)
        cosines = np.empty(len(known))
        for start in range(0, len(known), _TOGETHER):
            part = slice(start, start + _TOGETHER)
            records = self.sketches[known[part]].astype(np.float64)
            sizes = np.maximum(np.linalg.norm(records, axis=1), 1e-30)
            cosines[part] = np.einsum("ij,ij->i", sketches.taken(places[part]), records) / sizes
        turned, turns = np.zeros(len(device_ids), np.bool_), self.turns.copy()
        if len(known) and np.median(np.abs(cosines)) >= SAYS_SOMETHING:
            turned[places] = cosines < TURNED_BELOW
        turns[known] = np.where(turned[places], turns[known] + 1, 0)
        model_turned = 2 * np.count_nonzero(turns) >= len(turns)
        return turned & (not model_turned), replace(self, turns=turns)

    def after(self, device_ids: Sequence[str], sketches: Sketches, counted: Bools) -> Records:
        """Return the records after a round.

        Args:
            counted: Mask of those that made the result, bool [updates].
        """
        rows = {device_id: row for row, device_id in enumerate(self.device_ids)}
        places: dict[str, int] = {}
        gone = set()
        for place, (device_id, counts) in enumerate(zip(device_ids, counted.tolist(), strict=True)):
            if counts:
                places[device_id] = place
            elif device_id in rows and self.turns[rows[device_id]] >= SUSPICION:
                gone.add(device_id)
        names = tuple(sorted((rows.keys() | places.keys()) - gone))
        before = np.array([rows.get(name, -1) for name in names], np.intp)
        now = np.array([places.get(name, -1) for name in names], np.intp)
        kept = np.empty((len(names), self.sketches.shape[1]), np.float16)
        for start in range(0, len(names), _TOGETHER):
            part = slice(start, start + _TOGETHER)
            kept[part] = self._continued(before[part], now[part], sketches)
        return replace(self, device_ids=names, sketches=kept, turns=np.where(before >= 0, self._turns(before), 0))

    def _continued(self, before: NDArray[np.intp], now: NDArray[np.intp], sketches: Sketches) -> Doubles:
        """Return some devices' new records, float64 [devices, numbers], by rows before and updates; -1: none."""
        records = np.empty((len(before), self.sketches.shape[1]))
        records[before >= 0] = self.sketches[before[before >= 0]]
        added = sketches.taken(now[now >= 0])
        records[before < 0] = added[before[now >= 0] < 0]
        records[now >= 0] = _MEMORY * records[now >= 0] + (1 - _MEMORY) * added
        return records

    def _turns(self, rows: NDArray[np.intp]) -> Ints:
        return self.turns[rows] if len(self.turns) else np.zeros(len(rows), np.int64)

    def sketched(self, updates: Updates) -> Sketches:
        """Return s_k of every update; of one that changes nothing, zeros.

        Raises:
            AggregationError: nobody said what the devices started from.
        """
        if updates.start is None:
            raise AggregationError("records compare updates, and nobody said what the devices started from")
        start, width = updates.start, updates.layout.width
        # Of a bit generator, whose numbers stay the same from one version of NumPy to the next.
        raw = np.random.Philox(key=self.key).random_raw(width)
        order = np.argsort(raw, kind="stable")
        signs = np.where(raw[order] & np.uint64(1), np.float32(1), np.float32(-1))
        numbers = self.sketches.shape[1]
        first = np.arange(numbers) * width // numbers
        sketches = Sketches(updates, numbers)
        for first_row, block in updates.row_blocks():
            found = np.empty((len(block), numbers))

            def sketch(rows: slice, block: Floats = block, found: Doubles = found) -> None:
                for row in range(rows.start, rows.stop):
                    update = (block[row] - start)[order] * signs
                    sums = np.add.reduceat(update, first, dtype=np.float64)
                    found[row] = sums / max(float(np.linalg.norm(sums)), 1e-30)

            in_blocks(sketch, len(block), _ROWS)
            sketches.write(first_row, found)
        return sketches


class Sketches:
    """The updates' sketches, float64 [updates, numbers], in memory, or on disk where the updates are there."""

    def __init__(self, updates: Updates, numbers: int) -> None:
        """Make room for them."""
        self._stored: Doubles | DiskMatrix = np.empty((0, numbers))
        if isinstance(updates.stored, DiskMatrix):  # which holds float32: half of a number in each column
            self._stored = DiskMatrix(len(updates), 2 * numbers, updates.stored.folder)

    def write(self, first: int, sketches: Doubles) -> None:
        """Note those of a block of updates, float64 [some, numbers]; in memory all are one block."""
        if isinstance(self._stored, DiskMatrix):
            self._stored.write(first, sketches.view(np.float32))
        else:
            self._stored = sketches

    def taken(self, places: NDArray[np.intp]) -> Doubles:
        """Return those of some updates, float64 [some, numbers], by their places, which ascend."""
        if isinstance(self._stored, DiskMatrix):
            return self._stored.some_rows(places).view(np.float64)
        return self._stored[places]


def without(state: Arrays, device_ids: Collection[str]) -> Arrays:
    """Return an aggregation's state without the records of some devices."""
    if _DEVICES not in state or not device_ids:
        return state
    kept = np.array([name not in device_ids for name in from_rows(state[_DEVICES])], np.bool_)
    return state | {name: state[name][kept] for name in (_DEVICES, _SKETCHES, _TURNS)}
