"""The device's public Python interface: a bundle's network as a classifier of clips, by the names of scikit-learn.

docs/python.md shows its use. What stands here keeps its name and meaning within a major version. It wraps what a device
runs; it listens to no microphone and speaks to no aggregator.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from edge_client.audio.recordings import Recordings, read_clip
from edge_client.errors import EdgeError, ModelError, RecordingError
from edge_client.features.front_end import open_front_end
from edge_client.learning.methods.settings import NEW_SOUNDS
from edge_client.learning.new_sounds.describe import describe
from edge_client.learning.sgd import Optimiser, settling, train_epoch
from edge_client.learning.targets import from_slots
from edge_client.learning.training_data import Clips, variants
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.arrays import Array, Floats, Ints
from fleet_protocol.atomic_files import write_durably
from fleet_protocol.bundle import Bundle, read_bundle, write_bundle
from fleet_protocol.errors import AuricleError
from fleet_protocol.labels import LabelMap
from fleet_protocol.messages import ClassInfo
from fleet_protocol.public_set import PublicSet
from fleet_protocol.ready_bundles import FIRST_CHOICE, find_bundle, ready_names
from fleet_protocol.setting import complete
from fleet_protocol.tensors import Arrays, pack, unpack

__all__ = [
    "Arrays",
    "AuricleError",
    "Classifier",
    "EdgeError",
    "PublicSet",
    "ready_names",
]

_FORMAT = "auricle-classifier"

Recorded = Floats | Sequence[str | Path]
"""Clips: float32 [clips, samples] in -1..1 at the bundle's rate; or the paths of recordings."""


class Classifier:
    """A bundle's network as a classifier of clips.

    It trains by cross-entropy on the labels that it is given, as a round of ``fedavg`` does on a device: variants of
    every clip that are shifted in time, momentum SGD, smaller steps at the end. Outputs that stand for what is no label
    are off, so every clip is one of the labels to it. What a device learns besides, so that it knows what is none of
    them, is in docs/teaching.md.

    Equal input gives equal weights, bit for bit, on the same machine and runtime.

    Attributes:
        sample_rate_hz: Rate that clips must have.
        clip_samples: Samples of a clip; longer ones are cropped at their end, shorter ones padded with zeros.
    """

    def __init__(
        self,
        bundle: str | Path = FIRST_CHOICE,
        classes: Sequence[str] = (),
        *,
        epochs: int = 30,
        learning_rate: float = 0.02,
        copies: int = 4,
        seed: int = 0,
        threads: int = 1,
    ) -> None:
        """Open a bundle.

        Args:
            bundle: the name of a ready bundle (:func:`ready_names`), or the path of one.
            classes: labels whose outputs are known from the start. Classifiers whose weights are to be combined need
                the same ones. Further labels get the next outputs when they are met.
            epochs: passes of :meth:`fit`.
            learning_rate: step size.
            copies: augmented variants of every clip.
            seed: of everything random.
            threads: of the TensorFlow Lite runtime.

        Raises:
            BundleError: there is no such bundle, or it is damaged.
            LabelError: more classes than the head has room for, or one of them twice.
            ModelError: this machine has no runtime, or the runtime cannot take the graph.
        """
        self._bundle: Bundle = read_bundle(find_bundle(str(bundle)))
        self._model = ModelRuntime(self._bundle, threads)
        settings = self._bundle.manifest.feature_settings
        self._settings, self._front_end = settings, open_front_end(settings)
        self.sample_rate_hz, self.clip_samples = settings.sample_rate_hz, settings.clip_samples
        self._given = tuple(classes)
        self._epochs, self._learning_rate, self._copies, self._seed = epochs, learning_rate, copies, seed
        self._label_map = self._first_labels()
        self._trainings = 0

    @property
    def classes_(self) -> tuple[str, ...]:
        """The labels, in the order of the columns of :meth:`predict_proba`."""
        return self._label_map.names

    @property
    def weights(self) -> Arrays:
        """A copy of the network's weights by name, float32; what a device uploads when a fleet shares its model.

        Setting them replaces all of them.

        Raises:
            ModelError: an array is missing, unknown, of a wrong shape or not finite.
        """
        return self._model.get_weights()

    @weights.setter
    def weights(self, weights: Mapping[str, Array]) -> None:
        self._model.set_weights(weights)

    def read(self, clips: Recorded) -> Floats:
        """Return clips as float32 [clips, samples].

        Args:
            clips: float [clips, samples], which is returned as it is; or paths of recordings (WAV, FLAC, Ogg), which
                are resampled. Of a longer recording the loudest stretch is read, a shorter one is padded with zeros at
                its end.

        Raises:
            RecordingError: a recording cannot be read, or the array has another rank; names it.
        """
        if not isinstance(clips, np.ndarray):
            rows = [read_clip(Path(path), self._settings) for path in clips]
            return np.stack(rows) if rows else np.zeros((0, self.clip_samples), np.float32)
        if clips.ndim != 2:
            raise RecordingError(f"clips have shape {clips.shape}; give [clips, samples], or a list of paths")
        return np.asarray(clips, np.float32)

    def read_folder(
        self, folder: str | Path, labels: Sequence[str] | None = None, per_label: int | None = None
    ) -> tuple[Floats, list[str]]:
        """Read recordings ``<label>/*.wav|flac|ogg``: float32 [clips, samples], and the label of each.

        Recordings that cannot be read are left out, with a warning in the log.

        Args:
            folder: holds a folder for each label; one whose name starts with ``_`` or ``.`` is left out.
            labels: those that are wanted; None: all, in alphabetical order.
            per_label: recordings of each, drawn by the classifier's seed; None: all.

        Raises:
            RecordingError: the folder cannot be read, or a label that is wanted has no recording that can be read.
        """
        drawn = None if per_label is None else (per_label, per_label)
        source = Recordings(Path(folder), self._settings, per_round=drawn, seed=self._seed)
        parts = {label: source.load(source.clips_for_round(0, label)) for label in labels or source.labels()}
        missing = [label for label, rows in parts.items() if not len(rows)]
        if missing or not parts:
            raise RecordingError(
                f"no recordings of {missing[0] if missing else 'anything'} in {folder} that can be read; they are "
                "expected as <label>/*.wav, .flac or .ogg"
            )
        return np.concatenate(list(parts.values())), [label for label, rows in parts.items() for _ in rows]

    def make_public_set(self, clips: Recorded, labels: Sequence[str], classes: Sequence[str] = ()) -> PublicSet:
        """Make a public set of recordings, for the bundle's front end; its classes are the labels.

        Args:
            clips: float32 [clips, samples], or paths.
            labels: of each clip.
            classes: the labels in the order of the columns of scores; by default alphabetical.

        Raises:
            EdgeError: the clips cannot be used, or labels do not fit them.
            LabelError: ``classes`` lacks a label, or names one twice.
        """
        samples, labels = self._samples(clips, labels)
        order = _with_labels(LabelMap(max(1, len(classes), len(set(labels)))), classes or sorted(set(labels)))
        return PublicSet(
            settings=self._settings,
            classes=tuple(ClassInfo(label, label) for label in order.names),
            features=self._front_end(samples),
            labels=np.array([order.slot_of(label) for label in labels], np.int64),
            synthetic=np.zeros(len(labels), np.bool_),
        )

    def fit(self, clips: Recorded, labels: Sequence[str]) -> Self:
        """Learn clips from the bundle's initial weights; what was learned before is forgotten.

        Args:
            clips: float32 [clips, samples], or paths.
            labels: of each clip.

        Raises:
            EdgeError: the clips cannot be used, labels do not fit them, or the training diverged.
            LabelError: there are more labels than the head has room for.
        """
        samples, labels = self._samples(clips, labels)
        self._label_map = self._first_labels()
        self._trainings = 0
        self._model.set_weights(self._bundle.weights)
        return self._train(samples, labels, self._epochs)

    def partial_fit(self, clips: Recorded, labels: Sequence[str], epochs: int = 1) -> Self:
        """Learn clips from the present weights.

        Args:
            clips: float32 [clips, samples], or paths.
            labels: of each clip; a label that was not met before gets the next output.
            epochs: passes over the clips.

        Raises:
            EdgeError: as :meth:`fit`.
            LabelError: as :meth:`fit`.
        """
        samples, labels = self._samples(clips, labels)
        return self._train(samples, labels, epochs)

    def predict_proba(self, clips: Recorded) -> Floats:
        """Return probabilities, float32 [clips, classes], which sum to 1.

        Raises:
            EdgeError: the clips cannot be used, or no label is known.
        """
        return self._probabilities(self.features(clips))

    def predict(self, clips: Recorded) -> NDArray[np.str_]:
        """Return the most probable label of each clip, str [clips].

        Raises:
            EdgeError: as :meth:`predict_proba`.
        """
        names: NDArray[np.str_] = np.asarray(self.classes_, np.str_)
        best: NDArray[np.str_] = names[self.predict_proba(clips).argmax(axis=1)]
        return best

    def score(self, clips: Recorded, labels: Sequence[str]) -> float:
        """Return the accuracy, 0..1: the share of clips whose label is predicted.

        Raises:
            EdgeError: as :meth:`predict_proba`, or labels do not fit the clips.
        """
        samples, labels = self._samples(clips, labels)
        return float((self.predict(samples) == np.asarray(labels, np.str_)).mean())

    def features(self, clips: Recorded) -> Floats:
        """Return the front end's features, not normalised, float32 [clips, frames, numbers per frame].

        Raises:
            EdgeError: the clips cannot be used.
        """
        return self._front_end(self.read(clips))

    def score_public_set(self, public_set: PublicSet) -> Floats:
        """Return probabilities of the public set's samples, float32 [samples, classes].

        It is what a device uploads with ``zero_shot``.

        Raises:
            FeatureMismatchError: bundle and public set compute features differently.
            ModelError: no label is known.
        """
        self._require_same_features(public_set)
        return self._probabilities(public_set.features)

    def describe(
        self, clips: Recorded, labels: Sequence[str], public_set: PublicSet, wanted: Sequence[str]
    ) -> dict[str, dict[str, Floats]]:
        """Describe classes to an aggregator, which compares those of several devices.

        Args:
            clips: that the classifier has learned: float32 [clips, samples], or paths.
            labels: of each clip.
            public_set: of the fleet.
            wanted: the labels to describe; each has a clip.

        Returns:
            By label, ``prototype``, float32 [1, numbers], where the front end is pretrained; else ``impressions``,
            float32 [32, frames, numbers per frame], and ``profile``, float32 [public samples].

        Raises:
            EdgeError: the clips cannot be used, or labels do not fit them.
            FeatureMismatchError: bundle and public set compute features differently.
            LabelError: a label is not known.
        """
        self._require_same_features(public_set)
        samples, labels = self._samples(clips, labels)
        slots = self._slots(labels)
        x = self._model.normalise(self._front_end(samples))
        public = self._model.normalise(public_set.features)
        arrays = describe(
            self._model, self._label_map.mask, Clips(x[None], slots), public,
            [self._label_map.slot_of(label) for label in wanted], complete("new sounds", NEW_SOUNDS, {}),
            np.random.default_rng([self._seed, self._trainings]),
        )  # fmt: skip
        names = {"prototypes": "prototype", "impressions": "impressions", "profiles": "profile"}
        return {label: {names[kind]: rows[i] for kind, rows in arrays.items()} for i, label in enumerate(wanted)}

    def save(self, path: str | Path) -> None:
        """Write labels and weights into a file, which appears whole or not at all.

        Raises:
            OSError: the disk refuses.
        """
        document = {"format": _FORMAT, "network": self._bundle.manifest.network, "labels": self._label_map.to_json()}
        write_durably(Path(path), pack(self.weights, document), 0o644)

    def load(self, path: str | Path) -> Self:
        """Take labels and weights from a file that :meth:`save` of a classifier of the same bundle wrote.

        Raises:
            ModelError: the file is of another network, or holds no classifier.
            OSError: the file cannot be read.
            TensorError: it is damaged.
        """
        weights, document = unpack(Path(path).read_bytes())
        if document.get("format") != _FORMAT:
            raise ModelError(f"{path} holds no classifier; Classifier.save writes one")
        if document.get("network") != self._bundle.manifest.network:
            raise ModelError(f"{path} was saved with another bundle; open the classifier with that one")
        self._model.set_weights(weights)
        self._label_map = LabelMap.from_json(document["labels"])
        return self

    def save_bundle(self, path: str | Path) -> None:
        """Write the bundle with the present weights as its initial ones, for a device, or as a fleet's shared model.

        The labels are not part of a bundle.

        Raises:
            OSError: the disk refuses.
        """
        data = write_bundle(self._bundle.manifest, self._bundle.graph, self.weights)
        write_durably(Path(path), data, 0o644)

    def _first_labels(self) -> LabelMap:
        label_map = LabelMap(self._bundle.manifest.capacity, reserved=len(self._bundle.manifest.background))
        return _with_labels(label_map, self._given)

    def _samples(self, clips: Recorded, labels: Sequence[str]) -> tuple[Floats, list[str]]:
        samples, named = self.read(clips), [str(label) for label in labels]
        if len(samples) != len(named) or not named:
            raise RecordingError(f"{len(samples)} clips and {len(named)} labels; give every clip one, and at least one")
        return samples, named

    def _slots(self, labels: Sequence[str]) -> Ints:
        return np.array([self._label_map.slot_of(label) for label in labels], np.int64)

    def _train(self, samples: Floats, labels: Sequence[str], epochs: int) -> Self:
        self._label_map = _with_labels(self._label_map, sorted(set(labels)))
        self._trainings += 1
        rng = np.random.default_rng([self._seed, self._trainings])
        x = variants(samples, self._front_end, self._model, rng, copies=self._copies)
        clips = Clips(x, self._slots(labels))
        targets, loss = from_slots(clips.slots, self._label_map.capacity), 0.0
        for epoch in range(epochs):
            optimiser = Optimiser(settling(self._learning_rate, epoch, epochs))
            loss = train_epoch(self._model, clips.draw(rng), targets, self._label_map.mask, optimiser, rng)
        if not math.isfinite(loss):
            raise ModelError(f"the training diverged (loss {loss}); lower learning_rate, now {self._learning_rate:g}")
        return self

    def _probabilities(self, features: Floats) -> Floats:
        if not self.classes_:
            raise ModelError("the classifier knows no label yet; call fit, partial_fit or load first")
        scores = self._model.predict(self._model.normalise(features), self._label_map.mask)
        return np.ascontiguousarray(scores[:, : len(self.classes_)])

    def _require_same_features(self, public_set: PublicSet) -> None:
        self._settings.require_same(public_set.settings, "the bundle", "the public set")


def _with_labels(label_map: LabelMap, labels: Iterable[str]) -> LabelMap:
    """Return the map with outputs for labels that it lacks."""
    for label in labels:
        if label not in label_map.names:
            label_map = label_map.add(label)
    return label_map
