"""The takes of one recording session: kept one by one, discarded by number, and undone together."""

from __future__ import annotations

import dataclasses

from edge_client.clips.folders import Clip
from edge_client.clips.store import ClipStore
from edge_client.storage.owner_acts import Act, Move, OwnerActs
from fleet_protocol.numbers.arrays import Floats


class Takes:
    """Takes of a label, at a rate; for who holds the store."""

    def __init__(self, store: ClipStore, acts: OwnerActs, label: str, rate_hz: int) -> None:
        self._store, self._acts, self._label, self._rate_hz = store, acts, label, rate_hz
        self._names: list[str] = []
        self._act = Act("recorded", label=label)

    def keep(self, take: Floats) -> None:
        """Store a take, float32 [samples]. Raises as :meth:`ClipStore.add`."""
        shared = self._store.holds(self._label, take, self._rate_hz)
        name = self._store.add(self._label, take, self._rate_hz).name
        self._names.append(name)
        if not shared:
            self._act = self._acts.extend(self._act, [Move("", self._label, name)])

    def discard(self, take: int) -> None:
        """Delete the take of a number, from 1, for good; one that the label had before stays. Raises ClipError."""
        name = self._names.pop(take - 1)
        left = tuple(move for move in self._act.moves if move.name != name)
        if len(left) == len(self._act.moves):
            return
        self._act = dataclasses.replace(self._act, moves=left)
        self._acts.replace(self._act)
        self._store.delete(Clip(self._label, self._store.folder / self._label / name))
