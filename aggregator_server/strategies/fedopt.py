"""FedOPT (Reddi et al. 2021): FedAvg's local part, and Adam over the rounds on the aggregator."""

from __future__ import annotations

from aggregator_server.strategies.strategy import sharing

STRATEGY = sharing("fedopt", "fedavg", defaults={"server_optimiser": "adam"})
