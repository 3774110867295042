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
    """What an upload must fit, known without opening any array."""

    public_set: str  # Digest of the round's public set
    samples: int  # Number of rows of the public set
    class_ids: tuple[str, ...]  # The fleet's classes in column order
    settings: FeatureSettings  # Settings of the public set's features
    manifest: Manifest | None = None  # Manifest of the shared model; None in a round without one
    # Function that reads the range of the public recordings' features, to which descriptions of sounds must keep; None
    # where nobody knows it
    feature_range: Callable[[], FeatureRange] | None = None
    plan: RoundPlan | None = None  # Plan of the round; None where nobody knows it


@dataclass(frozen=True)
class Contribution:
    """One device's checked upload."""

    update: Update  # Document of the upload; without ``metrics``, which are for people
    # Function that loads its arrays, read-only, as docs/protocol.md describes them. All uploads together may be large:
    # read one after the other, and copy what is to stay. Any thread may call it
    read: Callable[[], Arrays]


@dataclass(frozen=True)
class SharedModel:
    """The shared model that a round trains."""

    manifest: Manifest
    weights: Arrays  # Weights that the devices started from, by name
    # State that the aggregation kept from the round before, such as an optimiser's moments; empty at first
    state: Arrays


@dataclass(frozen=True, kw_only=True)
class ClassTerms:
    """What a round may do about classes."""

    # Largest number of classes; the shared model's head may have fewer slots than other fleets allow
    max_classes: int = CLASSES
    # Identifiers of all classes that the fleet had, or may get: no other class may have one of them
    reserved: frozenset[str] = frozenset()
    # Classes that an operator merged, and the classes that they became
    merged: Mapping[str, str] = field(default_factory=dict)
    # Number of classes, by device, that it alone sent until now and no operator approved
    alone: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class PrivateGroup:
    """A group of a private round: what its devices sent, in the order of the deal."""

    index: int  # Number of the group, from 0
    members: tuple[Member, ...]
    # Shares of its two secrets that a device encrypted for neighbours, by the device and the neighbour
    shares: Mapping[str, Mapping[str, str]]
    commitments: Mapping[str, str]  # Digest of the seed of its self mask, by device that sent shares
    uploaded: tuple[str, ...]  # Devices whose masked upload arrived in time
    revealed: Mapping[str, RevealedShares]  # Shares that a device revealed after that
    dropped: str | None  # Why the group could not go on; None where it could

    @property
    def taking_part(self) -> tuple[str, ...]:
        """Devices that sent shares."""
        return tuple(member.device_id for member in self.members if member.device_id in self.shares)


@dataclass(frozen=True, kw_only=True)
class RoundInputs:
    """Everything that an aggregation may use."""

    round_id: int  # Number of the round; names what it discovers
    plan: RoundPlan  # Plan with every setting filled in
    public_set: PublicSet  # Public set as the devices scored it, with the classes' present names
    consensus: Floats  # Consensus, float32 [samples, classes]; zeros before the first round has ended (f_G^0 = 0)
    contributions: tuple[Contribution, ...]  # Uploads in any order: the result does not depend on it
    new_classes: int | None = None  # Number of new classes, where whoever opened the round knows it
    # Class of each (device, slot) that earlier rounds recognised
    assigned: Mapping[tuple[str, int], str] = field(default_factory=dict)
    model: SharedModel | None = None  # Shared model; None in a round without one
    has_consensus: bool = True
    prototypes: FleetPrototypes | None = None  # The fleet's prototypes before the round; None where it has none
    # State kept from the strategy's round before, in a round without a model; empty at first
    state: Arrays = field(default_factory=dict)
    revoked: frozenset[str] = frozenset()  # Devices of whose earlier uploads nothing may count
    class_terms: ClassTerms = field(default_factory=ClassTerms)
    private: tuple[PrivateGroup, ...] | None = None  # Groups of a private round; None in another one
    # Folder on disk for temporary files of what does not fit the memory; None: the system's
    scratch: Path | None = None


@dataclass(frozen=True)
class Assigned:
    """A device's new sound is this class of the fleet."""

    device_id: str
    slot: int
    class_id: str


@dataclass(frozen=True, kw_only=True)
class RoundResult:
    """What a round led to."""

    public_set: PublicSet  # Public set of the inputs, or that one grown by rows and classes
    consensus: Floats | None  # Consensus, float32 [samples, classes], on that public set; None while the fleet has none
    assignments: tuple[Assigned, ...]  # Classes for the devices that reported new sounds
    # JSON-ready, for people: ``accuracies``, ``betas``, ``plain_mean``, ``discovery``, ``aggregation``
    details: dict[str, Any]
    weights: Arrays | None = None  # The shared model's new weights; None in a round without one
    state: Arrays = field(default_factory=dict)  # State for the next round's aggregation
    prototypes: FleetPrototypes | None = None  # The fleet's new prototypes; None: they stay as they are
    # By class, the devices whose description of it the fleet has, and whether each means the same sound as most; where
    # a strategy does not say, whoever reported the class counts
    senders: Mapping[str, Sequence[tuple[str, bool]]] = field(default_factory=dict)
