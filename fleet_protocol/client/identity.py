"""Who a device is to its aggregator; apart from what talks to one, for a training process does not."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Identity:
    """Who a device is to its aggregator."""

    device_id: str  # 32 hex digits, drawn once
    secret: str  # The device's bearer token
