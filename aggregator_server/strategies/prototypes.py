"""Prototypes: what one device was taught, all devices know; nobody trains a network (docs/methods.md, "Prototypes").

A device uploads the mean embedding of each of its classes, and of the new sounds that it met, with the number of clips
(prototypical networks, Snell et al. 2017). Every device has one vote for a class, its latest, kept from round to round.
The fleet's prototypes travel down, and each device fits its head to draws around them, as it does when it is taught.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aggregator_server.aggregation.contract import (
    Assigned,
    ClassTerms,
    Contribution,
    RoundInputs,
    RoundResult,
    UploadTerms,
    as_names,
    as_rows,
)
from aggregator_server.aggregation.label_wise import DETAILED
from aggregator_server.aggregation.prototype_mean import combine
from aggregator_server.discovery.new_classes import extend
from aggregator_server.discovery.new_sounds import check_arrays, check_document, recognise
from aggregator_server.discovery.public_embedding import PublicEmbedding
from aggregator_server.errors import InvalidPlanError, MalformedUpdateError
from aggregator_server.strategies.strategy import DeviceStatistics, Strategy
from fleet_protocol.arrays import Floats
from fleet_protocol.fleet_prototypes import FleetPrototypes
from fleet_protocol.messages import Choice, Update
from fleet_protocol.public_set import PublicSet
from fleet_protocol.setting import Value
from fleet_protocol.tensors import Arrays

_ID_BYTES = 32
_NO_CLASS = -1
_ROWS = 4096  # of kept votes that are copied at once


@dataclass(frozen=True)
class Votes:
    """What devices last said of classes, a row for each vote.

    Attributes:
        columns: Column of the class in the public set, int64 [votes].
        devices: Who said it, bytes of 32 [votes].
        prototypes: float32 [votes, frames, numbers].
        clips: How many clips are behind each, float32 [votes].
    """

    columns: NDArray[np.int64]
    devices: NDArray[np.bytes_]
    prototypes: Floats
    clips: Floats

    def fill(self, rows: NDArray[np.intp], prototypes: Floats, clips: Floats) -> None:
        """Write votes into their rows; those whose row is -1 are left out."""
        counts = rows >= 0
        self.prototypes[rows[counts]] = prototypes[counts]
        self.clips[rows[counts]] = clips[counts]


def check(terms: UploadTerms, update: Update, arrays: Arrays) -> None:
    """Check an upload: its document, the prototypes of its classes and new sounds, and their numbers of clips.

    Raises:
        MalformedUpdateError: naming what is wrong.
    """
    check_document(terms, update)
    if update.known != update.classes:
        raise MalformedUpdateError(
            f"every class that the upload names has a prototype: 'known' must be {update.classes}, not {update.known}"
        )
    check_arrays(terms, update, arrays, {"counts": (len(update.known) + len(update.reports),)})
    counts = arrays["counts"]
    if (counts < 1).any():
        raise MalformedUpdateError(f"a prototype is the mean of at least one clip, not of {counts.min():g}")


def aggregate(inputs: RoundInputs) -> RoundResult:
    """Combine the uploads of a round with what other devices last uploaded (pure: the same inputs, the same bytes)."""
    contributions = sorted(inputs.contributions, key=lambda c: c.update.device_id)
    reassigned, settled = recognise(inputs, contributions)
    assigned = reassigned + (settled.assignments if settled else ())
    public_set = settled.public_set if settled else inputs.public_set
    votes = _votes(inputs, contributions, assigned, public_set)
    shown = _devices_of(contributions if len(contributions) <= DETAILED else ())
    found, distances = _combined(votes, public_set, inputs.plan.aggregation.settings, shown)
    consensus = None
    if inputs.has_consensus:
        consensus = extend(inputs.consensus, len(public_set.labels), len(public_set.classes))
    details = {
        "devices": dict(zip(found.class_ids, found.devices.tolist(), strict=True)),
        "provisional": list(found.provisional),
        "distances": distances,
    }
    return RoundResult(
        public_set=public_set,
        consensus=consensus,
        assignments=assigned,
        details={"aggregation": details, "discovery": settled.details if settled else None},
        state=_to_keep(votes, public_set.class_ids),
        prototypes=found,
        proposals=settled.proposals if settled else (),
    )


def _votes(
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
    present = _devices_of(contributions)
    kept, kept_columns = _kept(state, column_of, inputs.class_terms)
    kept_devices = as_names(state["devices"])[kept] if len(kept) else _names(())
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
    start = 0
    for contribution, one in zip(contributions, said, strict=True):
        arrays = contribution.read()
        votes.fill(rows[start : start + len(one)], arrays["prototypes"], arrays["counts"])
        start += len(one)
    for first in range(0, len(kept), _ROWS):
        some = kept[first : first + _ROWS]
        votes.fill(rows[start + first :][: len(some)], state["prototypes"][some], state["counts"][some])
    return votes


def _devices_of(contributions: Sequence[Contribution]) -> NDArray[np.bytes_]:
    return _names(contribution.update.device_id for contribution in contributions)


def _names(device_ids: Iterable[str]) -> NDArray[np.bytes_]:
    return np.array(list(device_ids), f"S{_ID_BYTES}")


def _combined(
    votes: Votes, public_set: PublicSet, values: Mapping[str, Value], shown: NDArray[np.bytes_]
) -> tuple[FleetPrototypes, dict[str, dict[str, float]]]:
    """Return the fleet's prototypes, and how far from them those of some devices lie, whitened, by class and device."""
    whitening = PublicEmbedding(public_set).whitening
    columns, starts = np.unique(votes.columns, return_index=True)
    classes = [public_set.classes[column] for column in columns]
    means, distances, counts = [], {}, []
    for info, start, stop in zip(classes, starts, (*starts[1:], len(votes.columns)), strict=True):
        rows = slice(int(start), int(stop))
        points = votes.prototypes[rows].reshape(stop - start, -1).astype(np.float64)
        means.append(combine(points, votes.clips[rows].astype(np.float64), whitening, values))
        is_shown = np.isin(votes.devices[rows], shown)
        away = np.linalg.norm((points[is_shown] - means[-1]) @ whitening, axis=1).round(3)
        names = (name.decode() for name in votes.devices[rows][is_shown].tolist())
        distances[info.class_id] = dict(zip(names, away.tolist(), strict=True))
        counts.append(int(stop - start))
    few = [count < int(values["provisional"]) for count in counts]
    found = FleetPrototypes(
        features=public_set.settings.digest,
        class_ids=tuple(info.class_id for info in classes),
        means=np.asarray(means, np.float32).reshape(-1, *public_set.settings.shape),
        devices=np.array(counts, np.int64),
        provisional=tuple(
            info.class_id
            for info, is_few in zip(classes, few, strict=True)
            if is_few and info.discovered_in is not None
        ),
    )
    return found, distances


def _to_keep(votes: Votes, class_ids: Sequence[str]) -> Arrays:
    """Return votes as arrays, a row for each: the class's id, the device's id, the prototype and its clips."""
    if not len(votes.columns):
        return {}
    return {
        "classes": as_rows(class_ids, max(len(class_id.encode()) for class_id in class_ids))[votes.columns],
        "devices": votes.devices.view(np.uint8).reshape(-1, _ID_BYTES),
        "prototypes": votes.prototypes,
        "counts": votes.clips,
    }


def _kept(state: Arrays, column_of: Mapping[str, int], terms: ClassTerms) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """Read whose votes :func:`_to_keep` returned: numbers of its rows, int64 [votes], and the columns of their classes.

    Votes for a merged class count for what it is now, behind those for that class itself; others have no class. A state
    of an older release names columns. They mean the same classes as long as no class was removed.
    """
    if not state or ("columns" in state and not terms.reserved <= {*column_of, *terms.proposed}):
        return np.zeros(0, np.intp), np.zeros(0, np.int64)
    if "columns" in state:
        return np.arange(len(state["columns"])), state["columns"].astype(np.int64)
    names, which = np.unique(as_names(state["classes"]), return_inverse=True)
    known = [name.decode() for name in names.tolist()]
    now = [column_of.get(name, column_of.get(terms.merged.get(name, ""), _NO_CLASS)) for name in known]
    merged = np.array([name not in column_of for name in known])
    rows = np.argsort(merged[which], kind="stable")
    return rows, np.array(now, np.int64)[which[rows]]


def prepare(local: Choice, _devices: tuple[DeviceStatistics, ...], _classes: int) -> Choice:
    """Check that noise has a bound to be measured by. Raises InvalidPlanError: it has none."""
    if local.settings["noise"] and not local.settings["clip_norm"]:
        raise InvalidPlanError(
            f"noise {local.settings['noise']} hides nothing without a clip_norm: give the setting clip_norm as well"
        )
    return local


STRATEGY = Strategy(
    name="prototypes",
    local="prototypes",
    aggregation="prototype_mean",
    check=check,
    aggregate=aggregate,
    prepare=prepare,
    needs_embeddings=True,
    continuous=True,
    about="Every device sends the mean embedding of each of its sounds. What one device was taught, all know after the "
    "round. No network is trained.",
    cost="The cheapest: no training in the round, and the smallest upload. Every device needs the pretrained front "
    "end. The mean of few clips tells something about them.",
)
