"""The personalisations that this device knows: those of this folder, and those of installed packages."""

from __future__ import annotations

from edge_client.learning.personalisations.personalisation import Personalisation
from fleet_protocol.registry import Registry, discover


def personalisations() -> Registry[Personalisation]:
    """Return every personalisation by name.

    Raises:
        PluginError: an installed package's personalisation cannot be used.
    """
    return discover(
        "edge_client.learning.personalisations", "PERSONALISATION", "auricle.personalisations", Personalisation
    )
