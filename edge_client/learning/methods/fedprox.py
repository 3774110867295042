"""FedProx (Li et al. 2020): cross-entropy + mu/2 ||w - w_global||^2, so that devices do not drift apart.

The term is ``proximal`` of the training step, model_export/trainable.py.
"""

from edge_client.learning.methods.local_method import LocalMethod, LocalTask, TrainingPlan
from fleet_protocol.methods.local_methods import FEDPROX as TERMS


def prepare(task: LocalTask) -> TrainingPlan:
    """Targets are the labels; the exported graph holds the weights to those that came from the aggregator."""
    return TrainingPlan(lambda _x, labels: labels, proximal=task.number("proximal"))


METHOD = LocalMethod("fedprox", TERMS.settings, prepare, summed=True)
