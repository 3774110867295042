"""FedAvg's local part (McMahan et al. 2017): cross-entropy on the device's clips."""

from edge_client.learning.methods.local_method import LocalMethod, LocalTask, TrainingPlan
from fleet_protocol.methods.local_methods import FEDAVG as TERMS


def prepare(_task: LocalTask) -> TrainingPlan:
    """Targets are the labels."""
    return TrainingPlan(lambda _x, labels: labels)


METHOD = LocalMethod("fedavg", TERMS.settings, prepare, summed=True)
