"""The device's public Python interface: a bundle's network as a classifier of clips, by the names of scikit-learn.

docs/python.md shows its use. What stands here keeps its name and meaning within a major version. It wraps what a device
runs; it listens to no microphone and speaks to no aggregator.
"""

from __future__ import annotations

import contextlib
import inspect
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from edge_client.audio.recordings import Recordings, read_clip
from edge_client.errors import (
    ClipsError,
    EdgeError,
    FileError,
    MissingFileError,
    ModelError,
    NotFittedError,
    ParameterError,
    RecordingError,
)
from edge_client.features.front_end import open_front_end
from edge_client.learning.new_sounds.describe import describe
from edge_client.learning.sgd import Optimiser, settling, train_epoch
from edge_client.learning.targets import from_slots
from edge_client.learning.teaching.taught import with_labels
from edge_client.learning.training_data import Clips, variants
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.arrays import Array, Floats, Ints
from fleet_protocol.atomic_files import write_durably
from fleet_protocol.bundle import Bundle, read_bundle, write_bundle
from fleet_protocol.errors import AuricleError
from fleet_protocol.labels import LabelMap
from fleet_protocol.local_methods.settings import NEW_SOUNDS
from fleet_protocol.messages import ClassInfo
from fleet_protocol.public_set import PublicSet
from fleet_protocol.ready_bundles import FIRST_CHOICE, find_bundle, ready_names
from fleet_protocol.setting import complete
from fleet_protocol.tensors import Arrays, pack, unpack

__all__ = [
    "Arrays",
    "AuricleError",
    "Classifier",
    "ClipsError",
    "EdgeError",
    "FileError",
    "MissingFileError",
    "NotFittedError",
    "ParameterError",
    "PublicSet",
    "ready_names",
]

_FORMAT = "auricle-classifier"

Recorded = str | Path | Floats | Sequence[str | Path | Floats]
"""Clips: float32 [clips, samples] in -1..1 at the bundle's rate; paths of recordings; or a list of paths and of arrays,
float32 [samples] each, of any length. A single path, or an array [samples], is one clip."""


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
            bundle: name of a ready bundle (:func:`ready_names`), or the path of one.
            classes: labels whose outputs are known from the start. Classifiers whose weights are to be combined need
                the same ones. Further labels get the next outputs when they are met.
            epochs: passes of :meth:`fit`.
            copies: augmented variants of every clip.
            seed: of everything random.
            threads: of the TensorFlow Lite runtime.

        Raises BundleError if there is no such bundle, or it is damaged; LabelError if there are more classes than the
        head has room for, or one of them twice; ModelError if this machine has no runtime, or the runtime cannot take
        the graph.
        """
        self.bundle, self.classes = bundle, classes
        self.epochs, self.learning_rate, self.copies = epochs, learning_rate, copies
        self.seed, self.threads = seed, threads
        self._open()

    def _open(self) -> None:
        """Open the bundle that the parameters name; what was learned is forgotten."""
        self._bundle: Bundle = read_bundle(find_bundle(str(self.bundle)))
        self._model = ModelRuntime(self._bundle, self.threads)
        settings = self._bundle.manifest.feature_settings
        self._settings, self._front_end = settings, open_front_end(settings)
        self.sample_rate_hz, self.clip_samples = settings.sample_rate_hz, settings.clip_samples
        self._label_map = self._first_labels()
        self._trainings = 0

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002  (no parameter has parameters of its own)
        """Return the parameters of the constructor by name, as scikit-learn asks for them."""
        return {name: getattr(self, name) for name in _PARAMETERS}

    def set_params(self, **params: Any) -> Self:  # noqa: ANN401  (whatever the constructor takes)
        """Change parameters; with another bundle, classes or threads, what was learned is forgotten.

        Raises ParameterError if there is no parameter of that name; AuricleError as the constructor; nothing is changed
        then.
        """
        for name in params:
            if name not in _PARAMETERS:
                raise ParameterError(f"a Classifier has no parameter {name!r}; it has {', '.join(_PARAMETERS)}")
        if params.keys() & {"bundle", "classes", "threads"}:
            self.__dict__ = type(self)(**self.get_params() | params).__dict__
        else:
            self.__dict__ |= params
        return self

    def __repr__(self) -> str:
        """Return the call that makes such a classifier; parameters with their defaults are left out."""
        changed = (
            f"{name}={getattr(self, name)!r}"
            for name, parameter in _PARAMETERS.items()
            if not _same(getattr(self, name), parameter.default)
        )
        return f"{type(self).__name__}({', '.join(changed)})"

    def __getstate__(self) -> dict[str, Any]:
        """Return parameters, labels and weights: the runtime cannot be pickled, and is opened anew."""
        learned = {"labels": self._label_map.to_json(), "trainings": self._trainings, "weights": self.weights}
        return self.get_params() | learned

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take what :meth:`__getstate__` returned.

        Raises AuricleError if the bundle is not there any more, or is another one.
        """
        for name in _PARAMETERS:
            setattr(self, name, state[name])
        self._open()
        self._model.set_weights(state["weights"])
        self._label_map, self._trainings = LabelMap.from_json(state["labels"]), state["trainings"]

    def __sklearn_tags__(self) -> Any:  # noqa: ANN401  (scikit-learn's Tags, which a device does not have)
        """Return what scikit-learn wants to know; it alone calls this, so it is there."""
        tags = import_module("sklearn.utils")
        return tags.Tags(
            estimator_type="classifier",
            target_tags=tags.TargetTags(required=True),
            classifier_tags=tags.ClassifierTags(),
            input_tags=tags.InputTags(two_d_array=True),
        )

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether a label is known."""
        return bool(self._label_map.names)

    @property
    def n_features_in_(self) -> int:
        """Samples of a clip, as scikit-learn calls them; clips of other lengths are cropped or padded."""
        return self.clip_samples

    @property
    def classes_(self) -> NDArray[np.str_]:
        """The labels, str [classes], in the order of the columns of :meth:`predict_proba`."""
        return np.array(self._label_map.names, np.str_)

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
            clips: float [clips, samples], which is returned as it is; paths of recordings (WAV, FLAC, Ogg), which are
                resampled; or a list of paths and arrays. A single path or array [samples] is one clip. Of a longer
                recording the loudest stretch is read; a shorter one is padded with zeros at its end. Of a longer array
                in a list its beginning is taken.

        Raises RecordingError if a recording cannot be read, and names it; ClipsError, which is one, if an array has
        another rank, or holds what is no finite number.
        """
        given: Any = [clips] if isinstance(clips, str | Path) else clips
        if not isinstance(given, Iterable) and not hasattr(given, "__array__"):
            raise ClipsError(f"clips are a {type(given).__name__}; give [clips, samples], a path, or a list of paths")
        if hasattr(given, "__array__"):
            array = np.asarray(given)
            if array.dtype.kind not in "USO":
                return _checked(array[None] if array.ndim == 1 else array)
            given = array.tolist()
        rows = [self._row(clip) for clip in given]
        return np.stack(rows) if rows else np.zeros((0, self.clip_samples), np.float32)

    def _row(self, clip: str | Path | Floats) -> Floats:
        """Return one clip, float32 [clip_samples]."""
        if isinstance(clip, str | Path):
            return read_clip(Path(clip), self._settings)
        row = np.asarray(clip)
        if row.ndim != 1:
            raise ClipsError(f"a clip of the list has shape {row.shape}; give [samples], or a path")
        row = _checked(row[None])[0, : self.clip_samples]
        return np.pad(row, (0, self.clip_samples - len(row)))

    def read_folder(
        self, folder: str | Path, labels: Sequence[str] | None = None, per_label: int | None = None
    ) -> tuple[Floats, list[str]]:
        """Read recordings ``<label>/*.wav|flac|ogg``: float32 [clips, samples], and the label of each.

        Recordings that cannot be read are left out, with a warning in the log.

        Args:
            folder: holds a folder for each label; one whose name starts with ``_`` or ``.`` is left out.
            labels: those that are wanted; None: all, in alphabetical order.
            per_label: recordings of each, drawn by the classifier's seed; None: all.

        Raises RecordingError if the folder cannot be read, or a label that is wanted has no recording that can be read.
        """
        drawn = None if per_label is None else (per_label, per_label)
        source = Recordings(Path(folder), self._settings, per_round=drawn, seed=self.seed)
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

        ``classes`` has the labels in the order of the columns of scores; by default alphabetical.

        Raises EdgeError if the clips cannot be used, or labels do not fit them; LabelError if ``classes`` lacks a
        label, or names one twice.
        """
        samples, labels = self._samples(clips, labels)
        named = list(classes) or sorted(set(labels))
        order = with_labels(LabelMap(max(1, len(named), len(set(labels)))), named)
        return PublicSet(
            settings=self._settings,
            classes=tuple(ClassInfo(label, label) for label in order.names),
            features=self._front_end(samples),
            labels=np.array([order.slot_of(label) for label in labels], np.int64),
            synthetic=np.zeros(len(labels), np.bool_),
        )

    def fit(self, clips: Recorded, labels: Sequence[str]) -> Self:
        """Learn clips from the bundle's initial weights; what was learned before is forgotten.

        Raises EdgeError if the clips cannot be used, labels do not fit them, or the training diverged; LabelError if
        there are more labels than the head has room for.
        """
        samples, labels = self._samples(clips, labels)
        self._label_map = self._first_labels()
        self._trainings = 0
        self._model.set_weights(self._bundle.weights)
        return self._train(samples, labels, self.epochs)

    def partial_fit(self, clips: Recorded, labels: Sequence[str], epochs: int = 1) -> Self:
        """Learn clips from the present weights, in so many passes; a label that was not met before gets the next
        output.

        Raises EdgeError, LabelError as :meth:`fit`.
        """
        samples, labels = self._samples(clips, labels)
        return self._train(samples, labels, epochs)

    def predict_proba(self, clips: Recorded) -> Floats:
        """Return probabilities, float32 [clips, classes], which sum to 1.

        Raises EdgeError if the clips cannot be used, or no label is known.
        """
        return self._probabilities(self.features(clips))

    def predict(self, clips: Recorded) -> NDArray[np.str_]:
        """Return the most probable label of each clip, str [clips]. Raises EdgeError as :meth:`predict_proba`."""
        best: NDArray[np.str_] = self.classes_[self.predict_proba(clips).argmax(axis=1)]
        return best

    def score(self, clips: Recorded, labels: Sequence[str]) -> float:
        """Return the accuracy, 0..1: the share of clips whose label is predicted.

        Raises EdgeError as :meth:`predict_proba`, or if labels do not fit the clips.
        """
        samples, labels = self._samples(clips, labels)
        return float((self.predict(samples) == np.asarray(labels, np.str_)).mean())

    def features(self, clips: Recorded) -> Floats:
        """Return the front end's features, not normalised, float32 [clips, frames, numbers per frame].

        Raises EdgeError if the clips cannot be used.
        """
        return self._front_end(self.read(clips))

    def score_public_set(self, public_set: PublicSet) -> Floats:
        """Return probabilities of the public set's samples, float32 [samples, classes], as a device uploads with
        ``zero_shot``.

        Raises FeatureMismatchError if bundle and public set compute features differently; ModelError if no label is
        known.
        """
        self._require_same_features(public_set)
        return self._probabilities(public_set.features)

    def describe(
        self, clips: Recorded, labels: Sequence[str], public_set: PublicSet, wanted: Sequence[str]
    ) -> dict[str, dict[str, Floats]]:
        """Describe classes to an aggregator, which compares those of several devices.

        Args:
            clips: those that the classifier has learned: float32 [clips, samples], or paths.
            wanted: labels to describe; each has a clip.

        Returns by label ``prototype``, float32 [1, numbers], where the front end is pretrained; else ``impressions``,
        float32 [32, frames, numbers per frame], and ``profile``, float32 [public samples].

        Raises EdgeError if the clips cannot be used, or labels do not fit them; FeatureMismatchError if bundle and
        public set compute features differently; LabelError if a label is not known.
        """
        self._require_same_features(public_set)
        samples, labels = self._samples(clips, labels)
        slots = self._slots(labels)
        x = self._model.normalise(self._front_end(samples))
        public = self._model.normalise(public_set.features)
        arrays = describe(
            self._model,
            self._label_map.mask,
            Clips(x[None], slots),
            public,
            [self._label_map.slot_of(label) for label in wanted],
            complete("new sounds", NEW_SOUNDS, {}),
            np.random.default_rng([self.seed, self._trainings]),
        )
        names = {"prototypes": "prototype", "impressions": "impressions", "profiles": "profile"}
        return {label: {names[kind]: rows[i] for kind, rows in arrays.items()} for i, label in enumerate(wanted)}

    def save(self, path: str | Path) -> None:
        """Write labels and weights into a file, which appears whole or not at all.

        Raises FileError, an OSError, if the disk refuses.
        """
        document = {"format": _FORMAT, "network": self._bundle.manifest.network, "labels": self._label_map.to_json()}
        with _named(path):
            write_durably(Path(path), pack(self.weights, document), 0o644)

    def load(self, path: str | Path) -> Self:
        """Take labels and weights from a file that :meth:`save` of a classifier of the same bundle wrote.

        Raises ModelError if the file is of another network, or holds no classifier; FileError, an OSError, if it cannot
        be read (MissingFileError: it is not there); TensorError if it is damaged.
        """
        with _named(path):
            data = Path(path).read_bytes()
        weights, document = unpack(data)
        if document.get("format") != _FORMAT:
            raise ModelError(f"{path} holds no classifier; Classifier.save writes one")
        if document.get("network") != self._bundle.manifest.network:
            raise ModelError(f"{path} was saved with another bundle; open the classifier with that one")
        self._model.set_weights(weights)
        self._label_map = LabelMap.from_json(document["labels"])
        return self

    def save_bundle(self, path: str | Path) -> None:
        """Write the bundle with the present weights as its initial ones, for a device, or as a fleet's shared model.

        The labels are not part of a bundle. Raises FileError, an OSError, if the disk refuses.
        """
        data = write_bundle(self._bundle.manifest, self._bundle.graph, self.weights)
        with _named(path):
            write_durably(Path(path), data, 0o644)

    def _first_labels(self) -> LabelMap:
        label_map = LabelMap(self._bundle.manifest.capacity, reserved=len(self._bundle.manifest.background))
        return with_labels(label_map, self.classes)

    def _samples(self, clips: Recorded, labels: Sequence[str]) -> tuple[Floats, list[str]]:
        if labels is None:
            raise ClipsError("fit requires y to be passed, but the target y is None; give every clip a label")
        samples = self.read(clips)
        named = [labels] if isinstance(labels, str) else [str(label) for label in labels]
        if len(samples) != len(named) or not named:
            raise ClipsError(f"{len(samples)} clips and {len(named)} labels; give every clip one, and at least one")
        return samples, named

    def _slots(self, labels: Sequence[str]) -> Ints:
        return np.array([self._label_map.slot_of(label) for label in labels], np.int64)

    def _train(self, samples: Floats, labels: Sequence[str], epochs: int) -> Self:
        self._label_map = with_labels(self._label_map, sorted(set(labels)))
        self._trainings += 1
        rng = np.random.default_rng([self.seed, self._trainings])
        x = variants(samples, self._front_end, self._model, rng, copies=self.copies)
        clips = Clips(x, self._slots(labels))
        targets, loss = from_slots(clips.slots, self._label_map.capacity), 0.0
        for epoch in range(epochs):
            optimiser = Optimiser(settling(self.learning_rate, epoch, epochs))
            loss = train_epoch(self._model, clips.draw(rng), targets, self._label_map.mask, optimiser, rng)
        if not math.isfinite(loss):
            raise ModelError(f"the training diverged (loss {loss}); lower learning_rate, now {self.learning_rate:g}")
        return self

    def _probabilities(self, features: Floats) -> Floats:
        if not self._label_map.names:
            raise NotFittedError("the classifier knows no label yet; call fit, partial_fit or load first")
        scores = self._model.predict(self._model.normalise(features), self._label_map.mask)
        return np.ascontiguousarray(scores[:, : len(self.classes_)])

    def _require_same_features(self, public_set: PublicSet) -> None:
        self._settings.require_same(public_set.settings, "the bundle", "the public set")


def _checked(clips: Array) -> Floats:
    """Return clips as float32 [clips, samples]; raise a ClipsError if they are no such array of finite numbers."""
    if clips.ndim != 2:
        raise ClipsError(f"clips have shape {clips.shape}; give [clips, samples], or a list of paths")
    if clips.dtype.kind not in "biuf":
        raise ClipsError(f"clips have the dtype {clips.dtype}; give float32 in -1..1. Complex data not supported")
    samples = np.asarray(clips, np.float32)
    if not np.isfinite(samples).all():
        raise ClipsError("clips hold NaN or inf; give finite numbers in -1..1")
    return samples


@contextlib.contextmanager
def _named(path: str | Path) -> Iterator[None]:
    """Raise what the disk says as errors of this package."""
    try:
        yield
    except FileNotFoundError as error:
        raise MissingFileError(f"{path} is not there; name a file, in a folder that exists") from error
    except OSError as error:
        raise FileError(f"{path}: {error.strerror or error}") from error


def _same(value: object, default: object) -> bool:
    return type(value) is type(default) and value == default


_PARAMETERS = {name: kind for name, kind in inspect.signature(Classifier.__init__).parameters.items() if name != "self"}
