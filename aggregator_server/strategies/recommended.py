"""The strategy of a round for which none is named: what serves this fleet's users best (docs/methods.md).

Where all devices have one pretrained front end, prototypes do: a round costs a few kilobytes, takes any head, and
spreads a sound that one device was taught. Else weights do, among devices that have the shared model's network, and
scores in the same round for the others. Where no device has that network, scores do, which take any.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from aggregator_server.schemas import RECOMMENDED, RoundRequest
from fleet_protocol.messages import Choice


@dataclass(frozen=True)
class FleetKind:
    """What the recommendation depends on.

    Attributes:
        embeddings: Whether the public set's features are those of a pretrained network.
        shares_network: Whether a shared model was published, and a device has its network.
    """

    embeddings: bool
    shares_network: bool


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
    if not fleet.shares_network:
        return replace(request, strategy="zero_shot")
    aggregation = request.aggregation or Choice("screened_mean")
    # Also where all devices have the network: one that enrols later can then learn from the result.
    others = request.others or Choice("zero_shot")
    return replace(request, strategy="fedavg", aggregation=aggregation, others=others)
