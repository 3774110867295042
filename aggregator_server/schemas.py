"""What administrators send and receive. What devices send and receive stands in fleet_protocol.messages."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, datetime
from typing import Any, ClassVar

from fleet_protocol.messages import Choice, ClassInfo, RoundPlan, RoundState
from fleet_protocol.setting import Value

# A misspelt field of a request is refused, not ignored, also within the request's parts.
_STRICT = {"extra": "forbid"}


def moment(seconds: float) -> datetime:
    """Return seconds since 1970 as a time in UTC."""
    return datetime.fromtimestamp(seconds, UTC)


@dataclass(frozen=True)
class Health:
    """The server is up: its version, and the round that is open."""

    status: str
    version: str
    open_round: int | None


@dataclass(frozen=True, kw_only=True)
class DeviceInfo:
    """An enrolled device.

    ``clips`` is its data size as it last told (0: not yet), ``seen_at`` when it was last heard of, to half a minute.
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


@dataclass(frozen=True, kw_only=True)
class PublicSetInfo:
    """The current public set, without its arrays.

    Attributes:
        version: counts from 1; a discovered class makes a new version.
        sha256: the blob.
        samples: rows.
        synthetic: how many of them are data impressions.
        features: settings of the features.
        classes: the fleet's classes in column order.
        consensus: digest of the fleet's scores on it; None before the first round has ended.
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
        version: counts the publications from 1.
        sha256: blob of its bundle.
        architecture: name in the zoo.
        capacity: slots of its head.
        parameters: number of weights.
        weights: blob of its present weights; None before the first round with it: the bundle's own.
    """

    version: int
    sha256: str
    architecture: str
    capacity: int
    parameters: int
    weights: str | None


@dataclass(frozen=True)
class ClassName:
    """A class's new name."""

    __pydantic_config__: ClassVar[dict[str, str]] = _STRICT
    name: str


@dataclass(frozen=True)
class RoundRequest:
    """The round that an administrator wants.

    Attributes:
        strategy: by name.
        settings: of the strategy's local method; those left out take their defaults.
        aggregation: how the uploads are combined: a method, or only settings of the strategy's own one.
        deadline_s: seconds after which the round closes.
        quorum: share of the selected devices, 0 to 1, without which a round that reached its deadline fails.
        seed: of everything random in the round.
        new_classes: how many new classes the reports hold, where that is known.
        selection: which devices take part; left out: the strategy's own rule.
        personalisation: how the result becomes a model of each device's own.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = _STRICT
    strategy: str
    _: KW_ONLY
    settings: dict[str, Value] = field(default_factory=dict)
    aggregation: Choice | dict[str, Value] = field(default_factory=dict)
    deadline_s: float = 600.0
    quorum: float = 0.5
    seed: int = 0
    new_classes: int | None = None
    selection: Choice | None = None
    personalisation: Choice = field(default_factory=lambda: Choice("none"))


@dataclass(frozen=True, kw_only=True)
class RoundSummary:
    """A round in a list.

    Attributes:
        round_id: counts from 1.
        state: open, done or failed.
        reason: why it failed.
        strategy: by name.
        opened_at: when it was opened.
        deadline_at: when it closes at the latest.
        closed_at: when it was done or failed.
        selected: devices that were selected.
        uploaded: how many of them uploaded.
        training_loss: the median of what they uploaded; None before the round is done, and where none told it.
        follows: for a group's round: the fleet's round that it personalises.
        group: for a group's round: which group's, 0 for the devices with the fewest clips.
    """

    round_id: int
    state: RoundState
    reason: str | None
    strategy: str
    opened_at: datetime
    deadline_at: datetime
    closed_at: datetime | None
    selected: int
    uploaded: int
    training_loss: float | None
    follows: int | None
    group: int | None


@dataclass(frozen=True, kw_only=True)
class ParticipantInfo:
    """A device that was selected for a round: what it uploaded, and what it measured before and after learning.

    ``personalised`` says whether it fine-tuned the result on its own clips.
    """

    device_id: str
    name: str
    upload: str | None
    uploaded_at: datetime | None
    clips: int | None
    metrics: dict[str, float]
    learned: bool
    personalised: bool
    learned_metrics: dict[str, float]


@dataclass(frozen=True)
class ReportInfo:
    """A device's report of a new sound."""

    device_id: str
    slot: int
    name: str | None


@dataclass(frozen=True)
class GroupInfo:
    """Reports that are one class, new in this round."""

    class_id: str
    members: tuple[int, ...]


@dataclass(frozen=True)
class DiscoveryInfo:
    """What became of a round's reports.

    Attributes:
        reports: what ``members`` and ``left_open`` count.
        groups: one for each class.
        left_open: reports that found no class, because another sound of their device is of that group.
        details: what the clustering says of itself, such as a projection of the reports onto a plane.
    """

    reports: tuple[ReportInfo, ...]
    groups: tuple[GroupInfo, ...]
    left_open: tuple[int, ...]
    details: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class RoundDetail:
    """A round with everything that is known of it.

    Attributes:
        summary: as in the list.
        plan: what every part does.
        new_classes: as requested.
        public_set: digest of the public set that was scored.
        consensus: digest of the consensus that the round started from.
        result_public_set: digest of the public set after the round.
        result_consensus: digest of the consensus after the round.
        participants: the selected devices.
        accuracies: every contributor's accuracy on the public set, 0 to 1.
        betas: for every class that was uploaded, the weight of each of its owners.
        plain_mean: classes whose weights were all 0, so that the plain mean was taken.
        discovery: None where nothing new was reported.
        model: blob of the shared model's bundle; None in a round without one.
        weights: blob of the weights that the round started from; None: the bundle's own.
        result_weights: blob of the weights after the round.
        aggregation: what the aggregation rule says of the round, such as the devices that it left out.
        groups: the devices of each group, fewest clips first; empty without group-balanced personalisation.
        group_rounds: how many rounds follow within each group.
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
    aggregation: dict[str, Any]
    groups: tuple[tuple[str, ...], ...]
    group_rounds: tuple[int, ...]
