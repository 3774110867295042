"""Prototypes: devices share mean embeddings, and each fits a head of its own (docs/methods.md, "Prototypes").

edge_client/learning/rounds/prototype_sharing.py is the device's part of a round.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from edge_client.learning.methods.local_method import UnsharedMethod
from fleet_protocol.local_methods import PROTOTYPES as TERMS

if TYPE_CHECKING:
    from edge_client.config import Config
    from edge_client.learning.rounds.client_update import DeviceRound
    from edge_client.storage.device_state import DeviceState
    from edge_client.storage.saved_model import SavedModel
    from fleet_protocol.messages import Work


def open_round(config: Config, state: DeviceState, saved: SavedModel, work: Work) -> DeviceRound:
    """Return a device's part of a round, with the errors of its constructor."""
    from edge_client.learning.rounds.prototype_sharing import PrototypeRound

    return PrototypeRound(config, state, saved, work)


METHOD = UnsharedMethod("prototypes", TERMS.settings, open_round)
