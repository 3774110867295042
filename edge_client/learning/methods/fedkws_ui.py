"""FedKWS-UI (Li et al. 2022): the shared model learns what holds for every user.

ALO, adversarial learning against an overfitted local model: a private model is trained on the device's clips until it
overfits; the shared model is pushed away from its opinion. ALT, adaptive local training: devices with more clips, more
evenly spread over the classes, take more steps.
"""

from edge_client.learning.methods.local_method import LocalMethod, LocalTask, TrainingPlan
from edge_client.learning.sgd import Optimiser, from_slots, train_epoch
from fleet_protocol.methods.clip_utility import label_entropy, utility
from fleet_protocol.methods.local_methods import FEDKWS_UI as TERMS
from fleet_protocol.numbers.arrays import Floats

# A mean loss in nats at which a model names its own clips with 95 % certainty: it has learned them by heart.
_OVERFITTED = 0.05


def prepare(task: LocalTask) -> TrainingPlan:
    """L = -sum_c [(1-mu) 1{y=c} + mu/C] log f_c + lambda sum_c [f_p]_c log f_c   (eq. 1 to 3).

    C counts the outputs that are trained; f_p is the device's own model, which goes on from round to round.
    """
    optimiser = Optimiser(task.number("learning_rate"), task.number("momentum"))
    own_targets = from_slots(task.own_clips.slots, task.order.own_capacity)
    for _ in range(int(task.settings["private_epochs"])):
        x = task.own_clips.draw(task.rng)
        if train_epoch(task.own, x, own_targets, task.own_mask, optimiser, task.rng) < _OVERFITTED:
            break
    smoothing, adversarial = task.number("smoothing"), task.number("adversarial")
    uniform = task.mask / task.mask.sum()

    def targets(x: Floats, labels: Floats) -> Floats:
        wanted: Floats = (1.0 - smoothing) * labels + smoothing * uniform
        if adversarial:  # else the private model's opinion, a prediction for every batch, would be multiplied by 0
            wanted = wanted - adversarial * task.order.to_shared(task.own.predict(task.for_own(x), task.own_mask))
        return wanted

    return TrainingPlan(targets, steps=_steps(task))


def _steps(task: LocalTask) -> int:
    """Return r_0 r E, at least 1; E where the fleet has reported nothing yet."""
    steps, factor, most = task.number("steps"), task.number("step_factor"), task.number("most_clips")
    if not task.settings["adaptive"] or not factor or not most:
        return int(steps)
    share = factor * utility(len(task.clips.slots), label_entropy(task.clips.slots), most, task.order.classes)
    return max(1, round(share * steps))


METHOD = LocalMethod("fedkws_ui", TERMS.settings, prepare, keeps_own=True)
