"""Prototypes: what one device was taught, all devices know; nobody trains a network (docs/methods.md, "Prototypes").

A device uploads the mean embedding of each of its classes, and of the new sounds that it met, with the number of clips
(prototypical networks, Snell et al. 2017). Every device has one vote for a class, its latest, kept from round to round.
The fleet's prototypes travel down, and each device fits its head to draws around them, as it does when it is taught.
What an owner said is not a class travels in the same way, as negative prototypes of it. So does what comes before the
end of a long word.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from aggregator_server.aggregation.contract import RoundInputs, RoundResult, UploadTerms
from aggregator_server.aggregation.label_wise_beta import DETAILED
from aggregator_server.aggregation.prototype_mean import COMPARED, Said, alike, combine, combine_order, fleet_negatives
from aggregator_server.discovery.new_classes import extend
from aggregator_server.discovery.new_sounds import recognise
from aggregator_server.discovery.public_embedding import PublicEmbedding
from aggregator_server.errors import MalformedUpdateError
from aggregator_server.strategies import private_prototypes
from aggregator_server.strategies.prototype_votes import Votes, denied_of, devices_of, to_keep, votes_of
from aggregator_server.strategies.strategy import PrivateWay, Strategy
from aggregator_server.strategies.upload_checks import Shapes, check_arrays, check_document
from fleet_protocol.errors import TensorError
from fleet_protocol.limits import NAME_LENGTH, NEGATIVES
from fleet_protocol.messages.public_set import PublicSet
from fleet_protocol.messages.rest import Update
from fleet_protocol.methods.setting import Value
from fleet_protocol.numbers.arrays import Bools, Doubles, Floats
from fleet_protocol.numbers.fleet_prototypes import FleetPrototypes, Negatives
from fleet_protocol.numbers.similar_groups import SIMILAR_FROM, similar_groups
from fleet_protocol.numbers.tensors import Arrays
from fleet_protocol.numbers.word_order import ORDER_ARRAYS, WordOrder


def check(terms: UploadTerms, update: Update, arrays: Arrays) -> None:
    """Check an upload's document, prototypes, order and numbers of clips. Raises MalformedUpdateError: one is wrong."""
    check_document(terms, update)
    if update.known != update.classes:
        raise MalformedUpdateError(
            f"every class that the upload names has a prototype: 'known' must be {update.classes}, not {update.known}"
        )
    described = len(update.known) + len(update.reports)
    wanted: Shapes = {"counts": (described,)}
    if any(name in arrays for name in ORDER_ARRAYS):
        wanted |= {"before": (None, *terms.settings.shape)}
        wanted |= {"before_states": (described,), "before_lengths": (described,)}
    if update.negatives:
        _check_negatives(terms, update.negatives)
        wanted["negatives"] = (len(update.negatives), *terms.settings.shape)
        wanted["negative_counts"] = (len(update.negatives),)
    check_arrays(terms, update, arrays, wanted)
    try:
        WordOrder.read(arrays, described, terms.settings.shape)
    except TensorError as error:
        raise MalformedUpdateError(str(error)) from error
    counts = np.concatenate([arrays[name] for name in ("counts", "negative_counts") if name in wanted])
    if (counts < 1).any():
        raise MalformedUpdateError(f"a prototype is the mean of at least one clip, not of {counts.min():g}")


def _check_negatives(terms: UploadTerms, class_ids: Sequence[str]) -> None:
    known = frozenset(terms.class_ids)
    for class_id, times in Counter(class_ids).items():
        if class_id not in known:
            raise MalformedUpdateError(
                f"'negatives' names {class_id[:NAME_LENGTH]!r}, which is no class of the fleet: "
                f"{', '.join(terms.class_ids)}"
            )
        if times > NEGATIVES:
            raise MalformedUpdateError(
                f"'negatives' says of {times} sounds that they are not {class_id!r}; at most {NEGATIVES} are taken of "
                "a class: send the mean of those that are alike"
            )


def aggregate(inputs: RoundInputs) -> RoundResult:
    """Combine the uploads of a round with what other devices last uploaded (pure: the same inputs, the same bytes)."""
    contributions = sorted(inputs.contributions, key=lambda c: c.update.device_id)
    settled = recognise(inputs, contributions)
    public_set = settled.public_set
    votes = votes_of(inputs, contributions, settled.assignments, public_set)
    shown = devices_of(contributions if len(contributions) <= DETAILED else ())
    found, distances = _combined(votes, public_set, inputs.plan.aggregation.settings, shown)
    denied = denied_of(inputs, contributions, public_set)
    found = replace(found, negatives=_negatives(inputs, denied, votes, found, public_set))
    details = {
        "devices": dict(zip(found.class_ids, found.devices.tolist(), strict=True)),
        "provisional": list(found.provisional),
        "distances": distances,
    }
    if found.order is not None:  # how many windows before the newest one, by class
        states = zip(found.class_ids, found.order.states.tolist(), strict=True)
        details["order"] = {class_id: count for class_id, count in states if count}
    if found.negatives is not None:
        said = details["negatives"] = dict[str, list[int]]()  # how many devices said so of each, by class
        for class_id, devices in zip(found.negatives.class_ids, found.negatives.devices.tolist(), strict=True):
            said.setdefault(class_id, []).append(devices)
    return RoundResult(
        public_set=public_set,
        consensus=extend(inputs.consensus, public_set) if inputs.has_consensus else None,
        assignments=settled.assignments,
        details={"aggregation": details, "discovery": settled.details},
        state=to_keep(votes, denied, public_set.class_ids),
        prototypes=found,
        senders=_senders(votes, public_set),
    )


def _senders(votes: Votes, public_set: PublicSet) -> dict[str, list[tuple[str, bool]]]:
    """Return by discovered class the devices that voted for it, and whether they mean the same sound as most."""
    space, found = PublicEmbedding(public_set), {}
    for column in np.unique(votes.columns):
        info, rows = public_set.classes[column], np.flatnonzero(votes.columns == column)
        if info.discovered_in is not None:
            names = (name.decode() for name in votes.devices[rows].tolist())
            agree = _agreeing(votes.prototypes[rows], int(column), public_set, space).tolist()
            found[info.class_id] = list(zip(names, agree, strict=True))
    return found


def _agreeing(prototypes: Floats, column: int, public_set: PublicSet, space: PublicEmbedding) -> Bools:
    """Tell which votes for a discovered class mean the same sound as most, bool [votes].

    Where as many mean another one, it is the sound that the class was made of. So one device moves no class that
    another one sent.
    """
    directions, rows = space.directions(prototypes), public_set.features[public_set.labels == column]
    groups = similar_groups(directions[:COMPARED])
    means = [directions[group].mean(axis=0) for group in groups if len(group) == len(groups[0])]
    if len(means) > 1 and len(rows):
        made_of = space.directions(rows).mean(axis=0)
        means.sort(key=lambda mean: -float(mean @ made_of / np.linalg.norm(mean)))
    agree: Bools = directions @ (means[0] / np.linalg.norm(means[0])) >= SIMILAR_FROM
    return agree


def _combined(
    votes: Votes, public_set: PublicSet, values: Mapping[str, Value], shown: NDArray[np.bytes_]
) -> tuple[FleetPrototypes, dict[str, dict[str, float]]]:
    """Return the fleet's prototypes, and how far from them those of some devices lie, whitened, by class and device."""
    space = PublicEmbedding(public_set)
    whitening = space.whitening
    columns, starts = np.unique(votes.columns, return_index=True)
    classes = [public_set.classes[column] for column in columns]
    means, distances, counts, orders = [], {}, [], list[tuple[Floats, float]]()
    for info, start, stop in zip(classes, starts, (*starts[1:], len(votes.columns)), strict=True):
        rows = slice(int(start), int(stop))
        points = votes.prototypes[rows].reshape(stop - start, -1).astype(np.float64)
        column, counted = int(votes.columns[start]), np.ones(stop - start, np.bool_)
        if info.discovered_in is not None:
            counted = _agreeing(votes.prototypes[rows], column, public_set, space)
        clips = votes.clips[rows][counted].astype(np.float64)
        means.append(combine(points[counted], clips, whitening, values))
        if votes.order is not None:
            order = votes.order.words(np.arange(start, stop)[counted])
            orders.append(combine_order(order, clips, whitening, values, lambda sent: alike(space.directions(sent))))
        is_shown = np.isin(votes.devices[rows], shown)
        away = np.linalg.norm((points[is_shown] - means[-1]) @ whitening, axis=1).round(3)
        names = (name.decode() for name in votes.devices[rows][is_shown].tolist())
        distances[info.class_id] = dict(zip(names, away.tolist(), strict=True))
        counts.append(int(counted.sum()))
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
        order=None if votes.order is None else WordOrder.of(orders, public_set.settings.shape),
    )
    return found, distances


def _negatives(
    inputs: RoundInputs, denied: Votes, votes: Votes, found: FleetPrototypes, public_set: PublicSet
) -> Negatives | None:
    class_ids: list[str] = []
    means: list[Doubles] = []
    devices: list[int] = []
    space = PublicEmbedding(public_set) if len(denied.columns) else None
    for column in np.unique(denied.columns):
        class_id = public_set.class_ids[column]
        said, voted, public = (one == column for one in (denied.columns, votes.columns, public_set.labels))
        if class_id in found.class_ids:
            centre = found.means[found.class_ids.index(class_id)].reshape(-1).astype(np.float64)
        elif public.any():
            centre = public_set.features[public].mean(axis=0, dtype=np.float64).reshape(-1)
        else:  # nobody knows where it lies
            continue
        assert space is not None
        told, counts = fleet_negatives(
            Said(denied.devices[said], _as_rows(denied.prototypes[said]), denied.clips[said].astype(np.float64)),
            centre,
            _as_rows(votes.prototypes[voted]),
            space.whitening,
            inputs.plan.aggregation.settings,
            np.random.default_rng([inputs.plan.seed, inputs.round_id, int(column)]),
        )
        class_ids += [class_id] * len(told)
        means += told
        devices += counts
    if not means:
        return None
    rows = np.asarray(means, np.float32).reshape(-1, *public_set.settings.shape)
    return Negatives(tuple(class_ids), rows, np.array(devices, np.int64))


def _as_rows(prototypes: Floats) -> Doubles:
    return prototypes.reshape(len(prototypes), math.prod(prototypes.shape[1:])).astype(np.float64)


STRATEGY = Strategy(
    name="prototypes",
    local="prototypes",
    aggregation="prototype_mean",
    check=check,
    aggregate=aggregate,
    needs_embeddings=True,
    private=PrivateWay(
        check_plan=private_prototypes.check_plan,
        check=private_prototypes.check,
        aggregate=private_prototypes.aggregate,
        settings={"corrections": False},
        settings_with_noise={"corrections": False, "order": False},
    ),
    about="Every device sends the mean embedding of each of its sounds. What one device was taught, all know after the "
    "round. No network is trained.",
    cost="The cheapest: no training in the round, and the smallest upload. Every device needs the pretrained front "
    "end. The mean of few clips tells something about them.",
)
