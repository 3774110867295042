"""Zero-shot federated learning (Gudur & Perepu 2021, algorithm 1): devices share scores on the public set, no weights.

edge_client/learning/rounds/zero_shot.py is the device's part of a round.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from edge_client.learning.methods.local_method import UnsharedMethod
from fleet_protocol.local_methods import ZERO_SHOT as TERMS

if TYPE_CHECKING:
    from edge_client.config import Config
    from edge_client.learning.rounds.client_update import DeviceRound
    from edge_client.storage.device_state import DeviceState
    from edge_client.storage.saved_model import SavedModel
    from fleet_protocol.messages import Work


def open_round(config: Config, state: DeviceState, saved: SavedModel, work: Work) -> DeviceRound:
    """Return a device's part of a round."""
    from edge_client.learning.rounds.training_round import TrainingRound
    from edge_client.learning.rounds.zero_shot import ZeroShot

    return TrainingRound(config, state, saved, work, ZeroShot)


METHOD = UnsharedMethod("zero_shot", TERMS.settings, open_round)
