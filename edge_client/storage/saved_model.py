"""What a device's model learned: weights, label map and round numbers in ONE file, which no power cut can part."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from edge_client.errors import DamagedError, StateError
from edge_client.model.prototypes import Prototype
from edge_client.storage.checked_files import of_another_release, read_twice, write_twice
from fleet_protocol.bundle.bundle_file import Bundle, Manifest, read_bundle
from fleet_protocol.bundle.labels import LabelMap, Slot
from fleet_protocol.errors import LabelError, TensorError
from fleet_protocol.numbers.tensors import Arrays, pack, require, unpack

# Of the file. Whatever changes it for good has a new one; earlier ones are read for ever, later ones are refused.
REVISION = 1
_KINDS = ("trained/", "listening/")
TEACHING = 5
"""Changes with what a teaching makes of the same clips: a device whose model is older learns its clips again."""
_PROTOTYPE, _BEFORE = "prototype/", "before/"
_REJECTED, _REJECTED_BEFORE = "rejected/", "rejected-before/"
_NEUTRAL, _AFTER = "neutral/", "after/"
_OF_PROTOTYPES = (_PROTOTYPE, _BEFORE, _REJECTED, _REJECTED_BEFORE, _NEUTRAL, _AFTER)
_NOT_A_DOCUMENT = (LabelError, KeyError, ValueError, TypeError)


@dataclass(frozen=True, kw_only=True)
class Progress:
    """What a model went through.

    Attributes:
        architecture: Architecture of the bundle from which the model was started.
        label_map: Label and class of every slot.
        contributed: Last round for which the model was trained; 0 before the first.
        learned: Last round whose result the model learned; 0 before the first.
        taught: Digest of the clip store from which the owner's sounds were last learned; "" before that.
        teaching: ``TEACHING`` of the release that taught them; 0 of one that knew none.
        fine_tuned: Last round whose result was fine-tuned on the device's own clips; 0 before the first.
        features: Digest of the front end's settings; "" for those of the bundle.
        tails: Level and scale of ``edge_client.detection.thresholds.Tail`` by label, as last taught.
        prototypes: Of each label that was last taught, by label; the tails are those of scores with them.
        known: Built-in sound, by label, that the owner chose or the takes are, as last
            taught.
        background_trained: Whether the outputs for what is no label are trained in the weights that listen.
        provisional: Classes of the fleet that too few devices have clips of to rely on, as last learned.
        unheard: Slots that the weights that listen never learned; they are off.
        judged: Judgement of the last round's result: ``kept_own``, 1 or 0, and the metrics of
            ``edge_client.learning.rounds.guard``; empty before the first.
    """

    architecture: str
    label_map: LabelMap
    contributed: int = 0
    learned: int = 0
    taught: str = ""
    teaching: int = TEACHING
    fine_tuned: int = 0
    features: str = ""
    tails: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    prototypes: Mapping[str, Prototype] = field(default_factory=dict, compare=False)
    known: Mapping[str, str] = field(default_factory=dict)
    background_trained: bool = False
    provisional: tuple[str, ...] = ()
    unheard: tuple[int, ...] = ()
    judged: Mapping[str, float] = field(default_factory=dict)

    @property
    def provisional_labels(self) -> tuple[str, ...]:
        """The labels whose class is provisional."""
        return tuple(slot.name for slot in self.label_map.slots if slot.class_id in self.provisional)

    def renamed(self, label_map: LabelMap) -> Progress:
        """Return it with other names in the same slots; what is kept by label follows, or goes where its label went."""
        names = zip(self.label_map.names, label_map.names, strict=True)
        kept = {former: name for former, name in names if name in label_map.labels}
        tails = {kept[label]: tail for label, tail in self.tails.items() if label in kept}
        prototypes = {kept[label]: direction for label, direction in self.prototypes.items() if label in kept}
        known = {kept[label]: sound for label, sound in self.known.items() if label in kept}
        return dataclasses.replace(self, label_map=label_map, tails=tails, prototypes=prototypes, known=known)

    @property
    def listening_labels(self) -> LabelMap:
        """The labels for listening: without the outputs that the weights that listen never learned."""
        reserved = self.label_map.reserved if self.background_trained else 0
        return dataclasses.replace(self.label_map, reserved=reserved, off=self.unheard)

    @property
    def for_listening(self) -> Progress:
        """With tails, prototypes and known sounds only once the device went over its clips since a round's result."""
        return self if self.background_trained else dataclasses.replace(self, tails={}, prototypes={}, known={})

    @property
    def silent(self) -> tuple[int, ...]:
        """Slots of labels that are not listened for: the weights never learned them, nor are they known."""
        names, given_up, known = self.label_map.names, self.label_map.given_up, self.for_listening.known
        return tuple(slot for slot in self.unheard if slot not in given_up and names[slot] not in known)


@dataclass(frozen=True)
class SavedModel:
    """A device's model.

    Rounds go on from ``bundle``, whose weights were trained on the device's own clips: so devices stay different, and
    their consensus stays better than each of them. ``listening`` are the weights that recognise sounds, the best that a
    round or the owner's teaching made; ``progress`` has the rounds and clips from which the model learned.
    """

    bundle: Bundle
    listening: Arrays
    progress: Progress

    @property
    def listening_bundle(self) -> Bundle:
        """The bundle with the weights that recognise sounds."""
        return dataclasses.replace(self.bundle, weights=self.listening)


class ModelStore:
    """The file ``model.safetensors`` of a state folder."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "model.safetensors"
        # The document of the file, and the file's identity when it was read.
        self._read: tuple[tuple[int, int, int], dict[str, Any]] | None = None

    def load(self, bundle_path: Path) -> SavedModel:
        """Return what was saved last, else the bundle's weights. Raises StateError if it is damaged, or of another."""
        bundle = read_bundle(bundle_path)
        path, manifest = self.path, bundle.manifest
        if not path.exists():
            return SavedModel(bundle, bundle.weights, _start(manifest))
        progress, arrays = self._load(manifest.feature_settings.digest, manifest.feature_settings.shape[-1])
        shapes = {kind + name: shape for kind in _KINDS for name, shape in manifest.weight_shapes.items()}
        weights = {name: array.shape for name, array in arrays.items() if not name.startswith(_OF_PROTOTYPES)}
        fits = weights == shapes
        labels = progress.label_map
        if not fits or (labels.capacity, labels.reserved) != (manifest.capacity, len(manifest.background)):
            raise StateError(
                f"{path} holds a {progress.architecture} that does not fit {bundle_path} "
                f"({manifest.architecture}, capacity {manifest.capacity}); put the old bundle back, or remove the file "
                "to start from the new one"
            )
        if progress.features != manifest.feature_settings.digest:
            raise StateError(
                f"{path} was trained on another front end than that of {bundle_path}; start the daemon, which begins "
                "anew with the bundle and learns the owner's clips again, or put the old bundle back"
            )
        trained, listening = ({name: arrays[kind + name] for name in manifest.weight_shapes} for kind in _KINDS)
        return SavedModel(dataclasses.replace(bundle, weights=trained), listening, progress)

    def _load(self, features: str = "", numbers: int | None = None) -> tuple[Progress, Arrays]:
        """Read the file; ``numbers``: of a prototype's row. Raises StateError: another release's; DamagedError."""
        way_out = "remove it to start from the bundle again"
        try:
            content = read_twice(self.path)
        except DamagedError as error:
            raise DamagedError(f"{self.path} is damaged ({error}); {way_out}") from error
        try:  # it has its digest, so it is as it was written
            arrays, document = unpack(content)
            if (revision := int(document.get("revision", 1))) > REVISION:
                raise ValueError(f"revision {revision}, here {REVISION}")
            return _progress(document, _prototypes(arrays, numbers), features), arrays
        except KeyError as error:
            raise of_another_release(self.path, f"it lacks {error}", way_out) from error
        except (TensorError, *_NOT_A_DOCUMENT) as error:
            raise of_another_release(self.path, error, way_out) from error

    def require_own_release(self) -> None:
        """Refuse what another release left. Raises StateError, DamagedError."""
        if self.path.exists():
            self._load()

    def begin_anew(self, bundle_path: Path, labels: Collection[str] = ()) -> bool:
        """Begin anew from a bundle with another front end than the saved model's, as after an upgrade; say whether so.

        What the model learned is worth nothing on other features. The owner's clips are learned again, because none
        count as taught; the numbers of the rounds stay, and so do slots and classes of ``labels``, which have clips.
        """
        document = self._document()
        if not document:
            return False  # there is no model, or load says what is wrong
        bundle = read_bundle(bundle_path)
        start = _start(bundle.manifest)
        if document.get("features", "") in ("", start.features):
            return False
        label_map = _with_clips(document, start.label_map, labels)
        rounds: dict[str, Any] = {name: int(document.get(name, 0)) for name in ("contributed", "learned")}
        unheard = tuple(range(len(label_map.slots)))
        progress = dataclasses.replace(start, label_map=label_map, unheard=unheard, **rounds)
        self.save(bundle.weights, bundle.weights, progress)
        return True

    def taught(self) -> str:
        """Return the digest of the clips that were learned last.

        "" where there are none, no model can be read, or this release would make something else of them.
        """
        document = self._document()
        return str(document["taught"]) if document.get("teaching") == TEACHING else ""

    def lacks_background(self) -> bool:
        """Return whether the saved model has labels and outputs for what is no label, which are not trained."""
        document = self._document()
        label_map = document.get("label_map") or {}
        has_both = bool(label_map.get("reserved") and label_map.get("slots"))
        return has_both and not document.get("background_trained")

    def heard_labels(self) -> tuple[str, ...]:
        """Return the labels that are listened for, without loading weights; none where no model can be read."""
        document = self._document()
        try:
            progress = _progress(document, {}) if document else None
        except _NOT_A_DOCUMENT:
            progress = None
        if progress is None:
            return ()
        left_out = {*progress.silent, *progress.label_map.given_up}
        return tuple(name for slot, name in enumerate(progress.label_map.names) if slot not in left_out)

    def _document(self) -> dict[str, Any]:
        """Return what the saved model's file says beside the weights; nothing where it cannot be read."""
        # It is asked for every few seconds, so the file is read again only once it is another one.
        key = self.key()
        if key is None:
            return {}
        try:
            if self._read is None or self._read[0] != key:
                self._read = key, unpack(read_twice(self.path))[1]
        except (OSError, DamagedError, TensorError):
            return {}
        return self._read[1]

    def key(self) -> tuple[int, int, int] | None:
        """Return what changes whenever the model is saved, by whatever process; None where there is none."""
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size

    def save(self, trained: Arrays, listening: Arrays, progress: Progress) -> None:
        """Replace both sets of weights and the progress together."""
        document = dataclasses.asdict(progress) | {"label_map": progress.label_map.to_json(), "revision": REVISION}
        del document["prototypes"]
        sets = zip(_KINDS, (trained, listening), strict=True)
        arrays = {kind + name: array for kind, weights in sets for name, array in weights.items()}
        for label, prototype in progress.prototypes.items():
            arrays |= {_PROTOTYPE + label: prototype.rows, _BEFORE + label: prototype.before}
            arrays[_NEUTRAL + label] = np.array([prototype.neutral], np.float32)
            arrays |= {} if prototype.after is None else {_AFTER + label: prototype.after}
            if (other := prototype.rejected) is not None:
                arrays |= {_REJECTED + label: other.rows, _REJECTED_BEFORE + label: other.before}
        write_twice(self.path, pack(arrays, document))

    def forget_fleet(self, bundle_path: Path) -> None:
        """Forget which labels were which of the fleet's classes, and its rounds."""
        if not self.path.exists():
            return
        saved = self.load(bundle_path)
        labels = saved.progress.label_map
        labels = dataclasses.replace(labels, slots=tuple(Slot(slot.name) for slot in labels.slots))
        progress = dataclasses.replace(
            saved.progress, label_map=labels, contributed=0, learned=0, fine_tuned=0, provisional=(), judged={}
        )
        self.save(saved.bundle.weights, saved.listening, progress)


def _progress(document: Mapping[str, Any], prototypes: Mapping[str, Prototype], features: str = "") -> Progress:
    """Return what a saved model's document says; ``features``: where it names none. Raises what it is damaged by."""
    return Progress(
        architecture=str(document["architecture"]),
        label_map=LabelMap.from_json(document["label_map"]),
        contributed=int(document["contributed"]),
        learned=int(document["learned"]),
        taught=str(document["taught"]),
        teaching=int(document.get("teaching", 0)),
        fine_tuned=int(document["fine_tuned"]),
        features=str(document["features"]) or features,
        tails={str(label): (float(a), float(b)) for label, (a, b) in dict(document["tails"]).items()},
        prototypes=prototypes,
        known={str(label): str(sound) for label, sound in dict(document["known"]).items()},
        background_trained=bool(document["background_trained"]),
        provisional=tuple(map(str, document["provisional"])),
        unheard=tuple(map(int, document["unheard"])),
        judged={str(name): float(value) for name, value in dict(document["judged"]).items()},
    )


def _with_clips(document: Mapping[str, Any], empty: LabelMap, labels: Collection[str]) -> LabelMap:
    """Return another head's label map with the slots that a saved one gives labels with clips, as far as they fit."""
    try:
        before = LabelMap.from_json(document["label_map"])
    except (LabelError, KeyError, TypeError, AttributeError):
        return empty
    for number, slot in enumerate(before.slots):
        if slot.name not in labels:
            before = before.give_up(number)
    used = [number for number in range(len(before.slots)) if number not in before.given_up]
    slots = before.slots[: used[-1] + 1] if used else ()
    return dataclasses.replace(empty, slots=slots) if len(slots) <= empty.free else empty


def _prototypes(arrays: Arrays, numbers: int | None) -> dict[str, Prototype]:
    """Return the prototypes by label. Raises TensorError if they are no rows of so many numbers."""
    found = {}
    for label in [name.removeprefix(_PROTOTYPE) for name in arrays if name.startswith(_PROTOTYPE)]:
        rows, rejected = require(arrays, _PROTOTYPE + label, (None, None, numbers)), None
        if _REJECTED + label in arrays:
            shape = None, rows.shape[-1]
            others = require(arrays, _REJECTED + label, (None, *shape))
            rejected = Prototype(others, require(arrays, _REJECTED_BEFORE + label, shape))
        name, none = _BEFORE + label, np.zeros((0, rows.shape[-1]), np.float32)
        states = arrays.get(name, none)
        if states.ndim == 1:  # of a release that knew one, zeros where there was none
            states = states[None] if states.any() else none
        found[label] = Prototype(rows, require({name: states}, name, (None, rows.shape[-1])), rejected)
        if _NEUTRAL + label in arrays:  # an earlier release had none
            (neutral,) = require(arrays, _NEUTRAL + label, (1,)).tolist()
            found[label] = found[label]._replace(neutral=neutral)
        if _AFTER + label in arrays:
            found[label] = found[label]._replace(after=require(arrays, _AFTER + label, (None, rows.shape[-1])))
    return found


def _start(manifest: Manifest) -> Progress:
    labels = LabelMap(manifest.capacity, reserved=len(manifest.background))
    return Progress(architecture=manifest.architecture, label_map=labels, features=manifest.feature_settings.digest)
