"""`auricle-export plain`: a bundle as files for programs without Auricle, microcontrollers among them.

`model.tflite` takes the raw features of one clip and returns the probabilities of its labels; `labels.txt` names these
in order; `model.h` holds the same as C arrays. A front end's network, where there is one, comes in the same forms.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from fleet_protocol.atomic_files import write_durably
from fleet_protocol.bundle import Bundle, Manifest, read_bundle
from fleet_protocol.labels import LabelMap
from fleet_protocol.ready_bundles import find_bundle
from fleet_protocol.tensors import unpack
from model_export.errors import ExportError
from model_export.feature_statistics import features_of
from model_export.specification import Specification

if TYPE_CHECKING:
    from fleet_protocol.tensors import Arrays

PRECISIONS = ("float32", "int8")
_SUFFIX = ".tflite"
_ROW = 12  # bytes in a line of an array
# TensorFlow Lite for Microcontrollers reads a model in place, and asks for this alignment.
_HEADER = """\
/* {source}. Written by `auricle-export plain`. */
#ifndef AURICLE_MODEL_H
#define AURICLE_MODEL_H

#include <stdint.h>

#ifdef __cplusplus
#define AURICLE_ALIGNED alignas(16)
#else
#define AURICLE_ALIGNED _Alignas(16)
#endif

{parts}
#endif
"""


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    command.add_argument("file", help="an .auricle bundle, the name of a ready one, or a .tflite model (no TensorFlow)")
    command.add_argument(
        "--model", type=Path, metavar="FILE", help="labels and weights that edge_client.api.Classifier.save wrote"
    )
    command.add_argument("--labels", metavar="A,B,..", help="names of the first outputs, instead of --model's")
    command.add_argument(
        "--precision", default="float32", choices=PRECISIONS, help="of the weights (default: %(default)s)"
    )
    command.add_argument(
        "--recordings", type=Path, metavar="DIR", help="<label>/*.wav to measure int8 ranges on (default: noise)"
    )
    command.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER", help="folder of the files")


def export(chosen: argparse.Namespace) -> list[Path]:
    """Write the files; return their paths.

    Raises ExportError: the options, the bundle or the labels do not fit each other; BundleError: the bundle cannot be
    read; TensorError: the file of ``--model`` is damaged; OSError: a file cannot be read or written.
    """
    labels = tuple(chosen.labels.split(",")) if chosen.labels else ()
    path = find_bundle(chosen.file)
    if path.suffix == _SUFFIX:
        if chosen.model or chosen.recordings:
            raise ExportError(f"{path} is a finished model; --model and --recordings go with a bundle")
        networks, defines = {"model": path.read_bytes()}, dict[str, int]()
    else:
        bundle = read_bundle(path)
        weights, labels = _learned(chosen.model, bundle, labels)
        networks = {"model": _convert(bundle.manifest, weights, labels, chosen)}
        defines = _shape(bundle.manifest)
        names = ("front_end", "front_end_2")
        networks |= dict(zip(names, bundle.manifest.networks, strict=False))
    files = {f"{name}{_SUFFIX}": data for name, data in networks.items()}
    if labels:
        files["labels.txt"] = "".join(f"{label}\n" for label in labels).encode()
    files["model.h"] = header(path.name, networks, labels, defines).encode()
    for name, data in files.items():
        write_durably(chosen.output / name, data, 0o644)
    return [chosen.output / name for name in files]


def header(
    source: str, networks: dict[str, bytes], labels: tuple[str, ...] = (), defines: dict[str, int] | None = None
) -> str:
    """Return a C header (C11, C++11) that holds networks as arrays.

    Args:
        source: what they were made of, for people.
        networks: TFLite files by name; ``auricle_NAME`` is the array, ``auricle_NAME_length`` its bytes.
        labels: names of the outputs; ``auricle_labels``.
        defines: numbers by name; ``AURICLE_NAME``.
    """
    parts = [f"#define AURICLE_{name} {value}\n" for name, value in (defines or {}).items()]
    if labels:
        names = ", ".join(json.dumps(label, ensure_ascii=False) for label in labels)
        parts.append(f"#define AURICLE_LABELS {len(labels)}\n")
        parts.append(f"static const char *const auricle_labels[AURICLE_LABELS] = {{{names}}};\n")
    for name, data in networks.items():
        rows = (data[start : start + _ROW] for start in range(0, len(data), _ROW))
        body = "\n".join("    " + " ".join(f"0x{byte:02x}," for byte in row) for row in rows)
        parts.append(f"\nstatic const uint32_t auricle_{name}_length = {len(data)};\n")
        parts.append(f"AURICLE_ALIGNED static const uint8_t auricle_{name}[{len(data)}] = {{\n{body}\n}};\n")
    return _HEADER.format(source=source.replace("*/", ""), parts="".join(parts))


def _learned(model: Path | None, bundle: Bundle, labels: tuple[str, ...]) -> tuple[Arrays, tuple[str, ...]]:
    """Return weights and labels: those of a classifier's file, or the bundle's own weights and the labels given."""
    if model is None:
        if not labels:
            raise ExportError("a bundle has no labels; name them by --labels, or give --model what a classifier saved")
        return bundle.weights, labels
    weights, learned = read_classifier(model, bundle)
    own = learned.names
    if labels and len(labels) != len(own):
        raise ExportError(f"--labels names {len(labels)}, but {model} has learned {len(own)}: {', '.join(own)}")
    return weights, labels or own


def read_classifier(path: Path, bundle: Bundle) -> tuple[Arrays, LabelMap]:
    """Return the weights and labels that a classifier saved. Raises ExportError: it is none of this bundle."""
    weights, document = unpack(path.read_bytes())
    labels = document.get("labels")
    if document.get("network") != bundle.manifest.network or not isinstance(labels, dict):
        raise ExportError(f"{path} holds no classifier of this bundle; Classifier.save of edge_client.api writes one")
    return weights, LabelMap.from_json(labels)


def _convert(manifest: Manifest, weights: Arrays, labels: tuple[str, ...], chosen: argparse.Namespace) -> bytes:
    if "trains" in manifest.options:
        raise ExportError("layers of this bundle's front end train with it; take a bundle that trains its head alone")
    features = features_of(chosen.recordings, manifest.feature_settings) if chosen.recordings else None
    specification = Specification.of(manifest)
    from model_export.inference import Inference  # heavy: TensorFlow

    network = Inference(specification, weights, len(labels), rows=1)
    return network.int8(features) if chosen.precision == "int8" else network.float32()


def _shape(manifest: Manifest) -> dict[str, int]:
    """Return what a program must know to compute the features."""
    settings = manifest.feature_settings
    return {
        "SAMPLE_RATE_HZ": settings.sample_rate_hz,
        "CLIP_SAMPLES": settings.clip_samples,
        "FRAMES": manifest.input_shape[0],
        "NUMBERS_PER_FRAME": manifest.input_shape[1],
    }
