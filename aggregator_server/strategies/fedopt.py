"""FedOPT (Reddi et al. 2021): FedAvg's local part, and Adam over the rounds on the aggregator."""

from aggregator_server.strategies.strategy import sharing

STRATEGY = sharing(
    "fedopt",
    "fedavg",
    defaults={"server_optimiser": "adam"},
    about="Like fedavg, but the aggregator treats the averaged change as a gradient and takes a step with Adam, which "
    "remembers the rounds before.",
)
