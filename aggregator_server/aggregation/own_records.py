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

from aggregator_server.aggregation.contract import as_rows, from_rows
from aggregator_server.aggregation.updates import Updates, in_blocks
from aggregator_server.errors import AggregationError
from aggregator_server.limits import SUSPICION
from fleet_protocol.arrays import Array, Bools, Doubles, Ints
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
_DEVICES, _SKETCHES, _TURNS, _KEY = (f"records.{name}" for name in ("devices", "sketches", "turns", "key"))


@dataclass(frozen=True)
class Records:
    """The devices' records, in the order of their ids.

    Attributes:
        sketches: Records r_k, float64 [devices, numbers].
        turns: Number of each one's last updates in a row that pointed against its record, int64 [devices].
        key: Seed of A, uint64 [2].
    """

    device_ids: tuple[str, ...]
    sketches: Doubles
    turns: Ints
    key: Array

    @classmethod
    def of(cls, state: Arrays, updates: Updates) -> Records:
        """Read what :meth:`arrays` returned; without it, or with another model's, begin with none."""
        numbers = min(_GROUPS, updates.layout.width)
        kept = state.get(_SKETCHES)
        if kept is None or kept.shape[1:] != (numbers,):
            digest = hashlib.sha256(np.ascontiguousarray(updates.matrix).data).digest()
            return cls((), np.zeros((0, numbers)), np.zeros(0, np.int64), np.frombuffer(digest, np.uint64, 2))
        ids = tuple(from_rows(state[_DEVICES]))
        return cls(ids, kept.astype(np.float64), state[_TURNS].astype(np.int64), state[_KEY])

    def arrays(self) -> Arrays:
        """Return them as arrays to be kept; 553 bytes for each device."""
        return {
            _DEVICES: as_rows(self.device_ids, _ID_BYTES),
            _SKETCHES: self.sketches.astype(np.float16),
            _TURNS: np.minimum(self.turns, 255).astype(np.uint8),
            _KEY: self.key,
        }

    def judged(self, device_ids: Sequence[str], sketches: Doubles) -> tuple[Bools, Records]:
        """Tell which updates point against their devices' records, bool [updates]; and count that.

        Args:
            sketches: Their sketches, float64 [updates, numbers].
        """
        rows = {device_id: row for row, device_id in enumerate(self.device_ids)}
        known = {place: rows[device_id] for place, device_id in enumerate(device_ids) if device_id in rows}
        records = self.sketches[list(known.values())]
        sizes = np.maximum(np.linalg.norm(records, axis=1), 1e-30)
        cosines = np.einsum("ij,ij->i", sketches[list(known)], records) / sizes
        turned, turns = np.zeros(len(device_ids), np.bool_), self.turns.copy()
        if known and np.median(np.abs(cosines)) >= SAYS_SOMETHING:
            turned[list(known)] = cosines < TURNED_BELOW
        for place, row in known.items():
            turns[row] = turns[row] + 1 if turned[place] else 0
        model_turned = 2 * np.count_nonzero(turns) >= len(turns)
        return turned & (not model_turned), replace(self, turns=turns)

    def after(self, device_ids: Sequence[str], sketches: Doubles, counted: Bools) -> Records:
        """Return the records after a round.

        Args:
            sketches: Their sketches, float64 [updates, numbers].
            counted: Mask of those that made the result, bool [updates].
        """
        found = dict(zip(self.device_ids, zip(self.sketches, self.turns.tolist(), strict=True), strict=True))
        for device_id, sketch, counts in zip(device_ids, sketches, counted, strict=True):
            before, turns = found.get(device_id, (sketch, 0))
            if counts:
                found[device_id] = (_MEMORY * before + (1 - _MEMORY) * sketch, turns)
            elif turns >= SUSPICION:
                del found[device_id]
        names = tuple(sorted(found))
        rows = np.array([found[name][0] for name in names]).reshape(-1, self.sketches.shape[1])
        return replace(self, device_ids=names, sketches=rows, turns=np.array([found[n][1] for n in names], np.int64))

    def sketched(self, updates: Updates) -> Doubles:
        """Return s_k of every update, float64 [updates, numbers]; of one that changes nothing, zeros.

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
        sketches = np.zeros((len(updates), numbers))

        def sketch(rows: slice) -> None:
            for row in range(rows.start, rows.stop):
                update = (updates.matrix[row] - start)[order] * signs
                sums = np.add.reduceat(update, first, dtype=np.float64)
                sketches[row] = sums / max(float(np.linalg.norm(sums)), 1e-30)

        in_blocks(sketch, len(updates), _ROWS)
        return sketches


def without(state: Arrays, device_ids: Collection[str]) -> Arrays:
    """Return an aggregation's state without the records of some devices."""
    if _DEVICES not in state or not device_ids:
        return state
    kept = np.array([name not in device_ids for name in from_rows(state[_DEVICES])], np.bool_)
    return state | {name: state[name][kept] for name in (_DEVICES, _SKETCHES, _TURNS)}
