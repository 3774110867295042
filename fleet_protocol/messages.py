"""The messages between devices and the aggregator, as standard dataclasses.

FastAPI validates them on the server; :func:`parse` reads them on the device, without pydantic. Unknown keys are
ignored, so that an older device can talk to a newer aggregator.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import dacite

from fleet_protocol.errors import MessageError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T")

RoundState = Literal["open", "done", "failed"]
WorkKind = Literal["contribute", "learn"]


def parse(kind: type[T], document: object) -> T:
    """Build a message from decoded JSON.

    Raises MessageError: naming the message, the field and what was wrong with it.
    """
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
    """A class that the fleet knows.

    Attributes:
        class_id: Stable identifier, unique in the fleet.
        name: Name for people; a discovered class has a provisional name until somebody names it.
        discovered_in: Round in which it was discovered; None for a class of the first public set.
    """

    class_id: str
    name: str
    discovered_in: int | None = None


@dataclass(frozen=True, kw_only=True)
class Versions:
    """What a device runs, for who keeps a fleet up to date; "" where it does not say.

    Attributes:
        program: Version of Auricle.
        bundle: Name of its bundle, where that is one of the ready ones.
        bundle_sha256: Digest of the bundle's file.
        runtime: Name and version of its TensorFlow Lite runtime.
        python: Version of Python.
        system: Name of its operating system, and its processor.
    """

    program: str = ""
    bundle: str = ""
    bundle_sha256: str = ""
    runtime: str = ""
    python: str = ""
    system: str = ""


@dataclass(frozen=True, kw_only=True)
class Enrolment:
    """What a device says of itself when it enrols; the same device may say it again at any time.

    Attributes:
        device_id: 32 hex digits that the device drew itself, once.
        secret: Secret of at least 32 characters that the device drew itself; its bearer token from then on.
        name: Name for people.
        architecture: Architecture of its bundle.
        features: Feature settings in full (``FeatureSettings.to_json``), so that a mismatch can be explained.
        labels: Names of the labels that its owner taught it, where the owner shares them; none of the fleet's own.
        clips: Number of its clips to learn from; 0 where it does not say.
        network: Digest of its bundle's network (``Manifest.network``); empty where it does not say: the architecture's
            name then tells whether it has the shared model's.
        trouble: Reason why it could not contribute to the last round that asked it, for people; "" where nothing is
            wrong.
        versions: Versions of what it runs; devices of older releases do not say.
    """

    device_id: str
    secret: str
    name: str
    architecture: str
    features: dict[str, Any]
    labels: tuple[str, ...] = ()
    clips: int = 0
    network: str = ""
    trouble: str = ""
    versions: Versions = Versions()


@dataclass(frozen=True)
class Enrolled:
    """The aggregator's answer to an enrolment.

    Attributes:
        device_id: Identifier of the device.
        classes: Classes of the fleet, so that labels can be linked by name.
        waiting: Whether an operator has yet to admit the device.
    """

    device_id: str
    classes: tuple[ClassInfo, ...]
    waiting: bool = False


@dataclass(frozen=True)
class Authority:
    """The certificate (PEM) of the aggregator's own authority."""

    certificate: str


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
    """What a round does: every part chosen by name with its settings.

    Attributes:
        local: Local method: what a device does with its data.
        aggregation: Rule by which the aggregator combines the uploads.
        selection: Selection of the devices that take part.
        deadline_s: Seconds after which the round closes.
        quorum: Share of the selected devices, 0 to 1, without which a round that reached its deadline fails.
        seed: Seed of everything random in the round.
        personalisation: Personalisation: how the round's result becomes a model of each device's own.
    """

    local: Choice
    aggregation: Choice
    selection: Choice
    deadline_s: float
    quorum: float
    seed: int
    personalisation: Choice = field(default_factory=lambda: Choice("none"))


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


@dataclass(frozen=True, kw_only=True)
class Work:
    """What a device is asked to do next.

    Attributes:
        kind: ``contribute``: train and upload; ``learn``: learn from the round's result.
        round_id: Number of the round, from 1.
        plan: Plan of the round.
        public_set: Digest of the public set's blob.
        consensus: Digest of the fleet's scores on that public set; None before the first round has ended.
        classes: Every class of the fleet.
        assignments: Classes that the device's new sounds became, for ``learn``.
        model: Digest of the shared model's bundle; None where what the device is asked for needs none. Slot k of its
            head is the k-th of ``classes``.
        weights: Digest of the shared model's present weights; None: the bundle's own.
        fine_tune: Whether, for ``learn``, the device shall fine-tune the result on its own clips, as the plan's
            personalisation says, and listen with the better of the two.
        fleet_weights: Digest, for ``learn`` from a group's round, of the whole fleet's weights, which count as the
            global model then; None: they are ``weights``.
        prototypes: Digest of the fleet's prototypes; None before a round of the strategy ``prototypes`` has ended.
        merged: Classes that are others of ``classes`` by now.
        retired: Classes that an operator gave up. A label that is one of them is its owner's alone, and not reported.
            A class that is neither here nor in ``classes`` nor ``merged`` is none: its sound is reported again.
    """

    kind: WorkKind
    round_id: int
    plan: RoundPlan
    public_set: str
    consensus: str | None
    classes: tuple[ClassInfo, ...]
    assignments: tuple[ClassAssignment, ...] = ()
    model: str | None = None
    weights: str | None = None
    fine_tune: bool = False
    fleet_weights: str | None = None
    prototypes: str | None = None
    merged: tuple[MergedClass, ...] = ()
    retired: tuple[str, ...] = ()


@dataclass(frozen=True)
class ClassReport:
    """A new sound that a device met, described by an upload's arrays.

    Attributes:
        slot: Slot that the device gave it; the aggregator's answer names it.
        name: Owner's word, where the owner shares it; used to name the class and to count, never to match.
        clips: Number of clips that it was learned from.
    """

    slot: int
    name: str | None
    clips: int


@dataclass(frozen=True, kw_only=True)
class Update:
    """The document of an upload; its arrays are described in docs/protocol.md.

    Attributes:
        round_id: Number of the round that it is for.
        device_id: Identifier of the device that sends it.
        features: Digest of the feature settings.
        public_set: Digest of the public set that was scored.
        classes: Classes of the score matrix' columns, in order.
        clips: Number of clips that the device trained on in this round.
        reports: New sounds; the rows of the arrays that describe classes follow ``known`` and then these, in order.
        known: Classes that are described too, as reference classes for the new ones.
        metrics: Measurements of the device, for people; never used in the aggregation.
        label_entropy: Entropy of the clips' distribution over the labels, in nats.
        negatives: Class of each row of the array ``negatives``, which its owner said is none of that class's sounds.
    """

    round_id: int
    device_id: str
    features: str
    public_set: str
    classes: tuple[str, ...]
    clips: int
    reports: tuple[ClassReport, ...] = ()
    known: tuple[str, ...] = ()
    metrics: dict[str, float] = field(default_factory=dict)
    label_entropy: float = 0.0
    negatives: tuple[str, ...] = ()


@dataclass(frozen=True)
class Receipt:
    """The aggregator has an upload safely on its disk."""

    round_id: int
    sha256: str
    repeated: bool


@dataclass(frozen=True)
class Learned:
    """A device finished learning from a round's result.

    Attributes:
        round_id: Number of the round.
        metrics: Measurements of the device, for people.
        personalised: Whether it was asked to fine-tune the result, and did.
        kept_own: Whether it listens with a model of its own, because the result is worse for it.
    """

    round_id: int
    metrics: dict[str, float] = field(default_factory=dict)
    personalised: bool = False
    kept_own: bool = False


@dataclass(frozen=True)
class ErrorDetail:
    """What went wrong.

    Attributes:
        code: Stable name, for programs.
        message: Text for people: the thing, the value given, the way out.
    """

    code: str
    message: str


@dataclass(frozen=True)
class ErrorReply:
    """The one shape of every HTTP error."""

    error: ErrorDetail
