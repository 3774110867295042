"""The messages between administrators and the server. Those of devices stand in fleet_protocol.messages.rest."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field, fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeVar

from fleet_protocol.messages.field_meaning import Doc
from fleet_protocol.messages.private_rounds import PrivateStage
from fleet_protocol.messages.rest import Choice, ClassInfo, RoundPlan, RoundState, Versions
from fleet_protocol.methods.setting import Value

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")

# A misspelt field of a request is refused, not ignored, also within the request's parts.
_STRICT = {"extra": "forbid"}
Recognised = Literal["own", "taught", "public"]
"""Clips: a device's own that no round trains on; its own, which its models learned; recordings of the public set."""
PartState = Literal["waiting", "late", "uploaded", "missing", "learned", "kept_own"]
"""What a device has done in a round so far; after the round it is ``missing`` without an upload."""
Role = Literal["viewer", "operator", "admin"]  # each may do what those before it may
RECOMMENDED = "recommended"  # instead of a strategy's name: the one that serves a fleet's users best


def reply(kind: type[T], row: object, **differing: Any) -> T:  # noqa: ANN401  (of any field)
    """Return a message of a row's columns that its fields are called after; a number ``..._at`` becomes a time.

    ``differing`` gives the fields that no column is called after, or that have another value.
    """
    values = dict(differing)
    for name in (item.name for item in fields(kind)):
        if name not in values and hasattr(row, name):
            value = getattr(row, name)
            is_time = isinstance(value, float) and (name == "at" or name.endswith("_at"))
            values[name] = datetime.fromtimestamp(value, UTC) if is_time else value
    return kind(**values)


@dataclass(frozen=True)
class Liveness:
    """The process answers; where it was asked whether it is ready, it can do its work too."""

    status: Annotated[str, Doc("``alive`` or ``ready``")]


@dataclass(frozen=True)
class Health:
    """The server is up."""

    status: Annotated[str, Doc("``ok``, or ``storage_full``: the disk is nearly full, and no upload is taken in")]
    version: Annotated[str, Doc("Version of the program")]
    instance: Annotated[str, Doc("What the server drew at its start; no other one has it")]
    open_round: Annotated[int | None, Doc("Number of the round that is open")]
    free_bytes: Annotated[int, Doc("Room on the disk of the data folder")]
    disk_bytes: Annotated[int, Doc("Size of that disk")]


@dataclass(frozen=True, kw_only=True)
class ReputationInfo:
    """How a device behaved in the rounds so far."""

    counted: Annotated[int, Doc("Number of its uploads that counted")] = 0
    screened: Annotated[int, Doc("Number of its uploads that the screen dropped, because they stood out")] = 0
    refused: Annotated[int, Doc("Number of rounds in which an upload of it was refused for its values")] = 0
    refusal: Annotated[str | None, Doc("Reason of the last refusal")] = None
    suspicion: Annotated[int, Doc("Screened and refused uploads, less what counted since; 3: quarantine")] = 0
    quarantined_at: Annotated[datetime | None, Doc("When it was put in quarantine; None: it is not there")] = None
    reason: Annotated[str | None, Doc("Reason of the quarantine")] = None


@dataclass(frozen=True, kw_only=True)
class ReasonRequest:
    """Why an operator changes a device."""

    reason: Annotated[str, Doc("Reason for people")]


@dataclass(frozen=True, kw_only=True)
class DeviceInfo:
    """An enrolled device."""

    device_id: Annotated[str, Doc("Identifier that the device drew")]
    name: Annotated[str, Doc("Name for people")]
    architecture: Annotated[str, Doc("Architecture of its bundle")]
    features: Annotated[dict[str, Any], Doc("Settings of its features")]
    labels: Annotated[tuple[str, ...], Doc("Names of the labels that its owner taught it, where it shares them")]
    clips: Annotated[int, Doc("Number of clips that it last reported; 0 before it has reported any")]
    enrolled_at: Annotated[datetime, Doc("Time of its first enrolment")]
    seen_at: Annotated[datetime, Doc("Time of its last request, to half a minute")]
    revoked_at: Annotated[datetime | None, Doc("Time of its revocation, or of its leaving; None for an active device")]
    group: Annotated[str | None, Doc("Group of its invitation, for people")]
    invitation: Annotated[int | None, Doc("Number of its invitation; None if it enrolled with the enrolment token")]
    waiting: Annotated[bool, Doc("Whether an operator has yet to admit it")]
    trouble: Annotated[str, Doc('Why it could not contribute to the last round, as it says; "" where it could')] = ""
    conduct: Annotated[ReputationInfo, Doc("Its reputation so far")] = field(default_factory=ReputationInfo)
    versions: Annotated[Versions, Doc("What it runs, as it says; else empty texts")] = field(default_factory=Versions)
    outdated: Annotated[bool, Doc("Whether it runs an older program than the server")] = False


@dataclass(frozen=True, kw_only=True)
class TokenInfo:
    """A person's token, without its text."""

    token_id: Annotated[int, Doc("Number of the token, from 1")]
    name: Annotated[str, Doc("Name of the person, or of what uses it")]
    role: Annotated[Role, Doc("Role: viewer, operator or admin")]
    made_at: Annotated[datetime, Doc("When it was made")]
    expires_at: Annotated[datetime | None, Doc("Time from which it is refused; None: it does not expire")]
    revoked_at: Annotated[datetime | None, Doc("When it was revoked; None: it was not")]


@dataclass(frozen=True, kw_only=True)
class NewToken:
    """A token that was just made."""

    info: Annotated[TokenInfo, Doc("The token as in a list")]
    token: Annotated[str, Doc("Its text. The server keeps a hash alone, so it is shown this once")]


@dataclass(frozen=True, kw_only=True)
class TokenRequest:
    """The token that an administrator wants."""

    __pydantic_config__: ClassVar[dict[str, str]] = _STRICT
    name: Annotated[str, Doc("Name of the person, or of what uses it")]
    role: Annotated[Role, Doc("Role: viewer, operator or admin")]
    expires_s: Annotated[float | None, Doc("Seconds after which it is refused; None: never")] = 365 * 86_400.0


@dataclass(frozen=True, kw_only=True)
class InvitationInfo:
    """An invitation, without its text."""

    invitation_id: Annotated[int, Doc("Number of the invitation, from 1")]
    devices: Annotated[int, Doc("Number of devices that it lets in")]
    used: Annotated[int, Doc("Number of devices that enrolled with it")]
    group: Annotated[str | None, Doc("Group that these devices belong to, for people")]
    made_at: Annotated[datetime, Doc("When it was made")]
    expires_at: Annotated[datetime | None, Doc("Time from which it lets nobody in; None: it does not expire")]
    revoked_at: Annotated[datetime | None, Doc("When it was revoked; None: it was not")]


@dataclass(frozen=True, kw_only=True)
class NewInvitation:
    """An invitation that was just made."""

    info: Annotated[InvitationInfo, Doc("The invitation as in a list")]
    token: Annotated[str, Doc("Its text. The server keeps a hash alone, so it is shown this once")]


@dataclass(frozen=True, kw_only=True)
class InvitationRequest:
    """The invitation that an administrator wants."""

    __pydantic_config__: ClassVar[dict[str, str]] = _STRICT
    devices: Annotated[int, Doc("Number of devices that it lets in")] = 1
    expires_s: Annotated[float | None, Doc("Seconds after which it lets nobody in; None: never")] = 86_400.0
    group: Annotated[str | None, Doc("Group that these devices belong to, for people")] = None


@dataclass(frozen=True, kw_only=True)
class AuditEntry:
    """Something that happened, for people who want to explain it later."""

    audit_id: Annotated[int, Doc("Number of the entry, from 1")]
    at: Annotated[datetime, Doc("Time at which it happened")]
    who: Annotated[str, Doc("Name of a token, a device or an invitation; ``server`` for what happens by itself")]
    address: Annotated[str | None, Doc("Network address of the request; None where there was none")]
    what: Annotated[str, Doc("Kind of what happened")]
    details: Annotated[dict[str, Any], Doc("Things that it was done to")]


@dataclass(frozen=True, kw_only=True)
class PublicSetInfo:
    """The current public set, without its arrays."""

    version: Annotated[int, Doc("Number of the version, from 1; a discovered class makes a new version")]
    sha256: Annotated[str, Doc("Digest of the blob")]
    samples: Annotated[int, Doc("Number of rows")]
    synthetic: Annotated[int, Doc("Number of rows that are data impressions")]
    features: Annotated[dict[str, Any], Doc("Settings of the features")]
    classes: Annotated[tuple[ClassInfo, ...], Doc("The fleet's classes in column order")]
    consensus: Annotated[str | None, Doc("Digest of the fleet's scores on it; None before the first round has ended")]


@dataclass(frozen=True, kw_only=True)
class ModelInfo:
    """The fleet's shared model."""

    version: Annotated[int, Doc("Number of the publication, from 1")]
    sha256: Annotated[str, Doc("Blob of the bundle")]
    architecture: Annotated[str, Doc("Name of the architecture in the zoo")]
    capacity: Annotated[int, Doc("Number of slots of the head")]
    parameters: Annotated[int, Doc("Number of weights")]
    weights: Annotated[str | None, Doc("Blob of the present weights; None before its first round")]


@dataclass(frozen=True)
class ClassChange:
    """One change of a class."""

    __pydantic_config__: ClassVar[dict[str, str]] = _STRICT
    name: Annotated[str | None, Doc("The class's new name")] = None
    merge_into: Annotated[str | None, Doc("Class that it becomes one with")] = None
    approve: Annotated[bool, Doc("Whether every device may listen for it, however few sent it")] = False


@dataclass(frozen=True, kw_only=True)
class ClassReportInfo:
    """A sound of a device that became a class: the slot that the device gave it, and the round that recognised it."""

    device_id: str
    slot: int
    round_id: int


@dataclass(frozen=True, kw_only=True)
class ClassDetail:
    """A class that the fleet has or had."""

    class_id: Annotated[str, Doc("Identifier; none is given twice")]
    name: Annotated[str, Doc("Name for people")]
    discovered_in: Annotated[int | None, Doc("Round that discovered it; None for a class of the first public set")]
    state: Annotated[str, Doc("One of active, retired, merged, or undone (its round was)")]
    merged_into: Annotated[str | None, Doc("Class that it was merged into")]
    reports: Annotated[
        tuple[ClassReportInfo, ...],
        Doc("Sounds that became it, labels of its name aside: the first 10 in a list, else 200"),
    ]
    reported_by: Annotated[int, Doc("Number of devices that reported it")] = 0
    sent_by: Annotated[int, Doc("Number of different devices that sent it and mean one sound, up to 32")] = 0
    approved: Annotated[bool, Doc("Whether an operator approved it")] = False
    quarantined: Annotated[bool, Doc("Whether most devices refused it, and an operator has yet to approve it")] = False
    refused: Annotated[dict[str, int], Doc("Number of devices that do not listen for it, by why")] = field(
        default_factory=dict
    )


@dataclass(frozen=True)
class PrivateRequest:
    """How a private round shall sum what devices send."""

    __pydantic_config__: ClassVar[dict[str, str]] = _STRICT
    groups: Annotated[int, Doc("Devices of a group, at least: of each group the server learns the sum alone")] = 16
    epsilon: Annotated[
        float | None, Doc("What the round may tell of a device, at delta 1e-5, by noise in the sums; None: no noise")
    ] = None


@dataclass(frozen=True)
class RoundRequest:
    """The round that an administrator wants."""

    __pydantic_config__: ClassVar[dict[str, str]] = _STRICT
    strategy: Annotated[str, Doc("Its name; ``recommended``: what serves this fleet's users best")] = RECOMMENDED
    _: KW_ONLY
    settings: Annotated[dict[str, Value], Doc("Of the local method, where not the defaults")] = field(
        default_factory=dict
    )
    aggregation: Annotated[
        Choice | dict[str, Value], Doc("How uploads are combined, or settings of the strategy's own way")
    ] = field(default_factory=dict)
    deadline_s: Annotated[float, Doc("Seconds after which the round closes")] = 600.0
    quorum: Annotated[float, Doc("Share of the selected devices without which it fails at its deadline, 0 to 1")] = 0.5
    seed: Annotated[int, Doc("Seed of everything random in the round")] = 0
    new_classes: Annotated[int | None, Doc("Number of new classes among the reports, where it is known")] = None
    selection: Annotated[
        Choice | dict[str, Value] | None, Doc("How devices are selected, or settings of the strategy's own way")
    ] = None
    personalisation: Annotated[Choice | None, Doc("How a device makes the result its own; None: its strategy's")] = None
    private: Annotated[
        PrivateRequest | None, Doc("How devices hide their numbers in sums; None: the server sees each upload")
    ] = None


@dataclass(frozen=True, kw_only=True)
class RoundSummary:
    """A round in a list."""

    round_id: Annotated[int, Doc("Number of the round, from 1")]
    state: Annotated[RoundState, Doc("State: open, done or failed; a cancelled one is failed too")]
    reason: Annotated[str | None, Doc("Reason of the failure, or who cancelled it")]
    strategy: Annotated[str, Doc("Name of the strategy")]
    opened_at: Annotated[datetime, Doc("Time of the opening")]
    deadline_at: Annotated[datetime | None, Doc("When it closes at the latest; None for an operator's change")]
    closed_at: Annotated[datetime | None, Doc("Time of the end")]
    selected: Annotated[int, Doc("Number of devices that were selected")]
    uploaded: Annotated[int, Doc("Number of devices that uploaded")]
    learned: Annotated[int, Doc("Number of devices that applied the result, selected or not")]
    kept_own: Annotated[int, Doc("Number of those that kept their own model, because the result is worse for them")]
    training_loss: Annotated[float | None, Doc("Median of the uploaded training losses; None before its end")]
    follows: Annotated[int | None, Doc("Number of the fleet's round that a group's round personalises")]
    group: Annotated[int | None, Doc("Index of the group whose round it is, 0 for the devices with the fewest clips")]
    operation: Annotated[str | None, Doc("Change by an operator, without devices: merge, retire or restore")] = None
    restores: Annotated[int | None, Doc("Number of the round whose state was restored")] = None
    undone_by: Annotated[int | None, Doc("Number of the restoration since which this round does not count")] = None
    cancelled: Annotated[bool, Doc("Whether an operator ended it without a result")] = False
    private: Annotated[bool, Doc("Whether the server learns sums of groups alone, and no device's own numbers")] = False


@dataclass(frozen=True, kw_only=True)
class RecognitionInfo:
    """What a device recognises before a round and with its result."""

    of: Annotated[
        Recognised,
        Doc("``own`` clips, which no round trains on; ``taught`` ones, which both models learned; ``public``"),
    ]
    before: Annotated[float | None, Doc("Share that the model before recognised, in %; None: there was none")]
    after: Annotated[float, Doc("Share that the result recognises, in %, also where the device kept its own model")]
    classes_before: Annotated[int | None, Doc("Number of classes among which the one chose")]
    classes_after: Annotated[int | None, Doc("Number of classes among which the other chose")]


@dataclass(frozen=True, kw_only=True)
class ParticipantInfo:
    """A device that was selected for a round."""

    device_id: Annotated[str, Doc("The device")]
    name: Annotated[str, Doc("Its name for people")]
    upload: Annotated[str | None, Doc("Digest of its upload")]
    uploaded_at: Annotated[datetime | None, Doc("Time of its upload")]
    clips: Annotated[int | None, Doc("Number of clips that it trained on")]
    metrics: Annotated[dict[str, float], Doc("Its measurements, as uploaded")]
    state: Annotated[PartState, Doc("How far it is; who is ``late`` takes twice as long as most")]
    learned: Annotated[bool, Doc("Whether it has learned from the result")]
    personalised: Annotated[bool, Doc("Whether it fine-tuned the result on its own clips")]
    kept_own: Annotated[bool, Doc("Whether it listens with a model of its own, because the result is worse for it")]
    learned_metrics: Annotated[dict[str, float], Doc("Its measurements after learning")]
    recognition: Annotated[tuple[RecognitionInfo, ...], Doc("What it recognises, read from these")] = ()


@dataclass(frozen=True, kw_only=True)
class LeftOutInfo:
    """A device that a round left out, because it was away."""

    device_id: Annotated[str, Doc("The device")]
    name: Annotated[str, Doc("Its name for people")]
    seen_at: Annotated[datetime, Doc("When it was last heard of then")]


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
    """The classes that a round's reports turned out to be."""

    reports: Annotated[tuple[ReportInfo, ...], Doc("Reports that ``members`` and ``left_open`` are indices of")]
    groups: Annotated[tuple[GroupInfo, ...], Doc("Groups of reports, one for each class that they are")]
    left_open: Annotated[tuple[int, ...], Doc("Reports without a class: a double of their device, or beyond a bound")]
    details: Annotated[
        dict[str, Any], Doc("``compared``: indices of reports; ``similarity`` of every two, where they are few")
    ]
    limits: Annotated[tuple[str, ...], Doc("A sentence for each bound that kept reports from becoming classes")] = ()


@dataclass(frozen=True, kw_only=True)
class PrivateGroupInfo:
    """A group of a private round, of which the server learns the sum alone."""

    devices: Annotated[tuple[str, ...], Doc("Its devices, in the order of the deal")]
    outcome: Annotated[str, Doc("How many devices its sum is of, or why it does not count; empty before the end")]


@dataclass(frozen=True, kw_only=True)
class PrivateInfo:
    """How a private round stands."""

    group_size: Annotated[int, Doc("Devices of a group, at least, where there are so many")]
    epsilon: Annotated[float | None, Doc("What it can tell of a device, at delta 1e-5; None: it has no noise")]
    stage: Annotated[PrivateStage | None, Doc("Stage that it is in; None: it is over")]
    ends_at: Annotated[datetime | None, Doc("When the stage ends at the latest")]
    answered: Annotated[int, Doc("Devices that have answered in the stage")]
    groups: Annotated[tuple[PrivateGroupInfo, ...], Doc("Its groups; none before the deal")] = ()


@dataclass(frozen=True, kw_only=True)
class RoundDetail:
    """A round with all details."""

    summary: Annotated[RoundSummary, Doc("The round as in a list")]
    plan: Annotated[RoundPlan, Doc("The round's plan")]
    new_classes: Annotated[int | None, Doc("Number of new classes, as requested")]
    public_set: Annotated[str, Doc("Digest of the public set that was scored")]
    consensus: Annotated[str | None, Doc("Digest of the consensus that the round started from")]
    result_public_set: Annotated[str | None, Doc("Digest of the public set after the round")]
    result_consensus: Annotated[str | None, Doc("Digest of the consensus after the round")]
    participants: Annotated[tuple[ParticipantInfo, ...], Doc("The selected devices")]
    accuracies: Annotated[dict[str, float], Doc("Accuracy of every contributor on the public set, 0 to 1")]
    betas: Annotated[dict[str, dict[str, float]], Doc("Weights of each class's owners; empty beyond 10,000 devices")]
    plain_mean: Annotated[tuple[str, ...], Doc("Classes whose weights were all 0, so that the plain mean was taken")]
    discovery: Annotated[DiscoveryInfo | None, Doc("Outcome of the reports; None where nothing new was reported")]
    model: Annotated[str | None, Doc("Blob of the shared model's bundle; None in a round without one")]
    weights: Annotated[str | None, Doc("Blob of the weights that the round started from; None for the bundle's own")]
    result_weights: Annotated[str | None, Doc("Blob of the weights after the round")]
    prototypes: Annotated[str | None, Doc("Blob of the fleet's prototypes before the round")]
    result_prototypes: Annotated[str | None, Doc("Blob of the fleet's prototypes after the round")]
    aggregation: Annotated[dict[str, Any], Doc("Details of the rule, such as the devices that it left out")]
    quarantined: Annotated[tuple[str, ...], Doc("Devices that the round put in quarantine")]
    groups: Annotated[tuple[tuple[str, ...], ...], Doc("Devices of each group, fewest clips first; none: empty")]
    group_rounds: Annotated[tuple[int, ...], Doc("Number of rounds within each group")]
    left_out: Annotated[tuple[LeftOutInfo, ...], Doc("Devices that were away when it opened: the first 50")] = ()
    left_out_count: Annotated[int, Doc("Number of all devices that were away")] = 0
    damaged: Annotated[tuple[str, ...], Doc("Devices left out, their uploads being damaged on the disk")] = ()
    private: Annotated[PrivateInfo | None, Doc("How a private round stands; None: the server sees each upload")] = None
    operation: Annotated[dict[str, Any], Doc("Details of what an operator did")] = field(default_factory=dict)
    accuracy_classes: Annotated[dict[str, int], Doc("Number of classes that each chose among")] = field(
        default_factory=dict
    )
