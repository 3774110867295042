"""FedMMD (Yao et al. 2018): FedAvg with a discrepancy between the local model and the fleet's on the device."""

from aggregator_server.strategies.strategy import SHARING_COST, sharing

STRATEGY = sharing(
    "fedmmd",
    about="Like fedavg, but a device also keeps what its network makes of a clip near to what the fleet's network "
    "makes of it.",
    cost=f"{SHARING_COST} Training takes longer than with fedavg, because two networks look at every clip.",
)
