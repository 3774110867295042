"""What a strategy of rounds is, and what it is given when a round opens: what devices reported of their clips."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from aggregator_server.aggregation.contract import RoundInputs, RoundResult, UploadTerms
from aggregator_server.aggregation.rule import weight_rules
from aggregator_server.strategies import private_models, weight_sharing
from fleet_protocol.messages.rest import Choice, RoundPlan, Update
from fleet_protocol.methods.setting import Value
from fleet_protocol.numbers.tensors import Arrays


@dataclass(frozen=True, slots=True)
class DeviceStatistics:
    """What a device reported of its clips with its last upload."""

    device_id: str
    clips: int  # Number of clips n_k, at most ten times the median
    label_entropy: float  # Entropy of q_k, the clips' distribution over the labels, in nats


Prepare = Callable[[Choice, tuple[DeviceStatistics, ...], int], Choice]


SHARING_COST = (
    "Each device trains the shared network on its clips and sends all of its weights. Weights can tell something about "
    "the clips. Only devices with the shared model's network take part."
)


def unchanged(local: Choice, _devices: tuple[DeviceStatistics, ...], _classes: int) -> Choice:
    """Leave the plan's local part as it is."""
    return local


@dataclass(frozen=True, kw_only=True)
class PrivateWay:
    """How a strategy runs in a private round, in which the server learns sums of groups alone."""

    check_plan: Callable[[RoundPlan], None]  # Refuses a plan whose sums cannot be written (PlanError)
    # Refuses a masked upload that does not fit (MalformedUpdateError)
    check: Callable[[UploadTerms, Update, Arrays], None]
    # Combines the sums of a round's groups. Pure: an interrupted round is computed again
    aggregate: Callable[[RoundInputs], RoundResult]
    settings: Mapping[str, Value] = field(default_factory=dict)  # Settings of the aggregation that have one value there
    settings_with_noise: Mapping[str, Value] | None = None  # Those of a round with noise; None: it can have none


WEIGHTS_IN_SUMS = PrivateWay(
    check_plan=private_models.check_plan, check=private_models.check_weights, aggregate=private_models.aggregate_weights
)


@dataclass(frozen=True, kw_only=True)
class Strategy:
    """A way to run a round."""

    name: str
    local: str  # Method of the plan's local part
    aggregation: str  # Method of the plan's aggregation part, where a request names none
    check: Callable[[UploadTerms, Update, Arrays], None]  # Refuses an upload that does not fit (MalformedUpdateError)
    # Combines a round's uploads. Pure: an interrupted round is computed again
    aggregate: Callable[[RoundInputs], RoundResult]
    selection: str = "all"  # Method of the plan's selection part, where a request names none
    personalisation: str = "none"  # Method of the plan's personalisation part, where a request names none
    # Settings of the aggregation whose defaults differ here
    defaults: Mapping[str, Value] = field(default_factory=dict)
    # Whether devices train the fleet's shared model; a request may then name any rule of weights
    shares_model: bool = False
    # (local part, what devices reported of their clips, number of classes) -> the local part, when a round opens; for
    # settings that depend on the fleet
    prepare: Prepare = unchanged
    needs_embeddings: bool = False  # Whether the public set's features must be embeddings of a pretrained network
    private: PrivateWay | None = None  # How it runs in a private round; None: it needs each device's upload
    about: str = ""  # Description of a round, in plain words, for people who choose
    cost: str = ""  # Cost for a device, and what leaves it, in plain words

    @property
    def aggregations(self) -> tuple[str, ...]:
        """Every method that a request may name for the aggregation."""
        return weight_rules() if self.shares_model else (self.aggregation,)


def sharing(
    name: str,
    local: str | None = None,
    aggregation: str = "screened_mean",
    *,
    selection: str = "all",
    personalisation: str = "local",
    defaults: Mapping[str, Value] | None = None,
    prepare: Prepare = unchanged,
    aggregate: Callable[[RoundInputs], RoundResult] = weight_sharing.aggregate,
    private: PrivateWay | None = WEIGHTS_IN_SUMS,
    about: str = "",
    cost: str = SHARING_COST,
) -> Strategy:
    """Return a strategy that shares a model; the arguments are those of :class:`Strategy`, with its usual defaults.

    Without ``local`` it trains by the local method of its own name.
    """
    return Strategy(
        name=name,
        local=local or name,
        aggregation=aggregation,
        selection=selection,
        personalisation=personalisation,
        check=weight_sharing.check,
        aggregate=aggregate,
        defaults=defaults or {},
        shares_model=True,
        prepare=prepare,
        private=private,
        about=about,
        cost=cost,
    )
