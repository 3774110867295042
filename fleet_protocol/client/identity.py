"""Who a device is to its aggregator."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Identity:
    """Who the device is to its aggregator.

    Attributes:
        device_id: 32 hex digits, drawn once.
        secret: The device's bearer token.
        next_secret: The one that takes its place once the aggregator has it; "" but while it is changed.
    """

    device_id: str
    secret: str
    next_secret: str = ""
