"""FedProx (Li et al. 2020): cross-entropy + mu/2 ||w - w_global||^2, so that devices do not drift apart."""

from __future__ import annotations

from edge_client.learning.methods.local_method import LocalMethod, LocalTask, TrainingPlan
from edge_client.learning.methods.settings import SHARED_MODEL
from fleet_protocol.setting import Setting


def prepare(task: LocalTask) -> TrainingPlan:
    """Targets are the labels; the exported graph holds the weights to those that came from the aggregator."""
    return TrainingPlan(lambda _x, labels: labels, proximal=task.number("proximal"))


_SETTINGS = {"proximal": Setting(0.01, "mu of the proximal term", 0.0, 1e3, main=True)}

METHOD = LocalMethod("fedprox", SHARED_MODEL | _SETTINGS, prepare)
