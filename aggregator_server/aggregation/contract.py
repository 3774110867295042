"""What goes into an aggregation and what comes out of it: plain data, the same for server and simulator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aggregator_server.aggregation.plausible import FeatureRange
from aggregator_server.limits import CLASSES
from fleet_protocol.arrays import Floats
from fleet_protocol.bundle import Manifest
from fleet_protocol.feature_settings import FeatureSettings
from fleet_protocol.fleet_prototypes import FleetPrototypes
from fleet_protocol.messages import RoundPlan, Update
from fleet_protocol.public_set import PublicSet
from fleet_protocol.tensors import Arrays


@dataclass(frozen=True)
class UploadTerms:
    """What an upload must fit, known without opening any array.

    Attributes:
        public_set: digest of the round's public set.
        samples: rows of the public set.
        class_ids: the fleet's classes in column order.
        settings: of the public set's features.
        manifest: of the shared model; None in a round without one.
        feature_range: reads the range of the public recordings' features, which descriptions of sounds must keep to;
            None: nobody knows it.
    """

    public_set: str
    samples: int
    class_ids: tuple[str, ...]
    settings: FeatureSettings
    manifest: Manifest | None = None
    feature_range: Callable[[], FeatureRange] | None = None


@dataclass(frozen=True)
class Contribution:
    """One device's checked upload.

    Attributes:
        update: its document.
        read: loads its arrays, read-only, as docs/protocol.md describes them. All uploads together may be large: look
            at one after the other, and copy what is to stay. Any thread may call it.
    """

    update: Update
    read: Callable[[], Arrays]


@dataclass(frozen=True)
class SharedModel:
    """The shared model that a round trains.

    Attributes:
        manifest: of its bundle.
        weights: what the devices started from, by name.
        state: what the aggregation kept from the round before, such as a server optimiser's moments; empty at first.
    """

    manifest: Manifest
    weights: Arrays
    state: Arrays


@dataclass(frozen=True, kw_only=True)
class ClassTerms:
    """What a round may do about classes.

    Attributes:
        max_classes: how many the fleet may have; the shared model's head may have fewer slots than other fleets allow.
        proposed: classes that wait for an operator.
        reserved: identifiers of all classes that the fleet had, or may get: no other class may have one of them.
        merged: classes that an operator merged, and the classes that they became.
        review: whether a new class waits for an operator before it is one of the fleet's.
    """

    max_classes: int = CLASSES
    proposed: frozenset[str] = frozenset()
    reserved: frozenset[str] = frozenset()
    merged: Mapping[str, str] = field(default_factory=dict)
    review: bool = False


@dataclass(frozen=True, kw_only=True)
class RoundInputs:
    """Everything that an aggregation may look at.

    Attributes:
        round_id: names what the round discovers.
        plan: with every setting filled in.
        public_set: as the devices scored it, with the classes' present names.
        consensus: float32 [samples, classes]; zeros before the first round has ended (f_G^0 = 0).
        contributions: in any order: the result does not depend on it.
        others: of devices with another network, by the plan's part for others, in any order. A strategy that shares a
            model leaves their scores to strategies/others.py; ``recognise`` takes their new sounds along.
        new_classes: how many new classes there are, where whoever opened the round knows it.
        assigned: what (device, slot) is known to be from earlier rounds.
        model: the shared model; None in a round without one.
        has_consensus: whether the fleet has a consensus yet.
        state: what the aggregation kept from the strategy's round before, in a round without a model; empty at first.
        revoked: devices of whose earlier uploads nothing may count.
        class_terms: what the round may do about classes.
    """

    round_id: int
    plan: RoundPlan
    public_set: PublicSet
    consensus: Floats
    contributions: tuple[Contribution, ...]
    new_classes: int | None = None
    assigned: Mapping[tuple[str, int], str] = field(default_factory=dict)
    model: SharedModel | None = None
    has_consensus: bool = True
    state: Arrays = field(default_factory=dict)
    revoked: frozenset[str] = frozenset()
    class_terms: ClassTerms = field(default_factory=ClassTerms)
    others: tuple[Contribution, ...] = ()


@dataclass(frozen=True)
class Assigned:
    """A device's new sound is this class of the fleet."""

    device_id: str
    slot: int
    class_id: str


@dataclass(frozen=True)
class Proposal:
    """A new class that waits for an operator.

    Attributes:
        class_id: its identifier.
        name: what most owners call it.
        rows: of the public set that will stand for it, float32 [rows, frames, coefficients].
        columns: of the shared model's head, by the name of the weights: float32 [...]; empty in a round without one.
    """

    class_id: str
    name: str
    rows: Floats
    columns: Arrays = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class RoundResult:
    """What a round led to.

    Attributes:
        public_set: the one that came in, or grown by rows and classes.
        consensus: float32 [samples, classes] of that public set; None while the fleet has none.
        assignments: for the devices that reported new sounds.
        details: JSON-ready, for people: ``accuracies``, ``betas``, ``plain_mean``, ``discovery``, ``aggregation``.
        weights: the shared model's new weights; None in a round without one.
        state: what the next round's aggregation gets to see.
        prototypes: the fleet's new prototypes; None: they stay as they are.
        proposals: new classes that wait for an operator; assignments may name them.
    """

    public_set: PublicSet
    consensus: Floats | None
    assignments: tuple[Assigned, ...]
    details: dict[str, Any]
    weights: Arrays | None = None
    state: Arrays = field(default_factory=dict)
    prototypes: FleetPrototypes | None = None
    proposals: tuple[Proposal, ...] = ()
