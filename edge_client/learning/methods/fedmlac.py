"""FedMLAC's mutual learning (Bai et al. 2025): the device's own model and a small plug-in teach each other.

Only the plug-in, the shared model, travels; the own model may have any architecture and stays on the device.
"""

from edge_client.learning.methods.local_method import LocalMethod, LocalTask, TrainingPlan
from edge_client.learning.sgd import Optimiser, from_slots, train_epoch
from fleet_protocol.methods.local_methods import FEDMLAC as TERMS
from fleet_protocol.numbers.arrays import Floats


def prepare(task: LocalTask) -> TrainingPlan:
    """Per batch, both with the answers from before the step:

    own      L_k = a CE(F_k(x), y) + (1 - a) KL(F_g(x; theta) || F_k(x; w_k))   (eq. 7)
    plug-in  L_g = KL(F_k(x; w_k) || F_g(x; theta))                            (eq. 8)

    A teacher's entropy does not depend on its student, so each is a cross-entropy against a soft target. Before its
    first round the own model is warmed up: an untrained model would teach the plug-in noise. Both rehearse.
    """
    if task.first:
        _warm_up(task)
    mask = task.mask
    own_mask = task.order.to_own(mask[None])[0]
    share, rate, momentum = task.number("own_share"), task.number("learning_rate"), task.number("momentum")

    def targets(x: Floats, labels: Floats) -> Floats:
        own_x = task.for_own(x)
        plug_in = task.order.to_own(task.shared.predict(x, mask))
        own = task.order.to_shared(task.own.predict(own_x, own_mask))
        wanted = share * task.order.to_own(labels) + (1.0 - share) * plug_in
        task.own.train_step(own_x, wanted, own_mask, learning_rate=rate, momentum=momentum)
        return own

    def rehearse(x: Floats, labels: Floats) -> None:
        task.own.train_step(task.for_own(x), task.order.to_own(labels), own_mask, learning_rate=rate, momentum=momentum)

    return TrainingPlan(targets, rehearse=rehearse)


def _warm_up(task: LocalTask) -> None:
    optimiser = Optimiser(task.number("warm_up_rate"), task.number("momentum"))
    targets = from_slots(task.own_clips.slots, task.order.own_capacity)
    for _ in range(int(task.settings["warm_up"])):
        train_epoch(task.own, task.own_clips.draw(task.rng), targets, task.own_mask, optimiser, task.rng)


METHOD = LocalMethod("fedmlac", TERMS.settings, prepare, any_architecture=True, summed=True, keeps_own=True)
