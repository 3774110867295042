"""FedMLAC's mutual learning (Bai et al. 2025): the device's own model and a small plug-in teach each other.

Only the plug-in, the shared model, travels; the own model may have any architecture and stays on the device.
"""

from __future__ import annotations

from edge_client.learning.methods.local_method import LocalMethod, LocalTask, TrainingPlan
from edge_client.learning.methods.settings import SHARED_MODEL
from fleet_protocol.arrays import Floats
from fleet_protocol.setting import Setting


def prepare(task: LocalTask) -> TrainingPlan:
    """Per batch, both with the answers from before the step:

    own      L_k = a CE(F_k(x), y) + (1 - a) KL(F_g(x; theta) || F_k(x; w_k))   (eq. 7)
    plug-in  L_g = KL(F_k(x; w_k) || F_g(x; theta))                            (eq. 8)

    A teacher's entropy does not depend on its student, so each is a cross-entropy against a soft target.
    """
    mask, own_mask = task.mask, task.own_mask
    share, rate, momentum = task.number("own_share"), task.number("learning_rate"), task.number("momentum")

    def targets(x: Floats, labels: Floats) -> Floats:
        own_x = task.for_own(x)
        plug_in = task.order.to_own(task.shared.predict(x, mask))
        own = task.order.to_shared(task.own.predict(own_x, own_mask))
        wanted = share * task.order.to_own(labels) + (1.0 - share) * plug_in
        task.own.train_step(own_x, wanted, own_mask, learning_rate=rate, momentum=momentum)
        return own

    return TrainingPlan(targets)


METHOD = LocalMethod(
    "fedmlac",
    SHARED_MODEL
    | {"own_share": Setting(0.5, "a, the labels' share in the own model's loss; the rest is the plug-in's", 0.0, 1.0)},
    prepare,
    any_architecture=True,
    keeps_own=True,
    aliases=("mutual",),
)
