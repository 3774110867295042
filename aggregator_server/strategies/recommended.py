"""The strategy of a round for which none is named: what serves this fleet's users best (docs/methods.md).

Where all devices have one pretrained front end, prototypes do: a round costs a few kilobytes, takes any head, and
spreads a sound that one device was taught. Else weights do, among devices that have the shared model's network. Else
scores do, which take any network.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from aggregator_server.schemas import RECOMMENDED, RoundRequest
from fleet_protocol.messages import Choice


@dataclass(frozen=True)
class FleetKind:
    """What the recommendation depends on.

    Attributes:
        embeddings: whether the public set's features are those of a pretrained network.
        shared: architecture of the fleet's shared model; None where none was published.
        architectures: of the devices' bundles.
    """

    embeddings: bool
    shared: str | None
    architectures: AbstractSet[str]


def recommended(request: RoundRequest, fleet: FleetKind) -> RoundRequest:
    """Return a request with a strategy: the one that it names, or else the fleet's best.

    Args:
        request: of an administrator.
        fleet: for which the round is.
    """
    if request.strategy != RECOMMENDED:
        return request
    if fleet.embeddings:
        return replace(request, strategy="prototypes")
    if fleet.shared is None or fleet.architectures != {fleet.shared}:
        return replace(request, strategy="zero_shot")
    aggregation = request.aggregation or Choice("screened_mean")
    return replace(request, strategy="fedavg", aggregation=aggregation)
