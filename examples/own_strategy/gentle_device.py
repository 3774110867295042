"""Cross-entropy with smoothed labels: t = (1 - s) y + s / C; and a model halfway between the fleet's and one's own."""

from edge_client.learning.methods.local_method import LocalMethod, TrainingPlan
from edge_client.learning.personalisation import Personalisation
from fleet_protocol.methods.local_methods import SHARED_MODEL
from fleet_protocol.methods.personalisations import FINE_TUNING
from fleet_protocol.methods.setting import Setting


def prepare(task):
    share = task.number("label_smoothing")
    uniform = task.mask / task.mask.sum()
    return TrainingPlan(lambda x, labels: (1 - share) * labels + share * uniform)


def adapt(task):
    share, start = task.settings["share"], task.model.get_weights()
    loss = task.fine_tune()
    tuned = task.model.get_weights()
    task.model.set_weights({name: (1 - share) * start[name] + share * tuned[name] for name in start})
    return task.keep_better(loss)


METHOD = LocalMethod(
    "smoothed",
    SHARED_MODEL | {"label_smoothing": Setting(0.1, "s, the share of the uniform distribution", 0.0, 1.0)},
    prepare,
)
PERSONALISATION = Personalisation(
    "halfway",
    FINE_TUNING | {"share": Setting(0.5, "share of the fine-tuned weights; the rest are the fleet's", 0.0, 1.0)},
    adapt,
    about="Every device listens with a mean of the fleet's model and its own.",
)
