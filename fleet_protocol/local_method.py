"""What both sides know of a local method: its name and settings. How a device trains is the device's own matter.

The aggregator fills in every setting, so that a device reads all of them from its plan.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from fleet_protocol.registry import Registry, discover
from fleet_protocol.setting import Settings


@dataclass(frozen=True)
class MethodTerms:
    """A local method, as a plan can name it.

    Attributes:
        settings: Settings that a plan can give it.
        any_architecture: Whether the network of a device that follows it may differ from the shared model's.
    """

    name: str
    settings: Settings
    _: KW_ONLY
    any_architecture: bool = False


def local_methods() -> Registry[MethodTerms]:
    """Return the local methods by name. Raises PluginError: an installed package's method cannot be used."""
    return discover("fleet_protocol.local_methods", "METHOD", "auricle.local_methods", MethodTerms)
