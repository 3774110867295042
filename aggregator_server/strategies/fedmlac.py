"""FedMLAC (Bai et al. 2025): mutual learning on the device. Its own rule, LPA, is one that a request may name.

LPA always drops a share of the devices, which costs accuracy where nobody attacks (docs/results.md).
"""

from __future__ import annotations

from aggregator_server.strategies.strategy import sharing

STRATEGY = sharing("fedmlac", aliases=("mutual",))
