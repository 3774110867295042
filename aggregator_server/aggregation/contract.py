"""What goes into an aggregation and what comes out of it: plain data, the same for server and simulator."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aggregator_server.aggregation.input_bounds import FeatureRange
from aggregator_server.limits import CLASSES
from fleet_protocol.bundle.bundle_file import Manifest
from fleet_protocol.bundle.feature_settings import FeatureSettings
from fleet_protocol.messages.private_rounds import Member, RevealedShares
from fleet_protocol.messages.public_set import PublicSet
from fleet_protocol.messages.rest import RoundPlan, Update
from fleet_protocol.numbers.arrays import Floats
from fleet_protocol.numbers.fleet_prototypes import FleetPrototypes
from fleet_protocol.numbers.tensors import Arrays


@dataclass(frozen=True)
class UploadTerms:
    """What an upload must fit, known without opening any array.

    Attributes:
        public_set: Digest of the round's public set.
        samples: Number of rows of the public set.
        class_ids: The fleet's classes in column order.
        settings: Settings of the public set's features.
        manifest: Manifest of the shared model; None in a round without one.
        feature_range: Function that reads the range of the public recordings' features, to which descriptions of sounds
            must keep; None where nobody knows it.
        plan: Plan of the round; None where nobody knows it.
    """

    public_set: str
    samples: int
    class_ids: tuple[str, ...]
    settings: FeatureSettings
    manifest: Manifest | None = None
    feature_range: Callable[[], FeatureRange] | None = None
    plan: RoundPlan | None = None


@dataclass(frozen=True)
class Contribution:
    """One device's checked upload.

    Attributes:
        update: Document of the upload; without ``metrics``, which are for people.
        read: Function that loads its arrays, read-only, as docs/protocol.md describes them. All uploads together may be
            large: read one after the other, and copy what is to stay. Any thread may call it.
    """

    update: Update
    read: Callable[[], Arrays]


@dataclass(frozen=True)
class SharedModel:
    """The shared model that a round trains.

    Attributes:
        weights: Weights that the devices started from, by name.
        state: State that the aggregation kept from the round before, such as an optimiser's moments; empty at first.
    """

    manifest: Manifest
    weights: Arrays
    state: Arrays


@dataclass(frozen=True, kw_only=True)
class ClassTerms:
    """What a round may do about classes.

    Attributes:
        max_classes: Largest number of classes; the shared model's head may have fewer slots than other fleets allow.
        reserved: Identifiers of all classes that the fleet had, or may get: no other class may have one of them.
        merged: Classes that an operator merged, and the classes that they became.
        alone: Number of classes, by device, that it alone sent until now and no operator approved.
    """

    max_classes: int = CLASSES
    reserved: frozenset[str] = frozenset()
    merged: Mapping[str, str] = field(default_factory=dict)
    alone: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class PrivateGroup:
    """A group of a private round: what its devices sent, in the order of the deal.

    Attributes:
        index: Number of the group, from 0.
        shares: Shares of its two secrets that a device encrypted for neighbours, by the device and the neighbour.
        commitments: Digest of the seed of its self mask, by device that sent shares.
        uploaded: Devices whose masked upload arrived in time.
        revealed: Shares that a device revealed after that.
        dropped: Why the group could not go on; None where it could.
    """

    index: int
    members: tuple[Member, ...]
    shares: Mapping[str, Mapping[str, str]]
    commitments: Mapping[str, str]
    uploaded: tuple[str, ...]
    revealed: Mapping[str, RevealedShares]
    dropped: str | None

    @property
    def taking_part(self) -> tuple[str, ...]:
        """Devices that sent shares."""
        return tuple(member.device_id for member in self.members if member.device_id in self.shares)


@dataclass(frozen=True, kw_only=True)
class RoundInputs:
    """Everything that an aggregation may use.

    Attributes:
        round_id: Number of the round; names what it discovers.
        plan: Plan with every setting filled in.
        public_set: Public set as the devices scored it, with the classes' present names.
        consensus: Consensus, float32 [samples, classes]; zeros before the first round has ended (f_G^0 = 0).
        contributions: Uploads in any order: the result does not depend on it.
        new_classes: Number of new classes, where whoever opened the round knows it.
        assigned: Class of each (device, slot) that earlier rounds recognised.
        model: Shared model; None in a round without one.
        prototypes: The fleet's prototypes before the round; None where it has none.
        state: State kept from the strategy's round before, in a round without a model; empty at first.
        revoked: Devices of whose earlier uploads nothing may count.
        private: Groups of a private round; None in another one.
        scratch: Folder on disk for temporary files of what does not fit the memory; None: the system's.
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
    prototypes: FleetPrototypes | None = None
    state: Arrays = field(default_factory=dict)
    revoked: frozenset[str] = frozenset()
    class_terms: ClassTerms = field(default_factory=ClassTerms)
    private: tuple[PrivateGroup, ...] | None = None
    scratch: Path | None = None


@dataclass(frozen=True)
class Assigned:
    """A device's new sound is this class of the fleet."""

    device_id: str
    slot: int
    class_id: str


@dataclass(frozen=True, kw_only=True)
class RoundResult:
    """What a round led to.

    Attributes:
        public_set: Public set of the inputs, or that one grown by rows and classes.
        consensus: Consensus, float32 [samples, classes], on that public set; None while the fleet has none.
        assignments: Classes for the devices that reported new sounds.
        details: JSON-ready, for people: ``accuracies``, ``betas``, ``plain_mean``, ``discovery``, ``aggregation``.
        weights: The shared model's new weights; None in a round without one.
        state: State for the next round's aggregation.
        prototypes: The fleet's new prototypes; None: they stay as they are.
        senders: By class, the devices whose description of it the fleet has, and whether each means the same sound as
            most; where a strategy does not say, whoever reported the class counts.
    """

    public_set: PublicSet
    consensus: Floats | None
    assignments: tuple[Assigned, ...]
    details: dict[str, Any]
    weights: Arrays | None = None
    state: Arrays = field(default_factory=dict)
    prototypes: FleetPrototypes | None = None
    senders: Mapping[str, Sequence[tuple[str, bool]]] = field(default_factory=dict)
