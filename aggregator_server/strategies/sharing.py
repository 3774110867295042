"""Strategies that share a model's weights: FedAvg, and what differs from it by a name or a part of the plan."""

import dataclasses

from aggregator_server.limits import STEP_FACTOR
from aggregator_server.strategies.strategy import SHARING_COST, DeviceStatistics, sharing
from fleet_protocol.messages.rest import Choice
from fleet_protocol.methods.clip_utility import utility

FEDAVG = sharing(
    "fedavg",
    about="Every device trains the shared model on its own clips; the aggregator averages the weights, and leaves out "
    "those that stand out.",
)
"""FedAvg (McMahan et al. 2017): devices train by the labels, the aggregator takes the screened mean."""

FEDPROX = sharing(
    "fedprox",
    about="Like fedavg, but a term holds each device's weights near the fleet's while it trains. For devices whose "
    "sounds differ much.",
)
"""FedProx (Li et al. 2020): FedAvg with a proximal term on the device."""

FEDMMD = sharing(
    "fedmmd",
    about="Like fedavg, but a device also keeps what its network makes of a clip near to what the fleet's network "
    "makes of it.",
    cost=f"{SHARING_COST} Training takes longer than with fedavg, because two networks look at every clip.",
)
"""FedMMD (Yao et al. 2018): FedAvg with a discrepancy between the local model and the fleet's on the device."""

_FEDOPT = sharing(
    "fedopt",
    "fedavg",
    defaults={"server_optimiser": "adam"},
    about="Like fedavg, but the aggregator treats the averaged change as a gradient and takes a step with Adam, which "
    "remembers the rounds before.",
)
"""FedOPT (Reddi et al. 2021): FedAvg's local part, and Adam over the rounds on the aggregator."""

FEDMLAC = sharing(
    "fedmlac",
    about="Every device keeps a network of its own, of any kind, and teaches it and a small shared network by each "
    "other's answers. The shared one is averaged.",
    cost="Each device trains two networks, which takes longer, and sends the weights of the shared one. Those can tell "
    "something about the clips. Devices of any network take part.",
)
"""FedMLAC (Bai et al. 2025): mutual learning on the device. Its own rule, LPA, is one that a request may name.

LPA always drops a share of the devices, which costs accuracy where nobody attacks (docs/results.md).
"""


def adaptive_local_training(local: Choice, devices: tuple[DeviceStatistics, ...], classes: int) -> Choice:
    """Fill in max n and r_0 = K / sum_k r_k where the plan leaves them to the aggregator (0).

    Devices with more clips, more evenly spread over the classes, take more steps; all together take as many as before.
    Without a device that reported anything both stay 0, and every device takes E steps.
    """
    settings = dict(local.settings)
    max_clips = int(settings["most_clips"]) or max((device.clips for device in devices), default=0)
    if max_clips:
        utilities = [utility(device.clips, device.label_entropy, max_clips, classes) for device in devices]
        if any(utilities):
            settings["most_clips"] = max_clips
            factor = len(utilities) / max(sum(utilities), len(utilities) / STEP_FACTOR)
            settings["step_factor"] = float(settings["step_factor"]) or factor
    return dataclasses.replace(local, settings=settings)


_FEDKWS_UI = sharing(
    "fedkws_ui",
    defaults={"by_size": False},
    prepare=adaptive_local_training,
    private=None,  # steps are dealt by what each device reported of its clips
    about="Every device trains the shared model so that it recognises the word but not the speaker. Devices with more "
    "clips, more evenly spread, take more steps; all count the same.",
)
"""FedKWS-UI (Li et al. 2022): adversarial learning and adaptive local training on the device, a mean of equals."""

SHARING = (FEDAVG, FEDPROX, FEDMMD, _FEDOPT, FEDMLAC, _FEDKWS_UI)
