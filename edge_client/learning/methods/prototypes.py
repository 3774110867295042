"""Prototypes: devices share mean embeddings, and each fits a head of its own (docs/methods.md, "Prototypes")."""

from edge_client.config import Config
from edge_client.learning.methods.local_method import UnsharedMethod
from edge_client.learning.rounds.client_update import DeviceRound
from edge_client.storage.device_state import DeviceState
from edge_client.storage.saved_model import SavedModel
from fleet_protocol.local_methods import PROTOTYPES as TERMS
from fleet_protocol.messages import Work


def _open_round(config: Config, state: DeviceState, saved: SavedModel, work: Work) -> DeviceRound:
    from edge_client.learning.rounds.prototype_sharing import PrototypeRound  # heavy, and no other method needs it

    return PrototypeRound(config, state, saved, work)


METHOD = UnsharedMethod("prototypes", TERMS.settings, _open_round)
