"""The device's public Python interface: a bundle's network as a classifier of clips; docs/python.md shows its use.

What stands here keeps its name and meaning within a major version. It wraps what a device runs; it listens to no
microphone and speaks to no aggregator.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import numpy as np

from edge_client.audio.recordings import read_clip
from edge_client.errors import EdgeError, ModelError, RecordingError
from edge_client.features.front_end import open_front_end
from edge_client.learning.class_links import take_labels
from edge_client.learning.sgd import Optimiser, from_slots, settling, train_epoch
from edge_client.learning.training_data import Clips, variants
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.bundle.bundle_file import read_bundle
from fleet_protocol.bundle.labels import LabelMap
from fleet_protocol.bundle.ready_bundles import FIRST_CHOICE, find_bundle, ready_names
from fleet_protocol.errors import AuricleError
from fleet_protocol.ground.atomic_files import write_durably
from fleet_protocol.numbers.arrays import Array, Floats
from fleet_protocol.numbers.tensors import pack, unpack

__all__ = ["AuricleError", "Classifier", "EdgeError", "ready_names"]

_FORMAT = "auricle-classifier"
_COPIES = 4  # augmented variants of every clip

Clip = str | Path | Array
"""A recording's path, or floats [samples] in -1..1 at the bundle's rate, of any length."""


class Classifier:
    """A bundle's network as a classifier of clips.

    It trains by cross-entropy on the labels that it is given, as a round of ``fedavg`` does on a device: variants of
    every clip that are shifted in time, momentum SGD, smaller steps at the end. Outputs that stand for what is no label
    are off, so every clip is one of the labels to it. What a device learns besides, so that it knows what is none of
    them, is in docs/teaching.md. Equal input gives equal weights, bit for bit, on the same machine and runtime.

    Attributes:
        sample_rate_hz: Rate that arrays must have.
        clip_samples: Samples of a clip; a longer array is cropped at its end, a shorter one padded with zeros.
    """

    def __init__(self, bundle: str | Path = FIRST_CHOICE, *, seed: int = 0, threads: int = 1) -> None:
        """Open a bundle: a ready one's name (:func:`ready_names`), or a file.

        Args:
            seed: of everything random.
            threads: of the TensorFlow Lite runtime.

        Raises BundleError if there is no such bundle, or it is damaged; ModelError if this machine has no runtime, or
        the runtime cannot take the graph.
        """
        self._bundle = read_bundle(find_bundle(str(bundle)))
        self._model = ModelRuntime(self._bundle, threads)
        settings = self._bundle.manifest.feature_settings
        self._settings, self._front_end, self._seed = settings, open_front_end(settings), seed
        self.sample_rate_hz, self.clip_samples = settings.sample_rate_hz, settings.clip_samples
        self._label_map = self._no_labels()

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that were learned, in the order of the columns of :meth:`probabilities`."""
        return self._label_map.names

    def fit(
        self, clips: Sequence[Clip], labels: Sequence[str], *, epochs: int = 30, learning_rate: float = 0.02
    ) -> Self:
        """Learn clips from the bundle's initial weights; what was learned before is forgotten.

        Of a longer recording the loudest stretch is learned.

        Raises RecordingError if a recording cannot be read, an array is none, or labels do not fit the clips;
        LabelError if there are more labels than the head has room for; ModelError if the training diverged.
        """
        if len(clips) != len(labels) or not len(labels):
            raise RecordingError(f"{len(clips)} clips and {len(labels)} labels; give every clip one, and at least one")
        samples = self._read(clips)
        self._label_map = take_labels(self._no_labels(), sorted({str(label) for label in labels}), ())
        self._model.set_weights(self._bundle.weights)
        rng, loss = np.random.default_rng(self._seed), 0.0
        slots = np.array([self._label_map.slot_of(str(label)) for label in labels], np.int64)
        learned = Clips(variants(samples, self._front_end, self._model, rng, copies=_COPIES), slots)
        targets = from_slots(slots, self._label_map.capacity)
        for epoch in range(epochs):
            optimiser = Optimiser(settling(learning_rate, epoch, epochs))
            loss = train_epoch(self._model, learned.draw(rng), targets, self._label_map.mask, optimiser, rng)
        if not math.isfinite(loss):
            raise ModelError(f"the training diverged (loss {loss}); lower learning_rate, now {learning_rate:g}")
        return self

    def probabilities(self, clips: Sequence[Clip]) -> Floats:
        """Return probabilities, float32 [clips, labels], which sum to 1.

        Raises RecordingError if a clip cannot be read, ModelError if no label is known.
        """
        if not self.labels:
            raise ModelError("the classifier knows no label yet; call fit or load first")
        x = self._model.normalise(self._front_end(self._read(clips)))
        return self._model.predict(x, self._label_map.mask)[:, : len(self.labels)]

    def predict(self, clips: Sequence[Clip]) -> list[str]:
        """Return the most probable label of each clip. Raises RecordingError, ModelError as :meth:`probabilities`."""
        return [self.labels[best] for best in self.probabilities(clips).argmax(axis=1)]

    def save(self, path: str | Path) -> None:
        """Write labels and weights into a file, which appears whole or not at all. Raises OSError."""
        document = {"format": _FORMAT, "network": self._bundle.manifest.network, "labels": self._label_map.to_json()}
        write_durably(Path(path), pack(self._model.get_weights(), document), 0o644)

    def load(self, path: str | Path) -> Self:
        """Take labels and weights from a file that :meth:`save` of a classifier of the same bundle wrote.

        Raises ModelError if the file is of another network, or holds no classifier; TensorError if it is damaged;
        OSError.
        """
        weights, document = unpack(Path(path).read_bytes())
        if document.get("format") != _FORMAT:
            raise ModelError(f"{path} holds no classifier; Classifier.save writes one")
        if document.get("network") != self._bundle.manifest.network:
            raise ModelError(f"{path} was saved with another bundle; open the classifier with that one")
        self._model.set_weights(weights)
        self._label_map = LabelMap.from_json(document["labels"])
        return self

    def _no_labels(self) -> LabelMap:
        return LabelMap(self._bundle.manifest.capacity, reserved=len(self._bundle.manifest.background))

    def _read(self, clips: Sequence[Clip]) -> Floats:
        """Return clips as float32 [clips, clip_samples]."""
        if isinstance(clips, str | Path):
            raise RecordingError(f"{str(clips)!r} is a single path; give a list of clips")
        rows = [self._row(clip) for clip in clips]
        return np.stack(rows) if rows else np.zeros((0, self.clip_samples), np.float32)

    def _row(self, clip: Clip) -> Floats:
        if isinstance(clip, str | Path):
            return read_clip(Path(clip), self._settings)
        row = np.asarray(clip)
        if row.ndim != 1 or row.dtype.kind not in "biuf" or not np.isfinite(row).all():
            raise RecordingError(f"a clip is {row.dtype} of shape {row.shape}; give finite floats [samples], or a path")
        row = row[: self.clip_samples].astype(np.float32)
        return np.pad(row, (0, self.clip_samples - len(row)))
