"""Prototypes: what one device was taught, all devices know; nobody trains a network (docs/methods.md, "Prototypes").

A device uploads the mean embedding of each of its classes, and of the new sounds that it met, with the number of clips
(prototypical networks, Snell et al. 2017). Every device has one vote for a class, its latest, kept from round to round.
The fleet's prototypes travel down, and each device fits its head to draws around them, as it does when it is taught.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from aggregator_server.aggregation.contract import (
    Assigned,
    ClassTerms,
    Contribution,
    RoundInputs,
    RoundResult,
    UploadTerms,
    as_rows,
    from_rows,
)
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
_CLASS_ID_BYTES = 256  # 64 characters


@dataclass(frozen=True)
class Vote:
    """What a device last said of a class: its prototype, float32 [frames, numbers], and the clips behind it."""

    prototype: Floats
    clips: float


# By class and device.
Votes = dict[tuple[str, str], Vote]


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
    present = {contribution.update.device_id for contribution in contributions}
    kept = _kept(inputs.state, public_set.class_ids, inputs.class_terms)
    votes = {key: vote for key, vote in kept.items() if key[1] not in present | inputs.revoked}
    votes |= _cast(contributions, assigned)
    found, distances = _combined(votes, public_set, inputs.plan.aggregation.settings)
    consensus = None
    if inputs.has_consensus:
        consensus = extend(inputs.consensus, len(public_set.labels), len(public_set.classes))
    details = {
        "devices": dict(zip(found.class_ids, found.devices.tolist(), strict=True)),
        "provisional": list(found.provisional),
        "distances": {
            class_id: {device_id: away for device_id, away in of_class.items() if device_id in present}
            for class_id, of_class in distances.items()
        },
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


def _cast(contributions: Sequence[Contribution], assigned: Sequence[Assigned]) -> Votes:
    """Return the votes of a round's uploads; a new sound that found no class has none."""
    classes = {(item.device_id, item.slot): item.class_id for item in assigned}
    votes: Votes = {}
    for contribution in contributions:
        update, arrays = contribution.update, contribution.read()
        reported = (classes.get((update.device_id, report.slot)) for report in update.reports)
        for class_id, prototype, clips in zip(
            (*update.known, *reported), arrays["prototypes"].copy(), arrays["counts"].tolist(), strict=True
        ):
            if class_id is not None and (class_id, update.device_id) not in votes:
                votes[class_id, update.device_id] = Vote(prototype, clips)
    return votes


def _combined(
    votes: Votes, public_set: PublicSet, values: Mapping[str, Value]
) -> tuple[FleetPrototypes, dict[str, dict[str, float]]]:
    """Return the fleet's prototypes, and by class and device how far from them a device's lies, whitened."""
    whitening = PublicEmbedding(public_set).whitening
    of_class: dict[str, dict[str, Vote]] = {}
    for (class_id, device_id), vote in sorted(votes.items()):
        of_class.setdefault(class_id, {})[device_id] = vote
    classes = [info for info in public_set.classes if info.class_id in of_class]
    means, distances = [], {}
    for info in classes:
        voters = of_class[info.class_id]
        points = np.stack([vote.prototype.ravel() for vote in voters.values()]).astype(np.float64)
        means.append(combine(points, np.array([vote.clips for vote in voters.values()]), whitening, values))
        away = np.linalg.norm((points - means[-1]) @ whitening, axis=1)
        distances[info.class_id] = dict(zip(voters, away.round(3).tolist(), strict=True))
    counts = [len(of_class[info.class_id]) for info in classes]
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
    keys = sorted((key for key in votes if key[0] in class_ids), key=lambda key: (class_ids.index(key[0]), key[1]))
    if not keys:
        return {}
    return {
        "classes": as_rows([class_id for class_id, _ in keys], _CLASS_ID_BYTES),
        "devices": as_rows([device_id for _, device_id in keys], _ID_BYTES),
        "prototypes": np.stack([votes[key].prototype for key in keys]),
        "counts": np.array([votes[key].clips for key in keys], np.float32),
    }


def _kept(state: Arrays, class_ids: Sequence[str], terms: ClassTerms) -> Votes:
    """Read what :func:`_to_keep` returned; votes for a merged class count for what it is now, others are dropped.

    A state of an older release names columns. They mean the same classes as long as no class was removed.
    """
    if not state or ("columns" in state and not terms.reserved <= {*class_ids, *terms.proposed}):
        return {}
    classes = [class_ids[column] for column in state["columns"]] if "columns" in state else from_rows(state["classes"])
    rows = zip(classes, from_rows(state["devices"]), state["prototypes"], state["counts"].tolist(), strict=True)
    votes: Votes = {}
    for class_id, device_id, prototype, clips in rows:
        if class_id in class_ids:
            votes[class_id, device_id] = Vote(prototype, clips)
        elif terms.merged.get(class_id) in class_ids:
            votes.setdefault((terms.merged[class_id], device_id), Vote(prototype, clips))
    return votes


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
