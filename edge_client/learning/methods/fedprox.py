"""FedProx (Li et al. 2020): cross-entropy and a proximal term, so that devices do not drift apart.

    proximal/2 ||w - w_global||^2, of gradient proximal (w - w_global)

``Trainable.train`` in model_export/trainable.py computes the term within a bundle's graph. Its ``set_weights`` keeps
w_global.
"""

from edge_client.learning.methods.local_method import LocalMethod, LocalTask, TrainingPlan
from fleet_protocol.methods.local_methods import FEDPROX as TERMS


def prepare(task: LocalTask) -> TrainingPlan:
    """Targets are the labels; the exported graph holds the weights to those that came from the aggregator."""
    return TrainingPlan(lambda _x, labels: labels, proximal=task.number("proximal"))


METHOD = LocalMethod("fedprox", TERMS.settings, prepare, summed=True)
