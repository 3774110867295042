"""Cross-entropy with smoothed labels: t = (1 - s) y + s / C."""

from edge_client.learning.methods.local_method import LocalMethod, TrainingPlan
from edge_client.learning.methods.settings import SHARED_MODEL
from fleet_protocol.setting import Setting


def prepare(task):
    share = task.number("label_smoothing")
    uniform = task.mask / task.mask.sum()
    return TrainingPlan(lambda x, labels: (1 - share) * labels + share * uniform)


METHOD = LocalMethod(
    "smoothed",
    SHARED_MODEL | {"label_smoothing": Setting(0.1, "s, the share of the uniform distribution", 0.0, 1.0)},
    prepare,
)
