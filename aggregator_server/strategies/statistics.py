"""What devices reported of their clips: what a strategy is given when a round opens."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sqlalchemy import select
from sqlalchemy.orm import Session

from aggregator_server.aggregation.plausible import capped_sizes
from aggregator_server.fleet.reputation import QUARANTINED
from aggregator_server.limits import LABEL_ENTROPY, SELECTION_CAP
from aggregator_server.store.tables import IS_ACTIVE, DeviceRow


@dataclass(frozen=True)
class DeviceStatistics:
    """What a device reported of its clips with its last upload.

    Attributes:
        device_id: Device that reported them.
        clips: Number of clips n_k, at most ten times the median.
        label_entropy: Entropy of q_k, the clips' distribution over the labels, in nats.
    """

    device_id: str
    clips: int
    label_entropy: float


def read_statistics(session: Session) -> tuple[DeviceStatistics, ...]:
    """Return what the devices reported that are not revoked; devices without a report that can be true are left out."""
    rows = select(DeviceRow.device_id, DeviceRow.clips, DeviceRow.label_entropy).where(
        IS_ACTIVE,
        DeviceRow.clips > 0,
        DeviceRow.label_entropy.between(0.0, LABEL_ENTROPY),
        DeviceRow.device_id.not_in(QUARANTINED),
    )
    found = session.execute(rows.order_by(DeviceRow.device_id))
    reported = found.all()
    clips = capped_sizes(np.array([row.clips for row in reported], np.float64), SELECTION_CAP)
    return tuple(
        DeviceStatistics(row.device_id, int(count), float(row.label_entropy or 0.0))
        for row, count in zip(reported, clips, strict=True)
    )
