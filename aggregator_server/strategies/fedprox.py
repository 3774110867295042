"""FedProx (Li et al. 2020): FedAvg with a proximal term on the device."""

from aggregator_server.strategies.strategy import sharing

STRATEGY = sharing(
    "fedprox",
    about="Like fedavg, but a term holds each device's weights near the fleet's while it trains. For devices whose "
    "sounds differ much.",
)
