"""What a local method is on a device: how it trains, and what it does in a round (docs/methods.md).

Names and settings, which the aggregator reads too, stand in fleet_protocol/local_methods.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

from edge_client.config import Config
from edge_client.learning.rounds.client_update import DeviceRound
from edge_client.learning.rounds.local_training import LocalTask, TrainingMethod, TrainingPlan
from edge_client.learning.rounds.training_round import TrainingRound
from edge_client.learning.rounds.weight_sharing import WeightSharing
from edge_client.storage.device_state import DeviceState
from edge_client.storage.saved_model import SavedModel
from fleet_protocol.messages.rest import Work
from fleet_protocol.methods.local_methods import MethodTerms
from fleet_protocol.methods.registry import Registry, discover

__all__ = ["LocalMethod", "LocalTask", "TrainingPlan", "UnsharedMethod"]


class LocalMethod(TrainingMethod):
    """A local method that trains the shared model."""

    def open_round(self, config: Config, state: DeviceState, saved: SavedModel, work: Work) -> DeviceRound:
        """Return a device's part of a round. ``state``: Its state folder, with the blobs of the work."""
        return TrainingRound(config, state, saved, work, functools.partial(WeightSharing, self))


@dataclass(frozen=True)
class UnsharedMethod(MethodTerms):
    """A local method without a model. ``open_round``: (configuration, state, model, work) -> a device's part."""

    open_round: Callable[[Config, DeviceState, SavedModel, Work], DeviceRound]


def local_methods() -> Registry[LocalMethod | UnsharedMethod]:
    """Return every local method by name."""
    return discover("METHOD", "auricle.local_methods", LocalMethod, UnsharedMethod, package=__package__)
