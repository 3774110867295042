"""FedAvg (McMahan et al. 2017): devices train by the labels, the aggregator takes the screened mean."""

from __future__ import annotations

from aggregator_server.strategies.strategy import sharing

STRATEGY = sharing("fedavg")
