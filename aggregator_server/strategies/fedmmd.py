"""FedMMD (Yao et al. 2018): FedAvg with a discrepancy between the local model and the fleet's on the device."""

from __future__ import annotations

from aggregator_server.strategies.strategy import sharing

STRATEGY = sharing("fedmmd")
