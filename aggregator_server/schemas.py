"""The messages between administrators and the server. Those of devices stand in fleet_protocol.messages."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field, fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

from fleet_protocol.messages import Choice, ClassInfo, RoundPlan, RoundState, Versions
from fleet_protocol.setting import Value

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")

# A misspelt field of a request is refused, not ignored, also within the request's parts.
_STRICT = {"extra": "forbid"}
Recognised = Literal["own", "taught", "public"]
"""Clips: a device's own that no round trains on; its own, which its models learned; recordings of the public set."""
Role = Literal["viewer", "operator", "admin"]
"""Each may do what those before it may."""
RECOMMENDED = "recommended"
"""Instead of a strategy's name: the one that serves a fleet's users best."""


def moment(seconds: float) -> datetime:
    """Return seconds since 1970 as a time in UTC."""
    return datetime.fromtimestamp(seconds, UTC)


def reply(kind: type[T], row: object, **differing: Any) -> T:  # noqa: ANN401  (of any field)
    """Return a message of a row's columns that its fields are called after; a number ``..._at`` becomes a time.

    ``differing`` gives the fields that no column is called after, or that have another value.
    """
    values = dict(differing)
    for name in (item.name for item in fields(kind)):
        if name not in values and hasattr(row, name):
            value = getattr(row, name)
            is_time = isinstance(value, float) and (name == "at" or name.endswith("_at"))
            values[name] = moment(value) if is_time else value
    return kind(**values)


@dataclass(frozen=True)
class Liveness:
    """The process answers; where it was asked whether it is ready, it can do its work too.

    Attributes:
        status: ``alive`` or ``ready``.
    """

    status: str


@dataclass(frozen=True)
class Health:
    """The server is up.

    Attributes:
        status: ``ok``, or ``storage_full`` where no upload is taken in because the disk is nearly full.
        version: Version of the program.
        instance: What the server drew at its start; no other one has it.
        open_round: Number of the round that is open.
        free_bytes: Room on the disk of the data folder.
        disk_bytes: Size of that disk.
    """

    status: str
    version: str
    instance: str
    open_round: int | None
    free_bytes: int
    disk_bytes: int


@dataclass(frozen=True, kw_only=True)
class ReputationInfo:
    """How a device behaved in the rounds so far.

    Attributes:
        counted: Number of its uploads that counted.
        screened: Number of its uploads that the screen dropped, because they stood out.
        refused: Number of rounds in which an upload of it was refused for its values.
        refusal: Reason of the last refusal.
        suspicion: Screened and refused uploads, less those that counted since; at 3 it is put in quarantine.
        quarantined_at: Time at which it was put in quarantine; None: it is not there.
        reason: Reason of the quarantine.
    """

    counted: int = 0
    screened: int = 0
    refused: int = 0
    refusal: str | None = None
    suspicion: int = 0
    quarantined_at: datetime | None = None
    reason: str | None = None


@dataclass(frozen=True, kw_only=True)
class ReasonRequest:
    """Why an operator changes a device.

    Attributes:
        reason: Reason for people.
    """

    reason: str


@dataclass(frozen=True, kw_only=True)
class DeviceInfo:
    """An enrolled device.

    Attributes:
        device_id: Identifier that the device drew.
        name: Name for people.
        architecture: Architecture of its bundle.
        features: Settings of its features.
        labels: Names of the labels that its owner taught it, where it shares them.
        clips: Number of clips that it last reported; 0 before it has reported any.
        trouble: Reason, as it says, why it could not contribute to the last round that asked it; "" where it could.
        enrolled_at: Time of its first enrolment.
        seen_at: Time of its last request, to half a minute.
        revoked_at: Time of its revocation, or of its leaving; None for an active device.
        group: Group of its invitation, for people.
        invitation: Number of its invitation; None if it enrolled with the enrolment token.
        waiting: Whether an operator has yet to admit it.
        conduct: Its reputation from the rounds so far.
        versions: Versions that it runs, as it says; empty texts where it does not.
        outdated: Whether it runs an older program than the server.
    """

    device_id: str
    name: str
    architecture: str
    features: dict[str, Any]
    labels: tuple[str, ...]
    clips: int
    enrolled_at: datetime
    seen_at: datetime
    revoked_at: datetime | None
    group: str | None
    invitation: int | None
    waiting: bool
    trouble: str = ""
    conduct: ReputationInfo = field(default_factory=ReputationInfo)
    versions: Versions = field(default_factory=Versions)
    outdated: bool = False


@dataclass(frozen=True, kw_only=True)
class TokenInfo:
    """A person's token, without its text.

    Attributes:
        token_id: Number of the token, from 1.
        name: Name of the person, or of what uses it.
        role: Role: viewer, operator or admin.
        made_at: Time at which it was made.
        expires_at: Time from which it is refused; None: it does not expire.
        revoked_at: Time of its revocation; None for one that is not revoked.
    """

    token_id: int
    name: str
    role: Role
    made_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None


@dataclass(frozen=True, kw_only=True)
class NewToken:
    """A token that was just made.

    Attributes:
        info: The token as in a list.
        token: Its text. The server keeps a hash alone, so it is shown this once.
    """

    info: TokenInfo
    token: str


@dataclass(frozen=True, kw_only=True)
class TokenRequest:
    """The token that an administrator wants.

    Attributes:
        name: Name of the person, or of what uses it.
        role: Role: viewer, operator or admin.
        expires_s: Seconds after which it is refused; None: it does not expire.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = _STRICT
    name: str
    role: Role
    expires_s: float | None = 365 * 86_400.0


@dataclass(frozen=True, kw_only=True)
class InvitationInfo:
    """An invitation, without its text.

    Attributes:
        invitation_id: Number of the invitation, from 1.
        devices: Number of devices that it lets in.
        used: Number of devices that enrolled with it.
        group: Group that these devices belong to, for people.
        made_at: Time at which it was made.
        expires_at: Time from which it lets nobody in; None: it does not expire.
        revoked_at: Time of its revocation; None for one that is not revoked.
    """

    invitation_id: int
    devices: int
    used: int
    group: str | None
    made_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None


@dataclass(frozen=True, kw_only=True)
class NewInvitation:
    """An invitation that was just made.

    Attributes:
        info: The invitation as in a list.
        token: Its text. The server keeps a hash alone, so it is shown this once.
    """

    info: InvitationInfo
    token: str


@dataclass(frozen=True, kw_only=True)
class InvitationRequest:
    """The invitation that an administrator wants.

    Attributes:
        devices: Number of devices that it lets in.
        expires_s: Seconds after which it lets nobody in; None: it does not expire.
        group: Group that these devices belong to, for people.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = _STRICT
    devices: int = 1
    expires_s: float | None = 86_400.0
    group: str | None = None


@dataclass(frozen=True, kw_only=True)
class AuditEntry:
    """Something that happened, for people who want to explain it later.

    Attributes:
        audit_id: Number of the entry, from 1.
        at: Time at which it happened.
        who: Author: the name of a token, a device or an invitation; ``server`` for what happens by itself.
        address: Network address of the request; None where there was none.
        what: Kind of what happened.
        details: Things that it was done to.
    """

    audit_id: int
    at: datetime
    who: str
    address: str | None
    what: str
    details: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class PublicSetInfo:
    """The current public set, without its arrays.

    Attributes:
        version: Number of the version, from 1; a discovered class makes a new version.
        sha256: Digest of the blob.
        samples: Number of rows.
        synthetic: Number of rows that are data impressions.
        features: Settings of the features.
        classes: The fleet's classes in column order.
        consensus: Digest of the fleet's scores on it; None before the first round has ended.
    """

    version: int
    sha256: str
    samples: int
    synthetic: int
    features: dict[str, Any]
    classes: tuple[ClassInfo, ...]
    consensus: str | None


@dataclass(frozen=True, kw_only=True)
class ModelInfo:
    """The fleet's shared model.

    Attributes:
        version: Number of the publication, from 1.
        sha256: Blob of the bundle.
        architecture: Name of the architecture in the zoo.
        capacity: Number of slots of the head.
        parameters: Number of weights.
        weights: Blob of the present weights; None before the first round with the model, for the bundle's own.
    """

    version: int
    sha256: str
    architecture: str
    capacity: int
    parameters: int
    weights: str | None


@dataclass(frozen=True)
class ClassChange:
    """One change of a class.

    Attributes:
        name: The class's new name.
        merge_into: Class that it becomes one with.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = _STRICT
    name: str | None = None
    merge_into: str | None = None


@dataclass(frozen=True, kw_only=True)
class ClassReportInfo:
    """A sound of a device that became a class: the slot that the device gave it, and the round that recognised it."""

    device_id: str
    slot: int
    round_id: int


@dataclass(frozen=True, kw_only=True)
class ClassDetail:
    """A class that the fleet has or had.

    Attributes:
        class_id: Identifier; none is given twice.
        name: Name for people.
        discovered_in: Number of the round that discovered it; None for a class of the first public set.
        state: One of active, retired, merged, or undone (its round was).
        merged_into: Class that it was merged into.
        reports: Sounds of devices that became this class; those of labels of its name are not among them. At most the
            first 10 in the list of all classes, the first 200 of one class.
        reported_by: Number of devices that reported it.
    """

    class_id: str
    name: str
    discovered_in: int | None
    state: str
    merged_into: str | None
    reports: tuple[ClassReportInfo, ...]
    reported_by: int = 0


@dataclass(frozen=True)
class RoundRequest:
    """The round that an administrator wants.

    Attributes:
        strategy: Name of the strategy; ``recommended``: what serves this fleet's users best.
        settings: Settings of the strategy's local method; those left out take their defaults.
        aggregation: Method that combines the uploads, or only settings of the strategy's own one.
        deadline_s: Seconds after which the round closes.
        quorum: Share of the selected devices, 0 to 1, without which a round that reached its deadline fails.
        seed: Seed of everything random in the round.
        new_classes: Number of new classes among the reports, where it is known.
        selection: Method that selects the devices, or only settings of the strategy's own one.
        personalisation: Method that makes a model of each device's own from the result; None for the strategy's own.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = _STRICT
    strategy: str = RECOMMENDED
    _: KW_ONLY
    settings: dict[str, Value] = field(default_factory=dict)
    aggregation: Choice | dict[str, Value] = field(default_factory=dict)
    deadline_s: float = 600.0
    quorum: float = 0.5
    seed: int = 0
    new_classes: int | None = None
    selection: Choice | dict[str, Value] | None = None
    personalisation: Choice | None = None


@dataclass(frozen=True, kw_only=True)
class RoundSummary:
    """A round in a list.

    Attributes:
        round_id: Number of the round, from 1.
        state: State: open, done or failed.
        reason: Reason of the failure.
        strategy: Name of the strategy.
        opened_at: Time of the opening.
        deadline_at: Time at which the round closes at the latest; None for an operator's change.
        closed_at: Time of the end.
        selected: Number of devices that were selected.
        uploaded: Number of devices that uploaded.
        learned: Number of devices that applied the result, selected or not.
        kept_own: Number of those that listen with a model of their own, because the result is worse for them.
        training_loss: Median of the uploaded training losses; None before the round is done, and without any.
        follows: Number of the fleet's round that a group's round personalises.
        group: Index of the group whose round it is, 0 for the devices with the fewest clips.
        operation: Change in place of a round with devices, by an operator: merge, retire or restore.
        restores: Number of the round whose state was restored.
        undone_by: Number of the restoration since which this round does not count.
    """

    round_id: int
    state: RoundState
    reason: str | None
    strategy: str
    opened_at: datetime
    deadline_at: datetime | None
    closed_at: datetime | None
    selected: int
    uploaded: int
    learned: int
    kept_own: int
    training_loss: float | None
    follows: int | None
    group: int | None
    operation: str | None = None
    restores: int | None = None
    undone_by: int | None = None


@dataclass(frozen=True, kw_only=True)
class RecognitionInfo:
    """What a device recognises before a round and with its result.

    Attributes:
        of: Clips that it is about: own (no round trains on them), taught (own ones, which both models learned) or
            public.
        before: Share that the model recognised with which it listened before, in %; None: it had none, and the round
            made its first.
        after: Share that the round's result recognises, in %, also where the device kept its own model.
        classes_before: Number of classes among which the one chose.
        classes_after: Number of classes among which the other chose.
    """

    of: Recognised
    before: float | None
    after: float
    classes_before: int | None
    classes_after: int | None


@dataclass(frozen=True, kw_only=True)
class ParticipantInfo:
    """A device that was selected for a round.

    Attributes:
        device_id: The device.
        name: Its name for people.
        upload: Digest of its upload.
        uploaded_at: Time of its upload.
        clips: Number of clips that it trained on.
        metrics: Its measurements, as uploaded.
        learned: Whether it has learned from the result.
        personalised: Whether it fine-tuned the result on its own clips.
        kept_own: Whether it listens with a model of its own, because the result is worse for it.
        learned_metrics: Its measurements after learning.
        recognition: Shares that it recognises before the round and with its result, read from these.
    """

    device_id: str
    name: str
    upload: str | None
    uploaded_at: datetime | None
    clips: int | None
    metrics: dict[str, float]
    learned: bool
    personalised: bool
    kept_own: bool
    learned_metrics: dict[str, float]
    recognition: tuple[RecognitionInfo, ...] = ()


@dataclass(frozen=True)
class ReportInfo:
    """A device's report of a new sound."""

    device_id: str
    slot: int
    name: str | None


@dataclass(frozen=True)
class GroupInfo:
    """Reports that are one class: new in this round, or ``known`` to the fleet under another name."""

    class_id: str
    members: tuple[int, ...]
    known: bool = False


@dataclass(frozen=True)
class DiscoveryInfo:
    """The classes that a round's reports turned out to be.

    Attributes:
        reports: Reports that ``members`` and ``left_open`` are indices of.
        groups: Groups of reports, one for each class that they are.
        left_open: Reports that found no class: another sound of their device is in that group, or a bound was reached.
        details: Details of the clustering: ``compared``, indices of the reports that were compared with each other;
            ``similarity`` of every two, where they are few.
        limits: A sentence for each bound that kept reports from becoming classes.
    """

    reports: tuple[ReportInfo, ...]
    groups: tuple[GroupInfo, ...]
    left_open: tuple[int, ...]
    details: dict[str, Any]
    limits: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class RoundDetail:
    """A round with all details.

    Attributes:
        summary: The round as in a list.
        plan: The round's plan.
        new_classes: Number of new classes, as requested.
        public_set: Digest of the public set that was scored.
        consensus: Digest of the consensus that the round started from.
        result_public_set: Digest of the public set after the round.
        result_consensus: Digest of the consensus after the round.
        participants: The selected devices.
        accuracies: Accuracy of every contributor on the public set, 0 to 1.
        accuracy_classes: Number of classes among which each of these was measured.
        betas: Weights of each uploaded class's owners; empty in a round of more than 10,000 devices.
        plain_mean: Classes whose weights were all 0, so that the plain mean was taken.
        discovery: Outcome of the reports; None where nothing new was reported.
        model: Blob of the shared model's bundle; None in a round without one.
        weights: Blob of the weights that the round started from; None for the bundle's own.
        result_weights: Blob of the weights after the round.
        prototypes: Blob of the fleet's prototypes before the round.
        result_prototypes: Blob of the fleet's prototypes after the round.
        aggregation: Details of the aggregation rule, such as the devices that it left out.
        quarantined: Devices that the round put in quarantine.
        groups: Devices of each group, fewest clips first; empty without group-balanced personalisation.
        group_rounds: Number of rounds within each group.
        damaged: Devices whose uploads were damaged on the server's disk, so that the round went on without them.
        operation: Details of what an operator did.
    """

    summary: RoundSummary
    plan: RoundPlan
    new_classes: int | None
    public_set: str
    consensus: str | None
    result_public_set: str | None
    result_consensus: str | None
    participants: tuple[ParticipantInfo, ...]
    accuracies: dict[str, float]
    betas: dict[str, dict[str, float]]
    plain_mean: tuple[str, ...]
    discovery: DiscoveryInfo | None
    model: str | None
    weights: str | None
    result_weights: str | None
    prototypes: str | None
    result_prototypes: str | None
    aggregation: dict[str, Any]
    quarantined: tuple[str, ...]
    groups: tuple[tuple[str, ...], ...]
    group_rounds: tuple[int, ...]
    damaged: tuple[str, ...] = ()
    operation: dict[str, Any] = field(default_factory=dict)
    accuracy_classes: dict[str, int] = field(default_factory=dict)
