"""What devices told of their clips, and what a strategy makes of it when a round opens.

Adaptive local training (FedKWS-UI, Li et al. 2022): devices with more clips, more evenly spread over the classes, take
more steps, while all together take as many as before.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from aggregator_server.store.tables import DeviceRow
from fleet_protocol.messages import Choice


@dataclass(frozen=True)
class DeviceStatistics:
    """What a device told of its clips with its last upload.

    Attributes:
        device_id: whose.
        clips: n_k.
        label_entropy: of q_k, the clips' distribution over the labels, in nats.
    """

    device_id: str
    clips: int
    label_entropy: float


def read_statistics(session: Session) -> tuple[DeviceStatistics, ...]:
    """Return what the devices told that are not revoked; those that told nothing yet are left out."""
    rows = select(DeviceRow.device_id, DeviceRow.clips, DeviceRow.label_entropy).where(
        DeviceRow.revoked_at.is_(None), DeviceRow.clips > 0, DeviceRow.label_entropy.is_not(None)
    )
    told = session.execute(rows.order_by(DeviceRow.device_id))
    return tuple(DeviceStatistics(device_id, clips, float(entropy or 0.0)) for device_id, clips, entropy in told)


def adaptive_local_training(local: Choice, devices: tuple[DeviceStatistics, ...], classes: int) -> Choice:
    """Fill in max n and r_0 = K / sum_k r_k where the plan leaves them to the aggregator (0).

    r_k = 2 n' e' / (n' + e') with n' = n_k / max n and e' = entropy(q_k) / log C. Without a device that told anything
    both stay 0, and every device takes E steps.
    """
    settings = dict(local.settings)
    most = int(settings["most_clips"]) or max((device.clips for device in devices), default=0)
    utilities = [_utility(device, most, classes) for device in devices]
    if most and any(utilities):
        settings["most_clips"] = most
        settings["step_factor"] = float(settings["step_factor"]) or len(utilities) / sum(utilities)
    return dataclasses.replace(local, settings=settings)


def _utility(device: DeviceStatistics, most: int, classes: int) -> float:
    size = min(1.0, device.clips / most)
    evenness = min(1.0, device.label_entropy / math.log(classes)) if classes > 1 else 1.0
    return 2 * size * evenness / (size + evenness) if size + evenness else 0.0
