"""FedAvg (McMahan et al. 2017): devices train by the labels, the aggregator takes the screened mean."""

from aggregator_server.strategies.strategy import sharing

STRATEGY = sharing(
    "fedavg",
    about="Every device trains the shared model on its own clips; the aggregator averages the weights, and leaves out "
    "those that stand out.",
)
