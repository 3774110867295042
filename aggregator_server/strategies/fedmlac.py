"""FedMLAC (Bai et al. 2025): mutual learning on the device. Its own rule, LPA, is one that a request may name.

LPA always drops a share of the devices, which costs accuracy where nobody attacks (docs/results.md).
"""

from aggregator_server.strategies.strategy import sharing

STRATEGY = sharing(
    "fedmlac",
    about="Every device keeps a network of its own, of any kind, and teaches it and a small shared network by each "
    "other's answers. The shared one is averaged.",
    cost="Each device trains two networks, which takes longer, and sends the weights of the shared one. Those can tell "
    "something about the clips. Devices of any network take part.",
)
