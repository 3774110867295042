"""What a device must not lose: who it is, what its model learned, and which rounds it did.

Model weights, label map and round numbers stand in ONE file, so that a power cut can never part them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import re
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from edge_client.errors import DamagedError, StateError
from edge_client.storage import owner_choices
from edge_client.storage.checked_files import (
    copy_of,
    file_digest,
    mend_twice,
    read_checked,
    read_twice,
    write_checked,
    write_twice,
)
from edge_client.storage.locks import is_locked, take_lock
from fleet_protocol.atomic_files import leftovers, make_folder, remove_durably
from fleet_protocol.bundle import Bundle, Manifest, read_bundle
from fleet_protocol.errors import LabelError, ProtocolError, TensorError
from fleet_protocol.feature_settings import FeatureSettings
from fleet_protocol.fleet_prototypes import FleetPrototypes
from fleet_protocol.labels import LabelMap, Slot
from fleet_protocol.public_set import PublicSet
from fleet_protocol.tensors import Arrays, digest, is_digest, pack, unpack

log = logging.getLogger(__name__)

T = TypeVar("T")

_IDENTITY, _MEMBERSHIP, _NOISE_KEY = "identity.json", "membership.json", "noise.key"
_MODEL, _EXPECTATIONS, _FORGOTTEN = "model.safetensors", "expectations.json", "forgotten.json"
# Written twice, because the device could not get them again.
KEPT_TWICE = (_IDENTITY, _MEMBERSHIP, _NOISE_KEY, _MODEL, owner_choices.FILE)
_KINDS = ("trained/", "listening/")
# The names of files that are being written (fleet_protocol.atomic_files).
_HALF_WRITTEN = re.compile(
    r"\.((identity\.json|membership\.json|noise\.key|model\.safetensors|choices\.json)(\.copy)?|status\.json"
    r"|embeddings\.safetensors|expectations\.json|forgotten\.json|page\.key|update-.*|learned-.*|[0-9a-f]{64})"
    r"\.[0-9a-f]{8}"
)


@dataclass(frozen=True)
class Identity:
    """Who the device is to its aggregator.

    Attributes:
        device_id: 32 hex digits, drawn once.
        secret: The device's bearer token.
        next_secret: The one that takes its place once the aggregator has it; "" but while it is changed.
    """

    device_id: str
    secret: str
    next_secret: str = ""


@dataclass(frozen=True)
class Membership:
    """The fleet that the device joined by an invitation.

    Attributes:
        url: Address of the aggregator.
        authority: Certificate of the authority that vouches for it, PEM; None where public ones do, or nobody.
    """

    url: str
    authority: str | None = None


@dataclass(frozen=True, kw_only=True)
class Progress:
    """What a model went through.

    Attributes:
        architecture: Architecture of the bundle from which the model was started.
        label_map: Label and class of every slot.
        contributed: Last round for which the model was trained; 0 before the first.
        learned: Last round whose result the model learned; 0 before the first.
        taught: Digest of the clip store from which the owner's sounds were last learned; "" before that.
        fine_tuned: Last round whose result was fine-tuned on the device's own clips; 0 before the first.
        features: Digest of the front end's settings; "" for those of the bundle.
        tails: By label, level and scale of ``edge_client.detection.calibration.Tail``, as last taught.
        background_trained: Whether the outputs for what is no label are trained in the weights that listen.
        provisional: Classes of the fleet that too few devices have clips of to rely on, as last learned.
        unheard: Slots that the weights that listen never learned; they are off.
        judged: What the device found when it last learned from a round: ``kept_own``, 1 or 0, and the metrics of
            ``edge_client.learning.rounds.guard``; empty before the first.
    """

    architecture: str
    label_map: LabelMap
    contributed: int = 0
    learned: int = 0
    taught: str = ""
    fine_tuned: int = 0
    features: str = ""
    tails: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    background_trained: bool = False
    provisional: tuple[str, ...] = ()
    unheard: tuple[int, ...] = ()
    judged: Mapping[str, float] = field(default_factory=dict)

    @property
    def provisional_labels(self) -> tuple[str, ...]:
        """The labels whose class is provisional."""
        return tuple(slot.name for slot in self.label_map.slots if slot.class_id in self.provisional)

    @property
    def listening_labels(self) -> LabelMap:
        """The labels for listening: without the outputs that the weights that listen never learned."""
        reserved = self.label_map.reserved if self.background_trained else 0
        return dataclasses.replace(self.label_map, reserved=reserved, off=self.unheard)


@dataclass(frozen=True)
class SavedModel:
    """A device's model.

    Attributes:
        bundle: Bundle with the weights that the device trained on its own clips. Rounds go on from these, so that
            devices stay different and their consensus stays better than each of them.
        listening: Weights that recognise sounds: the best that a round or the owner's teaching made.
        progress: Rounds and clips from which the model learned.
    """

    bundle: Bundle
    listening: Arrays
    progress: Progress

    @property
    def listening_bundle(self) -> Bundle:
        """The bundle with the weights that recognise sounds."""
        return dataclasses.replace(self.bundle, weights=self.listening)


class DeviceState:
    """A folder: ``identity.json``, ``model.safetensors``, ``outbox/`` (work to be sent) and ``blobs/`` (a cache).

    Whatever is read from it is compared with its digest first. :meth:`mend` restores what was damaged.
    """

    def __init__(self, folder: Path) -> None:
        """Use a folder, which is made readable by its owner alone where it does not exist."""
        make_folder(folder)
        self.folder = folder
        # One thread mends while another may change the device's secret.
        self._writing = threading.Lock()
        # The document of the model's file, and the file's identity when it was read.
        self._read: tuple[tuple[int, int, int], dict[str, Any]] | None = None

    def lock(self, purpose: str, patience_s: float = 0.0) -> int:
        """Make sure that no other process does the same; the lock lasts until the process ends.

        Args:
            purpose: what the process does.
            patience_s: how long to wait for another one, in seconds.

        Raises:
            StateError: another process does.
        """
        descriptor = take_lock(self.folder / f"{purpose}.lock", patience_s)
        if descriptor is None:
            raise StateError(
                f"another process is at work in {self.folder} ({purpose}.lock); stop it, or give this device a "
                "state folder of its own ([device] state)"
            )
        return descriptor

    def locked(self, purpose: str) -> bool:
        """Return whether a process holds the lock."""
        path = self.folder / f"{purpose}.lock"
        return path.exists() and is_locked(path)

    def identity(self) -> Identity:
        """Return the device's identity, drawn on first use.

        Raises:
            StateError: the file is damaged, and so is its copy.
        """
        path = self.folder / _IDENTITY
        if not path.exists():
            self.save_identity(Identity(secrets.token_hex(16), secrets.token_urlsafe(32)))
        try:
            return Identity(**json.loads(self._kept(path)))
        except (DamagedError, ValueError, TypeError) as error:
            raise StateError(f"{path} is damaged ({error}); remove it to enrol as a new device") from error

    def save_identity(self, identity: Identity) -> None:
        """Replace the device's identity."""
        self._keep(self.folder / _IDENTITY, json.dumps(dataclasses.asdict(identity)).encode())

    def membership(self) -> Membership | None:
        """Return the fleet that the device joined by an invitation; None where it did not.

        Raises:
            StateError: the file is damaged, and so is its copy.
        """
        path = self.folder / _MEMBERSHIP
        try:
            return Membership(**json.loads(self._kept(path)))
        except FileNotFoundError:
            return None
        except (DamagedError, ValueError, TypeError) as error:
            raise StateError(f"{path} is damaged ({error}); remove it and join the fleet again") from error

    def save_membership(self, membership: Membership) -> None:
        """Note the fleet that the device joined."""
        self._keep(self.folder / _MEMBERSHIP, json.dumps(dataclasses.asdict(membership)).encode())

    def leave_fleet(self, bundle_path: Path) -> None:
        """Forget who the device was in its fleet, and which labels were which of the fleet's classes.

        The identity goes last: a leave that was interrupted can be done again. Only for the process that holds the
        locks.

        Raises:
            BundleError: the bundle cannot be read.
            StateError: the saved model is damaged.
        """
        if (self.folder / _MODEL).exists():
            saved = self.load_model(bundle_path)
            slots = tuple(Slot(slot.name) for slot in saved.progress.label_map.slots)
            progress = dataclasses.replace(
                saved.progress,
                label_map=dataclasses.replace(saved.progress.label_map, slots=slots),
                contributed=0,
                learned=0,
                fine_tuned=0,
                provisional=(),
                judged={},
            )
            self.save_model(saved.bundle.weights, saved.listening, progress)
        for path in (*self._files("outbox"), *self._files("blobs")):
            remove_durably(path)
        for name in (_MEMBERSHIP, _IDENTITY):
            remove_durably(self.folder / name)
            remove_durably(copy_of(self.folder / name))

    def noise_key(self) -> bytes:
        """Return the 32 bytes from which the noise of prototypes is drawn; drawn on first use, and never sent.

        Raises:
            StateError: the file is damaged, and so is its copy.
        """
        path = self.folder / _NOISE_KEY
        if not path.exists():
            self._keep(path, secrets.token_bytes(32))
        key = self._kept(path)
        if len(key) != 32:
            raise StateError(f"{path} is damaged ({len(key)} bytes, not 32); remove it to draw another key")
        return key

    def _keep(self, path: Path, data: bytes) -> None:
        """Replace a file that is kept twice."""
        with self._writing:
            write_twice(path, data)

    def _kept(self, path: Path) -> bytes:
        """Return the content of a file that is kept twice.

        Raises:
            FileNotFoundError: there is no such file.
            DamagedError: both are damaged.
        """
        data, from_copy = read_twice(path)
        if from_copy:
            log.error("%s is damaged; this device goes on with its copy", path)
        return data

    def mend(self) -> list[str]:
        """Compare every file with its digest and restore what is damaged, or remove it where it can be made again.

        Only for the process that holds the locks, while nothing trains.

        Returns:
            What was damaged, a sentence each.

        Raises:
            OSError: the disk refuses.
            DamagedError: a file that the device needs is damaged, and so is its copy.
        """
        with self._writing:
            found = [mend_twice(self.folder / name) for name in KEPT_TWICE]
        once = (self.embeddings_path, self.folder / _EXPECTATIONS, self.forgotten_path)
        checked = [*once, *self._files("outbox")]
        damaged = [path for path in checked if path.exists() and _is_damaged(path)]
        damaged += [path for path in self._files("blobs") if file_digest(path) != path.name]
        for path in damaged:
            remove_durably(path)
            found.append(f"{path.relative_to(self.folder)} was damaged, and was removed; it will be made again")
        return [sentence for sentence in found if sentence]

    def _files(self, folder: str) -> list[Path]:
        """Return the finished files of a folder below this one."""
        below = self.folder / folder
        return sorted(path for path in below.iterdir() if path.name[0] != ".") if below.is_dir() else []

    def load_model(self, bundle_path: Path) -> SavedModel:
        """Return what the device last saved; the bundle's own weights where it never did.

        Raises:
            BundleError: the bundle cannot be read.
            StateError: the saved model is damaged, or belongs to another bundle.
        """
        bundle = read_bundle(bundle_path)
        path = self.folder / _MODEL
        manifest = bundle.manifest
        if not path.exists():
            return SavedModel(bundle, bundle.weights, _start(manifest))
        try:
            arrays, document = unpack(self._kept(path))
            progress = Progress(
                architecture=str(document["architecture"]),
                label_map=LabelMap.from_json(document["label_map"]),
                contributed=int(document["contributed"]),
                learned=int(document["learned"]),
                taught=str(document.get("taught", "")),
                fine_tuned=int(document.get("fine_tuned", 0)),
                features=str(document.get("features", "")) or manifest.feature_settings.digest,
                tails={str(label): (float(a), float(b)) for label, (a, b) in dict(document.get("tails", {})).items()},
                background_trained=bool(document.get("background_trained", False)),
                provisional=tuple(map(str, document.get("provisional", ()))),
                unheard=tuple(int(slot) for slot in document.get("unheard", ())),
                judged={str(name): float(value) for name, value in dict(document.get("judged", {})).items()},
            )
        except (DamagedError, TensorError, LabelError, KeyError, ValueError, TypeError) as error:
            raise StateError(f"{path} is damaged ({error}); remove it to start from the bundle again") from error
        shapes = {kind + name: shape for kind in _KINDS for name, shape in manifest.weight_shapes.items()}
        fits = {name: array.shape for name, array in arrays.items()} == shapes
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

    def follow_front_end(self, bundle_path: Path) -> bool:
        """Begin anew from a bundle whose front end is another than that of the saved model, as after an upgrade.

        What the model learned is worth nothing on other features. The owner's clips are learned again, because none
        count as taught; the numbers of the rounds stay.

        Returns:
            Whether it was so.

        Raises:
            BundleError: the bundle cannot be read.
        """
        document = self._document()
        if not document:
            return False  # there is no model, or load_model says what is wrong
        bundle = read_bundle(bundle_path)
        start = _start(bundle.manifest)
        same = document.get("features", "") in ("", start.features)
        if same or document.get("architecture") != start.architecture:
            return False
        contributed, learned = (int(document.get(name, 0)) for name in ("contributed", "learned"))
        progress = dataclasses.replace(start, contributed=contributed, learned=learned)
        self.save_model(bundle.weights, bundle.weights, progress)
        return True

    def taught(self) -> str:
        """Return the digest of the clips that the saved model learned last, without opening the bundle.

        It is "" where there are none, and where the model cannot be read.
        """
        return str(self._document().get("taught", ""))

    def lacks_background(self) -> bool:
        """Return whether the saved model has labels and outputs for what is no label, which are not trained."""
        document = self._document()
        label_map = document.get("label_map") or {}
        has_both = bool(label_map.get("reserved") and label_map.get("slots"))
        return has_both and not document.get("background_trained")

    def _document(self) -> dict[str, Any]:
        """Return what the saved model's file says beside the weights; nothing where it cannot be read.

        It is asked for every few seconds, so the file is read again only once it is another one.
        """
        key = self.model_key()
        if key is None:
            return {}
        try:
            if self._read is None or self._read[0] != key:
                self._read = key, unpack(self._kept(self.folder / _MODEL))[1]
        except (OSError, DamagedError, TensorError):
            return {}
        return self._read[1]

    def model_key(self) -> tuple[int, int, int] | None:
        """Return what changes whenever the model is saved, by whatever process; None where there is none."""
        try:
            found = (self.folder / _MODEL).stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size

    def save_model(self, trained: Arrays, listening: Arrays, progress: Progress) -> None:
        """Replace both sets of weights and the progress together."""
        document = dataclasses.asdict(progress) | {"label_map": progress.label_map.to_json()}
        sets = zip(_KINDS, (trained, listening), strict=True)
        arrays = {kind + name: array for kind, weights in sets for name, array in weights.items()}
        self._keep(self.folder / _MODEL, pack(arrays, document))

    @property
    def unknown_folder(self) -> Path:
        """Where unknown sounds wait for a name."""
        return self.folder / "unknown"

    @property
    def detected_folder(self) -> Path:
        """Where detected sounds wait to be confirmed or corrected, if their owner wants them kept."""
        return self.folder / "detected"

    def save_expectations(self, expected: list[dict[str, Any]]) -> None:
        """Keep what is to be expected of the labels that were taught; see :meth:`expectations`."""
        write_checked(self.folder / _EXPECTATIONS, json.dumps(expected).encode())

    def expectations(self) -> list[dict[str, Any]]:
        """Return an object for each label: ``edge_client.learning.teaching.expectation.Expectation``; or nothing.

        They are nothing, too, where the file is damaged: the next teaching makes them again.
        """
        try:
            return list(json.loads(read_checked(self.folder / _EXPECTATIONS)))
        except (FileNotFoundError, DamagedError):
            return []

    @property
    def trash_folder(self) -> Path:
        """Where deleted clips are kept for a while."""
        return self.folder / "trash"

    @property
    def forgotten_path(self) -> Path:
        """Where labels are noted that are to leave the model (``edge_client.learning.forgotten_labels``)."""
        return self.folder / _FORGOTTEN

    @property
    def choices_path(self) -> Path:
        """Where it stands what the owner decided beside the clips (``edge_client.storage.owner_choices``)."""
        return self.folder / owner_choices.FILE

    @property
    def embeddings_path(self) -> Path:
        """Where embeddings of the owner's clips are kept."""
        return self.folder / "embeddings.safetensors"

    def update_path(self, round_id: int) -> Path:
        """Return where the upload for a round waits."""
        return self.folder / "outbox" / f"update-{round_id}.safetensors"

    def learned_path(self, round_id: int) -> Path:
        """Return where the news that a round's result was learned waits."""
        return self.folder / "outbox" / f"learned-{round_id}.json"

    def to_send(self, path: Path, data: bytes) -> None:
        """Put something into the outbox, at :meth:`update_path` or :meth:`learned_path`."""
        write_checked(path, data)

    def waiting(self, path: Path) -> bytes | None:
        """Return what waits to be sent; None where nothing does, or where it is damaged: then it is removed."""
        try:
            return read_checked(path)
        except FileNotFoundError:
            return None
        except DamagedError as error:
            log.error("%s; it is made again", error)
            remove_durably(path)
            return None

    def unsent(self) -> bool:
        """Return whether something waits to be sent."""
        return bool(self._files("outbox"))

    def remove_leftovers(self) -> None:
        """Remove the half-written files of processes that were killed."""
        for folder in (self.folder, self.folder / "outbox", self.folder / "blobs"):
            for path in leftovers(folder) if folder.is_dir() else ():
                if _HALF_WRITTEN.fullmatch(path.name):
                    path.unlink()

    def discard(self, path: Path) -> None:
        """Remove what was sent, or what nobody wants any more."""
        remove_durably(path)

    def blob_path(self, sha256: str) -> Path:
        """Return where a blob of the aggregator is kept.

        Raises:
            StateError: this is no digest, so it must not become a path.
        """
        if not is_digest(sha256):
            raise StateError(f"a blob is named by 64 hex digits, not {sha256[:100]!r}")
        return self.folder / "blobs" / sha256

    def has_blob(self, sha256: str) -> bool:
        """Return whether a blob is in the cache, undamaged; one that is damaged is removed.

        Raises:
            StateError: this is no digest.
        """
        path = self.blob_path(sha256)
        if not path.exists():
            return False
        if file_digest(path) == sha256:
            return True
        log.error("%s is damaged; it is fetched again", path)
        remove_durably(path)
        return False

    def blob(self, sha256: str) -> bytes:
        """Return a blob of the cache.

        Raises:
            StateError: it is not there or damaged, or this is no digest.
        """
        path = self.blob_path(sha256)
        try:
            data = path.read_bytes()
        except FileNotFoundError as error:
            raise StateError(f"{path} is not in the cache; the daemon fetches it again") from error
        if digest(data) != sha256:
            raise DamagedError(f"{path} is damaged: its content does not match its name; the daemon fetches it again")
        return data

    def public_set(self, settings: FeatureSettings) -> PublicSet | None:
        """Return the newest public set in the cache whose features were computed in this way; None where none is."""
        found = self._cached(PublicSet.unpack)
        return next((public_set for public_set in found if public_set.settings.digest == settings.digest), None)

    def prototypes(self, settings: FeatureSettings) -> FleetPrototypes | None:
        """Return the newest prototypes in the cache, of features computed in this way; None where there are none."""
        found = self._cached(FleetPrototypes.unpack)
        return next((prototypes for prototypes in found if prototypes.features == settings.digest), None)

    def _cached(self, unpack_blob: Callable[[bytes], T]) -> Iterator[T]:
        """Read the blobs of one kind, the newest first; those of other kinds lie there too."""
        cached = [path for path in self._files("blobs") if is_digest(path.name)]
        for path in sorted(cached, key=lambda path: path.stat().st_mtime, reverse=True):
            with contextlib.suppress(ProtocolError, DamagedError):
                yield unpack_blob(self.blob(path.name))

    def keep_blobs(self, wanted: set[str], spare_bytes: int = 0) -> None:
        """Remove cached blobs that are not wanted, but the newest of them as long as they take no more than this."""
        unwanted = [path for path in self._files("blobs") if path.name not in wanted]
        for path in sorted(unwanted, key=lambda path: path.stat().st_mtime, reverse=True):
            spare_bytes -= path.stat().st_size
            if spare_bytes < 0:
                path.unlink()


def _is_damaged(path: Path) -> bool:
    try:
        read_checked(path)
    except DamagedError:
        return True
    return False


def _start(manifest: Manifest) -> Progress:
    """Return the progress of a model that has not learned anything."""
    labels = LabelMap(manifest.capacity, reserved=len(manifest.background))
    return Progress(architecture=manifest.architecture, label_map=labels, features=manifest.feature_settings.digest)
