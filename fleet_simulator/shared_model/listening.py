"""How well a virtual device recognises its own held-out clips, and strangers' clips; with a fleet and without one.

The measure of a method is the model that the device listens with. Without a fleet that is one trained on its clips
alone, on the public set alone, or on both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from edge_client.learning.held_out import FEWEST
from edge_client.learning.personalisations.personalisation import fine_tune
from edge_client.learning.rounds.guard import Evidence, Listener, choose_listener
from edge_client.learning.training_data import Clips, held_out_accuracy, rescaled
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.arrays import Floats
from fleet_protocol.labels import LabelMap
from fleet_protocol.tensors import Arrays
from fleet_simulator.experiment.sections import BaselinesSection
from fleet_simulator.partition.clip_shards import ClipShards

STRANGERS = 256
"""Test clips, at most, that a device's model is evaluated on."""
_SETTLE, _SMALLER = 0.7, 0.25


@dataclass(frozen=True)
class Baselines:
    """Trains what a device would have without a fleet.

    Attributes:
        model: of the device's own bundle; its weights are overwritten.
        initial: the bundle's weights.
        label_map: of a device that knows every class.
        how: how to train.
    """

    model: ModelRuntime
    initial: Mapping[str, Floats]
    label_map: LabelMap
    how: BaselinesSection

    def train(self, clips: Clips, beside: Clips | None, rng: np.random.Generator) -> Arrays:
        """Return weights trained on clips, and beside them on as many others; the last passes take smaller steps."""
        self.model.set_weights(self.initial)
        large = round(_SETTLE * self.how.passes)
        for passes, factor in ((large, 1.0), (self.how.passes - large, _SMALLER)):
            settings = {"epochs": passes, "learning_rate": factor * self.how.learning_rate, "momentum": 0.9}
            fine_tune(self.model, self.label_map, clips, settings, rng, beside)
        return self.model.get_weights()


class Judge:
    """Evaluates models on a device's clips that nothing was trained on or chosen by, and on strangers' clips."""

    def __init__(self, shards: ClipShards, scale: ModelRuntime, seed: int) -> None:
        """Take the clips, which are normalised for the model ``scale``."""
        self._shards, self._scale, self._seed = shards, scale, seed

    def clips(self, rows: slice, model: ModelRuntime) -> Clips:
        """Return the clips of a shard as a model takes them."""
        clips = self._shards.clips(rows)
        return Clips(rescaled(clips.x, self._scale, model), clips.slots)

    def strangers(self, device: int, model: ModelRuntime) -> Clips:
        """Return some of the test clips, others for every device; none of their speakers is on any device."""
        rows = self._shards.test
        some = np.random.default_rng([self._seed, 9, device]).permutation(rows.stop - rows.start)[:STRANGERS]
        clips = self.clips(rows, model)
        return Clips(clips.x[:, some], clips.slots[some])

    def accuracies(self, name: str, device: int, model: ModelRuntime, mask: Floats) -> dict[str, float]:
        """Return the accuracy among the mask's outputs, 0..1: ``NAME_own`` and ``NAME_strangers``.

        A clip of a class whose output is off counts as missed.
        """
        slots = range(len(self._shards.names))
        own = held_out_accuracy(model, mask, self.clips(self._shards.evaluate(device), model), slots)
        strangers = held_out_accuracy(model, mask, self.strangers(device, model), slots)
        return {f"{name}_own": own, f"{name}_strangers": strangers}

    def guarded(self, device: int, model: ModelRuntime, present: Listener, result: Listener) -> Listener:
        """Return which of two models a device's guard lets it listen with (edge_client/learning/rounds/guard.py).

        Args:
            device: whose clips held out to choose by decide, and the public set where these do not tell.
            model: of both; its weights are overwritten.
            present: with which the device listens.
            result: of the rounds.
        """
        own, public = (self.clips(rows, model) for rows in (self._shards.choose(device), self._shards.public))
        judged = self._shards.labels(self._shards.rows(device)) if len(own.slots) >= FEWEST else own.slots[:0]
        others = ~np.isin(public.slots, judged)
        evidence = Evidence(own, "held_out", Clips(public.x[:, others], public.slots[others]))
        return choose_listener(model, present, result, None, evidence)[0]
