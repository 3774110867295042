"""FedKWS-UI (Li et al. 2022): adversarial learning on the device, adaptive local training, a mean of equals.

Adaptive local training: devices with more clips, more evenly spread over the classes, take more steps, while all
together take as many as before.
"""

import dataclasses

from aggregator_server.limits import STEP_FACTOR
from aggregator_server.strategies.strategy import DeviceStatistics, sharing
from fleet_protocol.messages.rest import Choice
from fleet_protocol.methods.adaptive_training import utility


def adaptive_local_training(local: Choice, devices: tuple[DeviceStatistics, ...], classes: int) -> Choice:
    """Fill in max n and r_0 = K / sum_k r_k where the plan leaves them to the aggregator (0).

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


STRATEGY = sharing(
    "fedkws_ui",
    defaults={"by_size": False},
    prepare=adaptive_local_training,
    private=None,  # steps are dealt by what each device reported of its clips
    about="Every device trains the shared model so that it recognises the word but not the speaker. Devices with more "
    "clips, more evenly spread, take more steps; all count the same.",
)
