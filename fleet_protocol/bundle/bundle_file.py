"""A model bundle: graph, initial weights and manifest in one file.

docs/architecture.md, "One exported graph for every method", says why the graph has one form.

The file is a plain zip archive (stored, not compressed) of ``manifest.json``, ``model.tflite``, ``weights.safetensors``
and, where the front end has a pretrained network, ``front_end.tflite`` and ``embedding.safetensors``; a joint front end
has two of each. The manifest holds the digests of the others, so that damage is seen on opening. A ready bundle leaves
out what the front ends that ship hold already (:mod:`fleet_protocol.bundle.ready_bundles`); its digest says what it is.
"""

import dataclasses
import io
import json
import zipfile
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import dacite

from fleet_protocol.bounded_json import JsonBounds, parse_json
from fleet_protocol.bundle.feature_settings import FeatureSettings
from fleet_protocol.bundle.ready_bundles import find_bundle, find_member, open_archive, ready_names
from fleet_protocol.errors import BundleError, ProtocolError
from fleet_protocol.numbers.embedding_statistics import EmbeddingStatistics
from fleet_protocol.numbers.joint_statistics import unpack_statistics
from fleet_protocol.numbers.tensors import Arrays, Buffer, digest, pack, unpack

FORMAT = "auricle-bundle"
VERSION = 1
SIGNATURES = ("train", "predict", "input_gradient", "embed", "get_weights", "set_weights")
# A manifest has some hundred values, and those of a front end.
_BOUNDS = JsonBounds(size=2**20, values=2**16, depth=16)
_MEMBERS = ("manifest.json", "model.tflite", "weights.safetensors")
_NETWORKS = ("front_end.tflite", "front_end_2.tflite")
_STATISTICS = ("embedding.safetensors", "embedding_2.safetensors")
BACKGROUND = ("_other_", "_nothing_")
"""What is no class and no word of the pretraining: other sounds, and no sound in particular."""
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the oldest date that zip can hold: equal content gives equal bytes


@dataclass(frozen=True)
class Layer:
    """The weights of one layer: what layer-wise rules treat as one vector, kernel before bias."""

    name: str
    weights: tuple[str, ...]


@dataclass(frozen=True)
class Manifest:
    """What a bundle says of itself."""

    architecture: str  # Name in the zoo, e.g. ``cnn2``
    options: dict[str, str]  # Options of the zoo that the network was built with
    capacity: int  # Outputs of the head: slots for classes, and those of ``background``
    batch: int  # Rows of one training step; fewer rows are padded with zero targets
    input_shape: tuple[int, int]  # (frames, coefficients) of one clip's features
    embedding: int  # Width of the penultimate layer
    features: dict[str, Any]  # Settings of the features that the model was built for
    mean: tuple[float, ...]  # Per-coefficient mean that is subtracted from features before the graph sees them
    std: tuple[float, ...]  # Per-coefficient standard deviation that they are then divided by
    layers: tuple[Layer, ...]  # Weights grouped by layer, input side first; the last one is the head
    weight_shapes: dict[str, tuple[int, ...]]  # Shape of every weight array, by name
    parameters: int  # Number of weights
    seed: int  # Seed of the initial weights
    sha256: dict[str, str] = dataclasses.field(default_factory=dict)  # Digests of the other members, by member name
    format: str = FORMAT
    version: int = VERSION
    # Names of what the head's last outputs mean where they are no classes, but what is no class: the words of the front
    # end's pretraining and :data:`BACKGROUND`, or nothing
    background: tuple[str, ...] = ()
    # Members of their own: networks of the front end, TFLite files; and the words of each one's pretraining in its
    # embedding, packed, or none
    networks: tuple[bytes, ...] = dataclasses.field(default=(), repr=False)
    statistics: tuple[bytes, ...] = dataclasses.field(default=(), repr=False)

    @cached_property
    def feature_settings(self) -> FeatureSettings:
        """The settings of the features that the model was built for, with the front end's networks."""
        return FeatureSettings.from_json(self.features).with_networks(self.networks)

    @property
    def embedding_statistics(self) -> EmbeddingStatistics | None:
        """The words of the pretraining of the front end's networks; None where the bundle has none."""
        return unpack_statistics(self.statistics)

    @property
    def statistics_digest(self) -> str:
        """Digest of those words' statistics."""
        return digest("".join(map(digest, self.statistics)).encode())

    @property
    def slots(self) -> int:
        """Outputs of the head that can become classes."""
        return self.capacity - len(self.background)

    @property
    def network(self) -> str:
        """Digest of graph, shapes of the weights, and normalisation: models in which it is equal can share weights."""
        parts = (self.sha256.get("model.tflite"), sorted(self.weight_shapes.items()), self.mean, self.std)
        return digest(json.dumps(parts).encode())

    @property
    def head(self) -> Layer:
        """The last layer: a kernel [embedding, capacity] and a bias [capacity]."""
        return self.layers[-1]


@dataclass(frozen=True)
class Bundle:
    """An opened bundle: manifest, TFLite flatbuffer, and initial weights by name (float32)."""

    manifest: Manifest
    graph: bytes
    weights: Arrays


def write_bundle(manifest: Manifest, graph: bytes, weights: Arrays) -> bytes:
    """Serialise a bundle; equal content gives equal bytes. The manifest's digests are filled in here."""
    members = {"model.tflite": graph, "weights.safetensors": pack(weights, {})}
    members |= dict(zip(_NETWORKS, manifest.networks, strict=False))
    members |= dict(zip(_STATISTICS, manifest.statistics, strict=False))
    manifest = dataclasses.replace(manifest, sha256={name: digest(data) for name, data in members.items()})
    document = json.dumps(manifest_json(manifest), indent=1, sort_keys=True).encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, data in {"manifest.json": document, **members}.items():
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), data)
    return buffer.getvalue()


def without_shipped(data: bytes) -> bytes:
    """Return a bundle's bytes without the members that the front ends that ship hold."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as given, zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as kept:
        for name in given.namelist():
            member = given.read(name)
            if name not in _NETWORKS + _STATISTICS or find_member(digest(member)) != member:
                kept.writestr(zipfile.ZipInfo(name, _EPOCH), member)
    return buffer.getvalue()


def manifest_json(manifest: Manifest) -> dict[str, Any]:
    """Return a manifest JSON-ready, without what are members of their own."""
    document = dataclasses.asdict(manifest)
    del document["networks"], document["statistics"]
    if not manifest.background:  # what a bundle does not have, it does not name
        del document["background"]
    return document


def read_bundle(path: Path) -> Bundle:
    """Open a bundle file and check it.

    Raises BundleError: the file is missing, damaged, no bundle, or of a version that this program does not know.
    """
    return _open(path, str(path))


def unpack_bundle(data: Buffer, what: str) -> Bundle:
    """Open a bundle's bytes and check them; ``what`` names them in errors. See :func:`read_bundle`."""
    return _open(io.BytesIO(data), what)


def _open(source: Path | io.BytesIO, path: str) -> Bundle:
    try:
        with open_archive(source) if isinstance(source, Path) else zipfile.ZipFile(source) as archive:
            if any(member.compress_type != zipfile.ZIP_STORED for member in archive.infolist()):
                raise zipfile.BadZipFile("its members are compressed, and could expand to any size")
            members = {name: archive.read(name) for name in _MEMBERS}
            members |= {name: archive.read(name) for name in _NETWORKS + _STATISTICS if name in archive.namelist()}
    # A damaged archive raises any of these: places outside the file, members that end early, encryption.
    except (OSError, zipfile.BadZipFile, KeyError, RuntimeError, ValueError, EOFError) as error:
        raise BundleError(
            f"{path} is not a readable model bundle ({error}); build one with `auricle-export build`, "
            f"or name a ready one ({', '.join(ready_names())})"
        ) from error
    manifest = _parse(members["manifest.json"], path)
    for name in {*_NETWORKS, *_STATISTICS} & (manifest.sha256.keys() - members.keys()):
        members[name] = find_member(manifest.sha256[name])
        if not members[name]:
            raise BundleError(f"{path} is a ready bundle of another version, or damaged: it has no {name}; update")
    networks, statistics = (
        tuple(members[name] for name in names if name in members) for names in (_NETWORKS, _STATISTICS)
    )
    manifest = dataclasses.replace(manifest, networks=networks, statistics=statistics)
    for name, expected in manifest.sha256.items():
        if digest(members.get(name, b"")) != expected:
            raise BundleError(f"{path} is damaged: {name} does not match its digest; copy or build it again")
    if [digest(network) for network in networks] != [one.sha256 for one in manifest.feature_settings.networks]:
        raise BundleError(f"{path}: its {_NETWORKS[0]} is not the network of its features; build it again")
    if len(statistics) not in (0, len(networks)):
        raise BundleError(f"{path}: it has {len(statistics)} statistics for {len(networks)} networks; build it again")
    weights, _ = unpack(members["weights.safetensors"])
    shapes = {name: array.shape for name, array in weights.items()}
    if shapes != manifest.weight_shapes:
        raise BundleError(f"{path}: its weights {shapes} are not those of its manifest {manifest.weight_shapes}")
    return Bundle(manifest, members["model.tflite"], weights)


def _parse(data: bytes, path: str) -> Manifest:
    try:
        document = parse_json(data, _BOUNDS, "manifest.json")
        if document.get("format") != FORMAT or document.get("version") != VERSION:
            raise BundleError(
                f"{path} says format {document.get('format')!r} version {document.get('version')!r}; "
                f"this program reads {FORMAT!r} version {VERSION}"
            )
        manifest = dacite.from_dict(Manifest, document, dacite.Config(cast=[tuple]))
        shape = manifest.feature_settings.shape
        if not manifest.layers:
            raise ValueError("it names no layers")
        if {len(manifest.mean), len(manifest.std)} - {1, shape[1]}:
            raise ValueError(f"its mean and its standard deviation are not {shape[1]} numbers, as the features are")
    except (AttributeError, OverflowError, TypeError, ValueError, dacite.DaciteError, ProtocolError) as error:
        if isinstance(error, BundleError):
            raise
        raise BundleError(f"{path}: its manifest cannot be read: {error}") from error
    return manifest


@lru_cache(maxsize=2)
def shipped_manifest(features: str) -> Manifest | None:
    """Return the manifest of a ready bundle with features of this digest and with statistics; None: there is none."""
    found = (read_bundle(find_bundle(name)).manifest for name in ready_names())
    return next((one for one in found if one.statistics and one.feature_settings.digest == features), None)
