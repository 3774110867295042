"""What a local method is: its settings, how it trains, and what it does in a round (docs/methods.md).

A device's part of a round is imported where it is opened: the aggregator reads names and settings alone.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from edge_client.errors import WorkError
from edge_client.learning.rounds.local_training import LocalTask, TrainingPlan
from fleet_protocol.registry import Registry, discover
from fleet_protocol.setting import Settings

if TYPE_CHECKING:
    from edge_client.config import Config
    from edge_client.learning.rounds.job import DeviceRound
    from edge_client.storage.device_state import DeviceState
    from edge_client.storage.saved_model import SavedModel
    from fleet_protocol.messages import Work

__all__ = ["LocalMethod", "LocalTask", "TrainingPlan", "UnsharedMethod"]


@dataclass(frozen=True)
class LocalMethod:
    """A local method that trains the shared model.

    Attributes:
        prepare: Does what comes before the training, and says how to train.
        any_architecture: Whether the device's bundle may differ from the shared one.
        keeps_own: Whether the device keeps a model that is trained on its own (by ``prepare`` or the targets); else
            the device's model becomes what the shared model was trained to.
    """

    name: str
    settings: Settings
    prepare: Callable[[LocalTask], TrainingPlan]
    any_architecture: bool = False
    keeps_own: bool = False
    aliases: tuple[str, ...] = ()

    def open_round(self, config: Config, state: DeviceState, saved: SavedModel, work: Work) -> DeviceRound:
        """Return a device's part of a round. ``state``: Its state folder, with the blobs of the work."""
        from edge_client.learning.rounds.network_round import NetworkRound
        from edge_client.learning.rounds.weight_sharing import WeightSharing

        return NetworkRound(config, state, saved, work, functools.partial(WeightSharing, self))


@dataclass(frozen=True)
class UnsharedMethod:
    """A local method that shares no model.

    Attributes:
        open_round: (configuration, state folder, model, work) -> a device's part of a round.
    """

    name: str
    settings: Settings
    open_round: Callable[[Config, DeviceState, SavedModel, Work], DeviceRound]
    aliases: tuple[str, ...] = ()


def local_methods() -> Registry[LocalMethod | UnsharedMethod]:
    """Return every local method by name."""
    kinds = LocalMethod | UnsharedMethod
    return discover("edge_client.learning.methods", "METHOD", "auricle.local_methods", kinds)


def shared_model_methods() -> dict[str, LocalMethod]:
    """Return the local methods that train the shared model, by name."""
    return {name: method for name, method in local_methods().items() if isinstance(method, LocalMethod)}


def shared_model_method(name: str) -> LocalMethod:
    """Return a local method that trains the shared model. Raises WorkError if this device knows none of that name."""
    method = local_methods().get(name)
    if not isinstance(method, LocalMethod):
        known = ", ".join(shared_model_methods())
        raise WorkError(f"no local method {name!r} trains a shared model here (these do: {known})")
    return method
