"""The objects that the routes of a running server share."""

from __future__ import annotations

from dataclasses import dataclass

from aggregator_server.rounds.computation import Compute
from aggregator_server.rounds.notifier import Notifier
from aggregator_server.rounds.scheduler import RoundScheduler
from aggregator_server.security import Tokens
from aggregator_server.store import Store


@dataclass(frozen=True)
class Service:
    """The state behind the routes.

    Attributes:
        store: The fleet's tables and blobs.
        tokens: The administrator's and the enrolment token.
        new_work: Notifies waiting devices that there may be work for them.
        scheduler: Moves the open round forward.
        compute: Computes the result of a round, in a process of its own.
    """

    store: Store
    tokens: Tokens
    new_work: Notifier
    scheduler: RoundScheduler
    compute: Compute
