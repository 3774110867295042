"""Who a device is to its aggregator."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Identity:
    """Who the device is to its aggregator.

    Attributes:
        device_id: 32 hex digits, drawn once.
        secret: The device's bearer token.
    """

    device_id: str
    secret: str
