"""FedMLAC (Bai et al. 2025): mutual learning on the device, layer-wise pruning aggregation (LPA)."""

from __future__ import annotations

from aggregator_server.strategies.strategy import sharing

STRATEGY = sharing("fedmlac", aggregation="lpa", aliases=("mutual",))
