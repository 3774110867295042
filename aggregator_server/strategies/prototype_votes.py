"""What devices last said of classes in rounds of ``prototypes``: kept from round to round, a row for each vote."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from aggregator_server.aggregation.contract import Assigned, ClassTerms, Contribution, RoundInputs
from fleet_protocol.messages.public_set import PublicSet
from fleet_protocol.numbers.arrays import Array, Floats
from fleet_protocol.numbers.tensors import Arrays
from fleet_protocol.numbers.word_order import WordOrder

_ID_BYTES = 32
_NO_CLASS = -1
_ROWS = 4096  # of kept votes that are copied at once
_NEGATIVE = "negative_"  # before the names of the arrays of what devices said is not a class


@dataclass(frozen=True)
class Votes:
    """What devices last said of classes, a row for each vote."""

    columns: NDArray[np.int64]  # column of the class in the public set, int64 [votes]
    devices: NDArray[np.bytes_]  # who said it, bytes of 32 [votes]
    prototypes: Floats  # float32 [votes, frames, numbers]
    clips: Floats  # how many clips are behind each, float32 [votes]
    order: WordOrder | None = None  # what comes before the newest windows of each; None where nobody asked for it

    def fill(self, rows: NDArray[np.intp], prototypes: Floats, clips: Floats) -> None:
        """Write votes into their rows; those whose row is -1 are left out."""
        counts = rows >= 0
        self.prototypes[rows[counts]] = prototypes[counts]
        self.clips[rows[counts]] = clips[counts]


def votes_of(
    inputs: RoundInputs, contributions: Sequence[Contribution], assigned: Sequence[Assigned], public_set: PublicSet
) -> Votes:
    """Return the votes of a round's uploads and what other devices last uploaded, by class and device.

    Of several votes of a device for a class the first counts. There is one copy of all.
    """
    state = inputs.state
    column_of = {class_id: column for column, class_id in enumerate(public_set.class_ids)}
    classes = {(item.device_id, item.slot): item.class_id for item in assigned}
    said: list[NDArray[np.int64]] = []
    for contribution in contributions:
        update = contribution.update
        reported = (classes.get((update.device_id, report.slot), "") for report in update.reports)
        said.append(np.array([column_of.get(class_id, _NO_CLASS) for class_id in (*update.known, *reported)], np.int64))
    present = devices_of(contributions)
    kept, kept_columns = _kept(state, column_of, inputs.class_terms)
    kept_devices = _as_names(state["devices"])[kept] if len(kept) else _names(())
    stays = ~np.isin(kept_devices, np.concatenate([present, _names(inputs.revoked)]))
    kept = kept[stays]

    columns = np.concatenate([*said, kept_columns[stays]])
    devices = np.concatenate([np.repeat(present, [len(one) for one in said]), kept_devices[stays]])
    order = np.lexsort((devices, columns))
    is_first = np.ones(len(order), np.bool_)
    is_first[1:] = (np.diff(columns[order]) != 0) | (devices[order][1:] != devices[order][:-1])
    order = order[is_first & (columns[order] != _NO_CLASS)]
    rows = np.full(len(columns), -1)
    rows[order] = np.arange(len(order))

    shape = (len(order), *public_set.settings.shape)
    votes = Votes(columns[order], devices[order], np.empty(shape, np.float32), np.empty(len(order), np.float32))
    orders = _Orders(len(order), public_set.settings.shape)
    wanted = bool(inputs.plan.aggregation.settings.get("order"))  # a round of an earlier release does not say
    start = 0
    for contribution, one in zip(contributions, said, strict=True):
        arrays = contribution.read()
        votes.fill(rows[start : start + len(one)], arrays["prototypes"], arrays["counts"])
        if wanted:
            orders.add(arrays, len(one), rows[start : start + len(one)])
        start += len(one)
    for first in range(0, len(kept), _ROWS):
        some = kept[first : first + _ROWS]
        votes.fill(rows[start + first :][: len(some)], state["prototypes"][some], state["counts"][some])
    if wanted and len(kept):
        orders.add(state, len(state["counts"]), rows[start:], kept)
    return replace(votes, order=orders.put_together()) if wanted else votes


class _Orders:
    """What comes before the newest windows of votes, as it is read; most votes have nothing."""

    def __init__(self, votes: int, shape: tuple[int, ...]) -> None:
        self._shape = shape
        self._rows = [np.zeros(0, np.intp)]  # of votes
        self._found = [WordOrder.none(0, shape)]
        self._none = WordOrder.none(votes, shape)

    def add(self, arrays: Arrays, count: int, rows: NDArray[np.intp], chosen: NDArray[np.intp] | None = None) -> None:
        """Take that of ``count`` words, or the chosen ones, which are votes' rows; -1: of none."""
        found = WordOrder.read(arrays, count, self._shape)
        if len(found.means):
            chosen = np.arange(count) if chosen is None else chosen
            some = np.flatnonzero((rows >= 0) & (found.states[chosen] > 0))
            self._rows.append(rows[some])
            self._found.append(found.words(chosen[some]))

    def put_together(self) -> WordOrder:
        """Return that of all votes."""
        rows = np.concatenate(self._rows)
        order = np.argsort(rows, kind="stable")
        states, lengths = self._none.states, self._none.lengths
        states[rows] = np.concatenate([one.states for one in self._found])
        lengths[rows] = np.concatenate([one.lengths for one in self._found])
        every = WordOrder(states[rows], lengths[rows], np.concatenate([one.means for one in self._found]))
        return WordOrder(states, lengths, every.words(order).means)


def devices_of(contributions: Sequence[Contribution]) -> NDArray[np.bytes_]:
    """Return the devices of uploads, bytes of 32 [contributions]."""
    return _names(contribution.update.device_id for contribution in contributions)


def _names(device_ids: Iterable[str]) -> NDArray[np.bytes_]:
    return np.array(list(device_ids), f"S{_ID_BYTES}")


def denied_of(inputs: RoundInputs, contributions: Sequence[Contribution], public_set: PublicSet) -> Votes:
    """Return what owners said is no sound of a class, by the round's uploads and what other devices last uploaded.

    A device may have said it of several sounds; its rows stand in its own order.
    """
    column_of = {class_id: column for column, class_id in enumerate(public_set.class_ids)}
    shape = public_set.settings.shape
    columns, devices = [np.zeros(0, np.int64)], [_names(())]
    prototypes, clips = [np.zeros((0, *shape), np.float32)], [np.zeros(0, np.float32)]
    if inputs.plan.aggregation.settings["corrections"]:
        for contribution in contributions:
            if class_ids := contribution.update.negatives:
                arrays = contribution.read()
                columns.append(np.array([column_of.get(class_id, _NO_CLASS) for class_id in class_ids], np.int64))
                devices.append(_names([contribution.update.device_id] * len(class_ids)))
                prototypes.append(arrays["negatives"])
                clips.append(arrays["negative_counts"])
        state = {name.removeprefix(_NEGATIVE): array for name, array in inputs.state.items() if _NEGATIVE in name}
        kept, kept_columns = _kept(state, column_of, inputs.class_terms)
        if len(kept):
            said = _as_names(state["devices"])[kept]
            stays = ~np.isin(said, np.concatenate([devices_of(contributions), _names(inputs.revoked)]))
            columns.append(kept_columns[stays])
            devices.append(said[stays])
            prototypes.append(state["prototypes"][kept[stays]])
            clips.append(state["counts"][kept[stays]])
    found = Votes(np.concatenate(columns), np.concatenate(devices), np.concatenate(prototypes), np.concatenate(clips))
    rows = np.lexsort((found.devices, found.columns))
    rows = rows[found.columns[rows] != _NO_CLASS]
    return Votes(found.columns[rows], found.devices[rows], found.prototypes[rows], found.clips[rows])


def to_keep(votes: Votes, denied: Votes, class_ids: Sequence[str]) -> Arrays:
    """Return votes, and what devices said is not a class, as the state for the next round."""
    return _arrays(votes, class_ids) | {
        f"{_NEGATIVE}{name}": array for name, array in _arrays(denied, class_ids).items()
    }


def _arrays(votes: Votes, class_ids: Sequence[str]) -> Arrays:
    """Return votes as arrays, a row for each: the class's id, the device's id, the prototype and its clips."""
    if not len(votes.columns):
        return {}
    return {
        "classes": np.array([class_id.encode() for class_id in class_ids])[votes.columns][:, None].view(np.uint8),
        "devices": votes.devices.view(np.uint8).reshape(-1, _ID_BYTES),
        "prototypes": votes.prototypes,
        "counts": votes.clips,
        **({} if votes.order is None else votes.order.arrays),
    }


def _kept(state: Arrays, column_of: Mapping[str, int], terms: ClassTerms) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """Read whose votes :func:`to_keep` returned: its rows' numbers, int64 [votes], and the columns of their classes."""
    # Votes for a merged class count for what it is now, behind those for that class itself; others have no class.
    if "devices" not in state:
        return np.zeros(0, np.intp), np.zeros(0, np.int64)
    names, which = np.unique(_as_names(state["classes"]), return_inverse=True)
    known = [name.decode() for name in names.tolist()]
    now = [column_of.get(name, column_of.get(terms.merged.get(name, ""), _NO_CLASS)) for name in known]
    merged = np.array([name not in column_of for name in known])
    rows = np.argsort(merged[which], kind="stable")
    return rows, np.array(now, np.int64)[which[rows]]


def _as_names(rows: Array) -> NDArray[np.bytes_]:
    """Return identifiers that :func:`_arrays` wrote, uint8 [names, bytes], as bytes [names]."""
    return np.ascontiguousarray(rows).view(f"S{rows.shape[1]}")[:, 0]
