"""The models of one worker's virtual devices: opened once, and given each device's weights in turn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property

import numpy as np

from aggregator_server.aggregation import Layout
from edge_client.learning.rounds.client_update import RoundContext
from edge_client.learning.rounds.local_training import PublicRows
from edge_client.learning.training_data import Clips, rescaled
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.bundle.bundle_file import Manifest
from fleet_protocol.bundle.labels import LabelMap
from fleet_protocol.messages.public_set import PublicSet, unpack_consensus
from fleet_protocol.messages.rest import Work
from fleet_protocol.numbers.arrays import Floats, Ints
from fleet_protocol.numbers.fleet_prototypes import FleetPrototypes
from fleet_protocol.numbers.tensors import Arrays
from fleet_simulator.partition.clip_shards import ClipShards
from fleet_simulator.runs.inputs import Inputs
from fleet_simulator.runs.run_folder import RowFile
from fleet_simulator.simulation.heads import Heads
from fleet_simulator.simulation.tasks import NO_OWN, Setup, classes_of

CONSENSUS, PROTOTYPES = "consensus.safetensors", "prototypes.safetensors"
"""Files of a run's folder with what the aggregator sends along with the present work."""


def layout_of(manifest: Manifest) -> Layout:
    """Return the layout of a model's weights in a row."""
    return Layout(manifest.layers, manifest.weight_shapes)


def public_set_of(shards: ClipShards, manifest: Manifest) -> PublicSet:
    """Return the public clips as the aggregator has them before the first round, not normalised."""
    x, settings = shards.features(shards.public), manifest.feature_settings
    mean, std = np.asarray(manifest.mean, np.float32), np.asarray(manifest.std, np.float32)
    features = np.asarray(x * std + mean, np.float32)
    labels = shards.labels(shards.public)
    return PublicSet(settings, classes_of(shards.names), features, labels, np.zeros(len(labels), np.bool_))


def architectures_of(own: int, devices: int, seed: int) -> Ints:
    """Draw which of the own models every device has, int64 [devices]."""
    return np.random.default_rng([seed, 3]).integers(own, size=devices)


class DeviceModels:
    """The opened models, the files of weights, and what the aggregator sent."""

    def __init__(self, setup: Setup, shards: ClipShards, inputs: Inputs) -> None:
        """Open the bundles."""
        self.setup = setup
        self.shards = shards
        own, bundle = setup.own, setup.experiment.model.bundle
        self.bundle = inputs.bundle(bundle)  # the shared model's, with its initial weights
        self.shared = inputs.model(bundle, "shared")
        self.own = [inputs.model(path, f"own {number}") for number, path in enumerate(own)]
        self.initial = [inputs.bundle(path).weights for path in own]
        self.architectures = architectures_of(len(own), shards.devices, setup.experiment.rounds.seed)
        self.layout = layout_of(self.shared.manifest)
        # After `load`: the fleet's weights, and the public set as the shared model takes it.
        self.weights: Arrays = {}
        self.public: PublicRows
        self._files = RowFile(setup.folder / "models.f32", self.layout.width)
        widths = [layout_of(model.manifest).width for model in self.own]
        self._own_file = RowFile(setup.folder / "own-models.f32", max(widths))
        self._loaded = (-1, -1)
        self._labels: dict[tuple[int, int], LabelMap] = {}
        self._consensus: tuple[str, Floats] | None = None
        self._prototypes: tuple[str, FleetPrototypes] | None = None

    @property
    def samples(self) -> int:
        """How many samples passed through training steps so far, of all models."""
        return self.shared.samples + sum(model.samples for model in self.own)

    def load(self, model: int, rounds: int) -> None:
        """Take over a global model after some rounds, whose opinion on the public set the devices keep."""
        if (model, rounds) == self._loaded:
            return
        self.weights = self.layout.split(self._files.read(model, 1)[0])
        self._loaded = (model, rounds)
        x, labels = self.shards.features(self.shards.public), self.shards.labels(self.shards.public)
        self.public = PublicRows(self.shared, x, labels, np.zeros(len(x), np.bool_), trained=rounds > 0)

    @cached_property
    def public_set(self) -> PublicSet:
        """As the aggregator has it."""
        return public_set_of(self.shards, self.shared.manifest)

    @cached_property
    def all_classes(self) -> Floats:
        """Mask of the shared model's outputs that are classes."""
        return (np.arange(self.shared.manifest.capacity) < len(self.shards.names)).astype(np.float32)

    def context(self, work: Work, *, first: bool) -> RoundContext:
        """Return what the aggregator sends along with work for devices that train a network."""
        if work.consensus is not None and (self._consensus is None or self._consensus[0] != work.consensus):
            found, _ = unpack_consensus((self.setup.folder / CONSENSUS).read_bytes())
            self._consensus = work.consensus, found
        consensus = self._consensus[1] if work.consensus is not None and self._consensus else None
        bundle = replace(self.bundle, weights=self.weights)
        return RoundContext(self.public_set, consensus, bundle, work.round_id > 1, first)

    def prototypes(self, work: Work) -> FleetPrototypes | None:
        """Return the fleet's prototypes that work names."""
        if work.prototypes is None:
            return None
        if self._prototypes is None or self._prototypes[0] != work.prototypes:
            found = FleetPrototypes.unpack((self.setup.folder / PROTOTYPES).read_bytes())
            self._prototypes = work.prototypes, found
        return self._prototypes[1]

    def labels(self, model: ModelRuntime) -> LabelMap:
        """Return the label map of a device that knows every class of the fleet, in the fleet's order."""
        key = model.manifest.capacity, len(model.manifest.background)
        if key not in self._labels:
            classes = [(info.class_id, info.name) for info in classes_of(self.shards.names)]
            self._labels[key] = LabelMap(key[0], reserved=key[1]).adopt(classes)
        return self._labels[key]

    def mask(self, device: int, model: ModelRuntime) -> Floats:
        """Return the outputs of the classes that a device has clips of."""
        mask = np.zeros(model.manifest.capacity, np.float32)
        mask[self.shards.labels(self.shards.rows(device))] = 1.0
        return mask

    def own_model(self, device: int, version: int) -> ModelRuntime:
        """Return the runtime of a device's own model, with its weights."""
        architecture = int(self.architectures[device])
        model: ModelRuntime = self.own[architecture]
        if version == NO_OWN:
            first: Mapping[str, Floats] = self.initial[architecture]
            model.set_weights(first)
        else:
            layout = layout_of(model.manifest)
            model.set_weights(layout.split(self._own_file.read(2 * device + version, 1)[0][: layout.width]))
        return model

    def keep_own(self, device: int, version: int) -> None:
        """Write the weights that a device's own model has now to one of its places."""
        model = self.own[int(self.architectures[device])]
        layout, row = layout_of(model.manifest), np.zeros(self._own_file.width, np.float32)
        layout.flatten(model.get_weights(), row[: layout.width])
        self._own_file.write(2 * device + version, row)

    def clips(self, rows: slice, model: ModelRuntime) -> Clips:
        """Return the clips of a shard as a model takes them."""
        clips = self.shards.clips(rows)
        return Clips(rescaled(clips.x, self.shared, model), clips.slots)

    def heads(self, device: int) -> Heads:
        """Return what fits the heads of a device's bundle."""
        architecture = int(self.architectures[device])
        return Heads(self.own[architecture], self.initial[architecture])

    def takes(self, device: int) -> dict[str, Floats]:
        """Return a device's clips as embeddings by label: float32 [clips, variants, numbers]."""
        rows = self.shards.rows(device)
        embeddings, slots = self.shared.denormalise(self.shards.variants(rows))[:, :, 0], self.shards.labels(rows)
        names = {self.shards.names[slot]: slot for slot in np.unique(slots)}
        return {name: embeddings[slots == names[name]] for name in sorted(names)}
