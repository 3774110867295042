"""The bundles that come with Auricle: how each is made, and the list of them.

`make bundles` (``python -m model_export.ready_bundles``) makes them from the front ends that ship with Auricle. Equal
sources and an equal TensorFlow give equal bytes. ``catalogue.json`` beside them holds their digests and figures, so
that listing them needs neither TensorFlow nor a runtime.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fleet_protocol.bundle.bundle_file import Bundle, unpack_bundle, without_shipped
from fleet_protocol.bundle.feature_settings import PRESETS, JointSettings
from fleet_protocol.bundle.ready_bundles import FIRST_CHOICE, FOLDER, SUFFIX
from fleet_protocol.ground.atomic_files import write_durably
from fleet_protocol.numbers.tensors import digest
from model_export.errors import ExportError
from model_export.front_ends import JOINED, SHIPPED, find_front_end
from model_export.pretraining import front_end_file
from model_export.specification import Specification

_CATALOGUE = "catalogue.json"


@dataclass(frozen=True)
class Recipe:
    """How a ready bundle is made; capacity, batch and seed are the defaults of a :class:`Specification`."""

    purpose: str  # what it is for, in a few words
    architecture: str  # a name in the zoo
    features: str  # the name of a front end: a preset, or a network that ships with Auricle
    precision: str = "float32"  # of the front end's network, ``float32`` or ``int8``
    thin: bool = False  # whether the file leaves out what the front end's file holds


RECIPES = {
    "base": Recipe("as words, for a ninth of its multiply-adds; misses more words", "linear", "base"),
    "words": Recipe("teach a device words by a few takes; the first choice", "linear", "words", thin=True),
    "base_hidden": Recipe("the same with a hidden layer of 64 units", "hidden", "base", thin=True),
    "base_int8": Recipe("as base, with the front end in int8: less than half the file", "linear", "base", "int8"),
    "sounds": Recipe("teach a device everyday sounds by a few takes; hears one second", "linear", "sounds", thin=True),
    "sounds_2s": Recipe("the same, hears two seconds: more accurate", "linear", "sounds_2s", thin=True),
    "words_and_sounds": Recipe("words as words, everyday sounds as sounds", "linear", "words_and_sounds", thin=True),
    "cnn1": Recipe("Gudur & Perepu 2021, trains from scratch", "cnn1", "gudur"),
    "cnn2": Recipe("the same, the most accurate of the six", "cnn2", "gudur"),
    "cnn3": Recipe("the same", "cnn3", "gudur"),
    "cnn4": Recipe("the same", "cnn4", "gudur"),
    "dscnn3": Recipe("the same, depth-separable", "dscnn3", "gudur"),
    "ann3": Recipe("the same, dense layers alone, the cheapest", "ann3", "gudur"),
}


@dataclass(frozen=True)
class Entry:
    """A line of the catalogue."""

    sha256: str  # digest of the file
    bytes: int  # size of the file
    weights: int  # number of weights that train
    # of one window of sound, the front end's network and the bundle's; mel bands and cepstra come on top
    multiply_adds: int
    # of a training step, for each of its rows; the front end's network, which does not train, is not among them
    training_multiply_adds: int


def build(recipe: Recipe) -> bytes:
    """Build a ready bundle. Loads TensorFlow."""
    from model_export.bundle import build_bundle

    front_end = find_front_end(recipe.features, recipe.precision)
    features = front_end.settings, front_end.normalisation
    data = build_bundle(Specification(recipe.architecture, *features, statistics=front_end.statistics))
    return without_shipped(data) if recipe.thin else data


def describe(data: bytes, name: str) -> Entry:
    """Return a bundle's line of the catalogue."""
    from model_export import cost

    bundle = unpack_bundle(data, name)
    return Entry(
        sha256=digest(data),
        bytes=len(data),
        weights=bundle.manifest.parameters,
        multiply_adds=cost.multiply_adds_of(bundle.graph, "predict") + _multiply_adds(RECIPES[name], bundle),
        training_multiply_adds=cost.training_multiply_adds(bundle.graph, bundle.manifest.batch),
    )


def _multiply_adds(recipe: Recipe, bundle: Bundle) -> int:
    """Return those of a front end's networks: of one for clips of any length only its file can say."""
    from model_export import cost

    settings = bundle.manifest.feature_settings
    names = JOINED if isinstance(settings, JointSettings) else (recipe.features,)
    if recipe.precision == "float32" and set(names) <= SHIPPED.keys():
        files = [front_end_file.read(SHIPPED[name]) for name in names]
        return sum(int(file.description["network"]["multiply_adds"]) for file in files)
    return sum(cost.multiply_adds_of(network, "embed") for network in bundle.manifest.networks)


def make(folder: Path) -> None:
    """Make every ready bundle and the catalogue anew in a folder; other bundles there are removed."""
    entries = {}
    for name, recipe in RECIPES.items():
        data = build(recipe)
        write_durably(folder / f"{name}{SUFFIX}", data, 0o644)
        entries[name] = asdict(describe(data, name))
        print(folder / f"{name}{SUFFIX}", flush=True)
    for path in folder.glob(f"*{SUFFIX}"):
        if path.stem not in RECIPES:
            path.unlink()
    document = {"tensorflow": version("tensorflow"), "bundles": entries}
    write_durably(folder / _CATALOGUE, (json.dumps(document, indent=1) + "\n").encode(), 0o644)


def read_catalogue() -> tuple[str, Mapping[str, Entry]]:
    """Return the version of TensorFlow that made the ready bundles, and their lines by name. Raises ExportError."""
    path = FOLDER / _CATALOGUE
    try:
        document: dict[str, Any] = json.loads(path.read_bytes())
        return document["tensorflow"], {name: Entry(**entry) for name, entry in document["bundles"].items()}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ExportError(f"{path} cannot be read ({error}); install Auricle again") from error


def listing() -> Iterator[str]:
    """Yield the lines of `auricle-export list`. Raises ExportError: the catalogue or a front end cannot be read."""
    yield "Ready bundles, for [model] bundle in edge.toml and wherever a command takes a bundle:"
    yield f"  {'name':<17}{'architecture':<13}{'front end':<17}{'weights':>8}{'multiply-adds':>15}{'kB':>5}  what for"
    entries = read_catalogue()[1]
    for name in sorted(entries, key=lambda name: name != FIRST_CHOICE):  # the others as they are made
        entry, recipe = entries[name], RECIPES[name]
        front_end = recipe.features + (" int8" if recipe.precision == "int8" else "")
        yield (
            f"  {name:<17}{recipe.architecture:<13}{front_end:<17}{entry.weights:>8,}{entry.multiply_adds:>15,}"
            f"{entry.bytes / 1000:>5.0f}  {recipe.purpose}"
        )
    yield "weights: those that train; multiply-adds: of a window of sound, without mel bands and cepstra"
    yield ""
    yield "Front ends, for `auricle-export build --features`:"
    for name, path in SHIPPED.items():
        file = front_end_file.read(path)
        try:
            network, attribution = file.description["network"], file.description["attribution"]
            yield (
                f"  {name}: a pretrained network, {network['embedding']} numbers; {network['weights']:,} weights, "
                f"{network['multiply_adds']:,} multiply-adds, {path.stat().st_size / 1000:.0f} kB; "
                f"{len(file.words)} words"
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ExportError(f"{path} does not describe itself ({error}); install Auricle again") from error
        yield f"    {attribution}"
    for name, settings in PRESETS.items():
        frames, numbers = settings.shape
        yield f"  {name}: {settings.kind}, {frames} x {numbers}, {settings.sample_rate_hz:,} Hz"


if __name__ == "__main__":
    make(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
