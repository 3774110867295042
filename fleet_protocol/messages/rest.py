"""The messages between devices and the aggregator, as standard dataclasses.

FastAPI validates them on the server; :func:`parse` reads them on the device, without pydantic. Unknown keys are
ignored, so that an older device can talk to a newer aggregator.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import dacite

from fleet_protocol.errors import MessageError
from fleet_protocol.messages.field_meaning import Doc
from fleet_protocol.messages.private_rounds import PrivatePlan, PrivateStage, PrivateWork

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T")

RoundState = Literal["open", "done", "failed"]
WorkKind = PrivateStage | Literal["learn"]
# Why a device does not listen for a class: it would be heard where it is not; the owner's sounds would be taken for it.
Refusal = Literal["false_alarms", "own_sounds"]


def parse(kind: type[T], document: object) -> T:
    """Build a message from decoded JSON. Raises MessageError: names the message, the field and what is wrong."""
    if not isinstance(document, Mapping):
        raise MessageError(f"a {kind.__name__} must be a JSON object, not {type(document).__name__}")
    try:
        return dacite.from_dict(kind, document, dacite.Config(cast=[tuple]))
    except (dacite.DaciteError, TypeError, ValueError, RecursionError) as error:  # a cast to tuple raises the next two
        raise MessageError(f"not a valid {kind.__name__}: {error}") from error


def to_json(message: DataclassInstance) -> dict[str, Any]:
    """Return a message as a JSON-ready dictionary."""
    return dataclasses.asdict(message)


@dataclass(frozen=True)
class ClassInfo:
    """A class that the fleet knows."""

    class_id: Annotated[str, Doc("Stable identifier, unique in the fleet")]
    name: Annotated[str, Doc("Name for people; a discovered class has a provisional name until somebody names it")]
    discovered_in: Annotated[int | None, Doc("Round in which it was discovered; None: of the first public set")] = None


@dataclass(frozen=True, kw_only=True)
class Versions:
    """What a device runs, for who keeps a fleet up to date; "" where it does not say."""

    program: Annotated[str, Doc("Version of Auricle")] = ""
    bundle: Annotated[str, Doc("Name of its bundle, where that is one of the ready ones")] = ""
    bundle_sha256: Annotated[str, Doc("Digest of the bundle's file")] = ""
    runtime: Annotated[str, Doc("Name and version of its TensorFlow Lite runtime")] = ""
    python: Annotated[str, Doc("Version of Python")] = ""
    system: Annotated[str, Doc("Name of its operating system, and its processor")] = ""


@dataclass(frozen=True, kw_only=True)
class Enrolment:
    """What a device says of itself when it enrols; the same device may say it again at any time."""

    device_id: Annotated[str, Doc("32 hex digits that the device drew itself, once")]
    secret: Annotated[str, Doc("At least 32 characters that the device drew itself; its bearer token from then on")]
    name: Annotated[str, Doc("Name for people")]
    architecture: Annotated[str, Doc("Architecture of its bundle")]
    # as FeatureSettings.to_json
    features: Annotated[dict[str, Any], Doc("Feature settings in full, so that a mismatch can be explained")]
    labels: Annotated[tuple[str, ...], Doc("Labels that its owner taught it and shares; none of the fleet's own")] = ()
    clips: Annotated[int, Doc("Number of its clips to learn from; 0 where it does not say")] = 0
    # Manifest.network; without it the architecture's name tells whether the device has the shared model's
    network: Annotated[str, Doc("Digest of its bundle's network; empty where it does not say")] = ""
    trouble: Annotated[str, Doc('Why it could not contribute to the last round, for people; "" where it could')] = ""
    versions: Annotated[Versions, Doc("Versions of what it runs, where it says")] = Versions()
    signing_key: Annotated[
        str, Doc("Its Ed25519 public key, 64 hex digits; empty where it cannot take part in private rounds")
    ] = ""


@dataclass(frozen=True)
class Enrolled:
    """The aggregator's answer to an enrolment."""

    device_id: Annotated[str, Doc("Identifier of the device")]
    classes: Annotated[tuple[ClassInfo, ...], Doc("Classes of the fleet, so that labels can be linked by name")]
    waiting: Annotated[bool, Doc("Whether an operator has yet to admit the device")] = False


@dataclass(frozen=True)
class Authority:
    """The certificate (PEM) of the aggregator's own authority."""

    certificate: str


@dataclass(frozen=True)
class DeviceName:
    """What a device reads of the answer that describes it."""

    device_id: str


@dataclass(frozen=True)
class PublicSetName:
    """What a device reads of the answer that describes the public set: the digest of its blob."""

    sha256: str


@dataclass(frozen=True)
class Choice:
    """One part of a round plan: a method by name, with its settings."""

    name: str
    settings: dict[str, float | int | str | bool] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class RoundPlan:
    """What a round does: every part chosen by name with its settings."""

    local: Annotated[Choice, Doc("Local method: what a device does with its data")]
    aggregation: Annotated[Choice, Doc("Rule by which the aggregator combines the uploads")]
    selection: Annotated[Choice, Doc("Selection of the devices that take part")]
    deadline_s: Annotated[float, Doc("Seconds after which the round closes")]
    quorum: Annotated[float, Doc("Share of the selected devices, 0 to 1, without which a round fails at its deadline")]
    seed: Annotated[int, Doc("Seed of everything random in the round")]
    personalisation: Annotated[Choice, Doc("How the round's result becomes a model of each device's own")] = field(
        default_factory=lambda: Choice("none")
    )
    private: Annotated[PrivatePlan | None, Doc("How devices hide their numbers in sums; None: they do not")] = None


@dataclass(frozen=True)
class ClassAssignment:
    """The aggregator recognised a device's report: the slot that the device gave a new sound is this class."""

    slot: int
    class_id: str


@dataclass(frozen=True)
class MergedClass:
    """An operator merged a class into another: what was linked to the one is the other now."""

    class_id: str
    into: str


@dataclass(frozen=True)
class ClassBacking:
    """Who stands behind a class that the fleet discovered."""

    class_id: Annotated[str, Doc("Identifier of the class")]
    devices: Annotated[
        int, Doc("Number of different devices that sent it and mean one sound, up to 32; none revoked or quarantined")
    ]
    approved: Annotated[bool, Doc("Whether an operator approved it")] = False
    quarantined: Annotated[bool, Doc("Whether most devices refused it, and an operator has yet to approve it")] = False


@dataclass(frozen=True, kw_only=True)
class Work:
    """What a device is asked to do next."""

    kind: Annotated[
        WorkKind,
        Doc(
            "``contribute``: train and upload; ``learn``: learn from the round's result; the others are stages of a "
            "private round"
        ),
    ]
    round_id: Annotated[int, Doc("Number of the round, from 1")]
    plan: Annotated[RoundPlan, Doc("Plan of the round")]
    public_set: Annotated[str, Doc("Digest of the public set's blob")]
    consensus: Annotated[str | None, Doc("Digest of the fleet's scores on that public set; None: none yet")]
    classes: Annotated[tuple[ClassInfo, ...], Doc("Every class of the fleet; slot k of the model's head is the k-th")]
    assignments: Annotated[
        tuple[ClassAssignment, ...], Doc("Classes that the device's new sounds became, for ``learn``")
    ] = ()
    model: Annotated[str | None, Doc("Digest of the shared model's bundle; None where the work needs none")] = None
    weights: Annotated[str | None, Doc("Digest of the shared model's present weights; None: the bundle's own")] = None
    # As the plan's personalisation says
    fine_tune: Annotated[bool, Doc("``learn``: fine-tune on own clips too, and listen with the better of two")] = False
    # From a group's round; they count as the global model then
    fleet_weights: Annotated[
        str | None, Doc("``learn``: digest of the whole fleet's weights; None: they are ``weights``")
    ] = None
    prototypes: Annotated[
        str | None, Doc("Digest of the fleet's prototypes; None before a round of ``prototypes``")
    ] = None
    merged: Annotated[tuple[MergedClass, ...], Doc("Classes that are others of ``classes`` by now")] = ()
    # A label that is one of them is its owner's alone, and not reported. A class that is neither here nor in `classes`
    # nor `merged` is none: its sound is reported again.
    retired: Annotated[tuple[str, ...], Doc("Classes that an operator gave up: such labels are not reported")] = ()
    backing: Annotated[tuple[ClassBacking, ...], Doc("Who stands behind each class that the fleet discovered")] = ()
    devices_needed: Annotated[int, Doc("Number of devices that must have sent a class before others listen for it")] = 2
    private: Annotated[PrivateWork | None, Doc("What a private round's stage needs; None in other work")] = None


@dataclass(frozen=True)
class ClassReport:
    """A new sound that a device met, described by an upload's arrays."""

    slot: Annotated[int, Doc("Slot that the device gave it; the aggregator's answer names it")]
    name: Annotated[str | None, Doc("Owner's word, where shared; to name the class and to count, never to match")]
    clips: Annotated[int, Doc("Number of clips that it was learned from")]


@dataclass(frozen=True, kw_only=True)
class Update:
    """The document of an upload; its arrays are described in docs/protocol.md."""

    round_id: int  # Number of the round that it is for
    device_id: str  # Identifier of the device that sends it
    features: str  # Digest of the feature settings
    public_set: str  # Digest of the public set that was scored
    classes: tuple[str, ...]  # Classes of the score matrix' columns, in order
    clips: int  # Number of clips that the device trained on in this round
    # New sounds; the rows of the arrays that describe classes follow ``known`` and then these, in order
    reports: tuple[ClassReport, ...] = ()
    known: tuple[str, ...] = ()  # Classes that are described too, as reference classes for the new ones
    metrics: dict[str, float] = field(default_factory=dict)  # For people; never used in the aggregation
    label_entropy: float = 0.0  # Entropy of the clips' distribution over the labels, in nats
    # Class of each row of the array ``negatives``, which its owner said is none of that class's sounds
    negatives: tuple[str, ...] = ()


@dataclass(frozen=True)
class Receipt:
    """The aggregator has an upload safely on its disk."""

    round_id: int
    sha256: str
    repeated: bool


@dataclass(frozen=True)
class Learned:
    """A device finished learning from a round's result."""

    round_id: Annotated[int, Doc("Number of the round")]
    metrics: Annotated[dict[str, float], Doc("Measurements of the device, for people")] = field(default_factory=dict)
    personalised: Annotated[bool, Doc("Whether it was asked to fine-tune the result, and did")] = False
    kept_own: Annotated[bool, Doc("Whether it listens with a model of its own, since the result is worse for it")] = (
        False
    )
    refused: Annotated[dict[str, Refusal], Doc("Why it does not listen for classes that it tried, by class")] = field(
        default_factory=dict
    )


@dataclass(frozen=True)
class ErrorDetail:
    """What went wrong."""

    code: Annotated[str, Doc("Stable name, for programs")]
    message: Annotated[str, Doc("Text for people: the thing, the value given, the way out")]


@dataclass(frozen=True)
class ErrorReply:
    """The one shape of every HTTP error."""

    error: ErrorDetail
