"""`auricle-export speech-embedding`: from the package's network and recordings to a front end's file.

The recordings tell where words lie in the embedding and how far they scatter, and the ranges of the int8 form.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np

from edge_client.features.augmentation import BackgroundNoise, augment_takes
from edge_client.features.speech_embedding import clip_parts
from edge_client.learning.teaching.hearing import artificial_noise
from fleet_protocol.arrays import Floats
from fleet_protocol.atomic_files import write_durably
from fleet_protocol.feature_settings import FrozenNetwork, SpeechEmbeddingSettings
from model_export.errors import CorpusError, ExportError
from model_export.pretraining import front_end_file
from model_export.pretraining.corpus import NOISE, read_features, require_recordings
from model_export.speech_embedding.package import ATTRIBUTION, NUMBERS, read_convolutions, settings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from model_export.speech_embedding.network import SpeechNetwork

_SAMPLES, _NOISES = 6, 64  # embeddings of each word, and of noise, that a file keeps
_CALIBRATION_CLIPS = 100
_BACKGROUNDS = 12  # artificial noises in which variants are measured


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    command.add_argument(
        "--data",
        type=Path,
        required=True,
        action="append",
        metavar="FOLDER",
        help="folder of <label>/<speaker>_*; may be repeated",
    )
    command.add_argument("--leave-out-words", default="", metavar="A,B,..", help="of whom nothing is to be known")
    command.add_argument("--attribution", default="", metavar="TEXT", help="source and licence of the recordings")
    command.add_argument("--seed", type=int, default=0, help="decides which embeddings are kept (default: %(default)s)")
    command.add_argument("--json", action="store_true", help="print the file's description as JSON")
    command.add_argument("-o", "--output", type=Path, required=True, help="file NAME.frontend")


def make(chosen: argparse.Namespace, progress: TextIO) -> str:
    """Convert the network, measure the recordings, write the file; return what to print.

    Raises ExportError: an option, the package or the recordings cannot be used; RecordingError: a recording cannot be
    read.
    """
    _require_sensible(chosen)
    convolutions = read_convolutions()

    from model_export.pretraining.measurement import Embedded, measure
    from model_export.speech_embedding.network import SpeechNetwork, float32_graph, int8_graph

    network = SpeechNetwork(convolutions)
    float32 = float32_graph(convolutions)
    features = settings(FrozenNetwork.of(float32))
    clips, words, speech, some = _heard(chosen, network, features, progress)
    if len(set(words.tolist()) - {NOISE}) < 2:
        raise CorpusError(f"the recordings hold {len(words)} clips of {sorted(set(words))}; two words are needed")
    print("measuring the ranges of the int8 form", file=progress, flush=True)
    int8 = int8_graph(convolutions, some)
    as_recorded, varied = (Embedded(kind, words) for kind in clips)
    statistics = measure(as_recorded, varied, speech, _SAMPLES, _NOISES, chosen.seed)
    description: dict[str, Any] = {
        "name": chosen.output.stem,
        "features": features.to_json() | {"preset": chosen.output.stem},
        "network": {
            "multiply_adds_per_hop": network.multiply_adds_of_part(),
            "embedding": NUMBERS,
            "bytes_float32": len(float32),
            "bytes_int8": len(int8),
        },
        "corpus": {"clips": len(words), "words": list(statistics.words), "attribution": chosen.attribution},
        "attribution": ATTRIBUTION,
    }
    write_durably(chosen.output, front_end_file.serialise(description, float32, int8, statistics.pack()), 0o644)
    return json.dumps({"file": str(chosen.output), **description}, indent=1) if chosen.json else str(chosen.output)


def _require_sensible(chosen: argparse.Namespace) -> None:
    front_end_file.require_output(chosen.output)
    if chosen.seed < 0:
        raise ExportError(f"--seed must be at least 0, not {chosen.seed}")
    for folder in chosen.data:
        require_recordings(folder)


def _heard(
    chosen: argparse.Namespace, network: SpeechNetwork, features: SpeechEmbeddingSettings, progress: TextIO
) -> tuple[tuple[Floats, Floats], NDArray[np.str_], Floats, Floats]:
    """Return embeddings of all clips and of a variant of each, the clips' words, embeddings of speech in which words
    follow one another, and the mel features of some clips.
    """
    rng = np.random.default_rng([chosen.seed, 1])
    noise = BackgroundNoise(tuple(artificial_noise(_BACKGROUNDS, features, rng)))

    def parts_of(clips: Floats) -> Floats:
        variants = augment_takes(clips, features.sample_rate_hz, rng, noise)
        pairs = zip(clips, variants, strict=True)
        return np.stack([[clip_parts(clip, features), clip_parts(variant, features)] for clip, variant in pairs])

    rows, words = [], []
    for folder in chosen.data:
        print(f"reading {folder}", file=progress, flush=True)
        found, spoken, _ = read_features(folder, features, parts_of)
        kept = ~np.isin(spoken, chosen.leave_out_words.split(","))
        rows.append(found[kept])
        words.append(spoken[kept])
    parts = np.concatenate(rows)
    print(f"computing {len(parts)} embeddings", file=progress, flush=True)
    said, some = np.concatenate(words), parts[:: -(-len(parts) // _CALIBRATION_CLIPS), 0]
    columns = network.columns(parts[:, 1])
    embeddings = network.columns(parts[:, 0]).mean(axis=1), columns.mean(axis=1)
    return embeddings, said, _run_together(columns[said != NOISE], rng), some


def _run_together(columns: Floats, rng: np.random.Generator) -> Floats:
    """Return embeddings of the end of each word and the beginning of another, float32 [clips, numbers].

    Args:
        columns: embeddings of the clips' parts in order of time, float32 [clips, parts, numbers].
        rng: draws the others.
    """
    half = columns.shape[1] // 2
    return np.asarray(np.concatenate([columns[:, half:], rng.permutation(columns)[:, :half]], axis=1).mean(axis=1))
