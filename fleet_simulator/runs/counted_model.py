"""A model that counts what it was trained on, so that a device's time can be simulated whatever its method does."""

from __future__ import annotations

from edge_client.model.runtime import ModelRuntime
from fleet_protocol.arrays import Floats
from fleet_protocol.bundle import Bundle


class CountedModel(ModelRuntime):
    """One opened model.

    Attributes:
        samples: how many passed through :meth:`train_step`, as often as they did.
    """

    def __init__(self, bundle: Bundle) -> None:
        super().__init__(bundle)
        self.samples = 0

    def train_step(self, x: Floats, targets: Floats, mask: Floats, **settings: float) -> float:
        """Take one step; see :meth:`ModelRuntime.train_step`."""
        self.samples += len(x)
        return super().train_step(x, targets, mask, **settings)
