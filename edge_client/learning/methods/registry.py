"""The local methods that share a model, by the names that a plan gives them."""

from __future__ import annotations

from edge_client.learning.methods import fedavg, fedmmd, fedprox, mutual, user_invariant
from edge_client.learning.methods.local_method import LocalMethod

SHARED_METHODS: dict[str, LocalMethod] = {
    "fedavg": fedavg.METHOD,
    "fedprox": fedprox.METHOD,
    "fedmmd": fedmmd.METHOD,
    "mutual": mutual.METHOD,
    "user_invariant": user_invariant.METHOD,
}
