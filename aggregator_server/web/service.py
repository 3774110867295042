"""What the routes of a running server share."""

from __future__ import annotations

from dataclasses import dataclass

from aggregator_server.rounds.notifier import Bell
from aggregator_server.rounds.scheduler import RoundClock
from aggregator_server.security import Tokens
from aggregator_server.store import Store


@dataclass(frozen=True)
class Service:
    """The state behind the routes.

    Attributes:
        store: the fleet.
        tokens: what opens the server.
        work: rung when there may be new work for devices.
        clock: what moves the open round.
    """

    store: Store
    tokens: Tokens
    work: Bell
    clock: RoundClock
