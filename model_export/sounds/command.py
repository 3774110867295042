"""`auricle-export sounds`: from EfficientAT's weights and recordings to the files of two front ends on one network.

NAME.frontend hears windows of one second, NAME_2s.frontend of two. What a device needs to know of other sounds is
measured on synthesised ones, on recordings of speech, and on recordings of backgrounds. None of them trains a weight of
the network; the scatter of the synthesised ones decides on the projection.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np
from numpy.typing import NDArray

from edge_client.audio.recordings import FORMATS, SUFFIXES, loudest_stretch, read_recording
from edge_client.features.augmentation import BackgroundNoise, augment_takes
from edge_client.features.log_mel import LogMel
from edge_client.learning.teaching.heard import artificial_noise
from fleet_protocol.bundle.feature_settings import KALDI_32K, EmbeddingSettings, FrozenNetwork
from fleet_protocol.ground import sample_sounds
from fleet_protocol.ground.atomic_files import write_durably
from fleet_protocol.numbers.arrays import Floats
from fleet_protocol.numbers.known import Known
from model_export.errors import CorpusError, ExportError
from model_export.pretraining import front_end_file
from model_export.pretraining.corpus import NOISE
from model_export.sounds import weights
from model_export.sounds.known import known_sounds

if TYPE_CHECKING:
    from fleet_protocol.numbers.embedding_statistics import EmbeddingStatistics
    from model_export.sounds.network import SoundNetwork

SECONDS = (1, 2)
NUMBERS = 96
_SAMPLES, _NOISES = 6, 64  # embeddings of each kind of sound, and of noise, that a file keeps
_TAKES = 2  # of each source
_WINDOWS = 40  # that are cut from each recording of a background
_SPEECH = 1_000  # windows of speech

Progress = TextIO


@dataclass(frozen=True)
class Material:
    """Windows of the longest front end, float32 [windows, samples], or their embeddings, float32 [windows, numbers]."""

    clips: Floats  # Of sounds and of noise
    kinds: NDArray[np.str_]  # What each of them is
    speech: Floats  # In which people talk

    def embedded(self, network: SoundNetwork, seconds: int) -> Material:
        """Return the embeddings of windows of so many seconds: the loudest of each."""
        features = _settings(seconds, FrozenNetwork(""))
        log_mel = LogMel(features.log_mel)

        def embeddings(windows: Floats) -> Floats:
            scaled = [log_mel(loudest_stretch(window, features)) for window in windows]
            return network.embeddings((np.stack(scaled) + np.float32(features.offset)) / np.float32(features.scale))

        return Material(embeddings(self.clips), self.kinds, embeddings(self.speech))

    def projected(self, by: weights.Projection) -> Material:
        """Return what the network with a projection makes of embeddings."""
        return Material(self.clips @ by.matrix + by.offset, self.kinds, self.speech @ by.matrix + by.offset)


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    command.add_argument(
        "--weights", type=Path, required=True, metavar="FILE", help="EfficientAT's mn04_as as .safetensors"
    )
    command.add_argument(
        "--speech", type=Path, required=True, metavar="FOLDER", help="recordings of people talking, at any depth"
    )
    command.add_argument(
        "--backgrounds", type=Path, metavar="FOLDER", help="recordings, each of a sound that its file's name says"
    )
    command.add_argument("--sources", type=int, default=40, help="synthesised, of each kind (default: %(default)s)")
    command.add_argument("--attribution", default="", metavar="TEXT", help="source and licence of the recordings")
    command.add_argument("--seed", type=int, default=0, help="of the synthesised sounds (default: %(default)s)")
    command.add_argument("--json", action="store_true", help="print the files' descriptions as a JSON list")
    command.add_argument("-o", "--output", type=Path, required=True, help="file NAME.frontend; NAME_2s is beside it")


def make(chosen: argparse.Namespace, progress: Progress) -> str:
    """Convert the network, measure the sounds, write both files; return what to print.

    Raises ExportError: an option, the weights or the recordings cannot be used; RecordingError: one cannot be read.
    """
    front_end_file.require_output(chosen.output)
    if chosen.seed < 0 or chosen.sources < 2:
        raise ExportError(f"--seed {chosen.seed} must be at least 0, and --sources {chosen.sources} at least 2")
    arrays = weights.read(chosen.weights)
    material = _material(chosen, progress)

    from model_export.sounds.network import SoundNetwork, half_graph, multiply_adds

    convolutions = {name: layer.rounded() for name, layer in weights.fold(arrays).items()}
    print(f"computing embeddings of {len(material.clips)} windows", file=progress, flush=True)
    rng = np.random.default_rng([chosen.seed, 1])
    noise = BackgroundNoise(tuple(artificial_noise(12, _settings(1, FrozenNetwork("")), rng)))
    varied = dataclasses.replace(material, clips=augment_takes(material.clips, sample_sounds.RATE_HZ, rng, noise))
    whole = SoundNetwork(convolutions)
    heard = {seconds: (material.embedded(whole, seconds), varied.embedded(whole, seconds)) for seconds in SECONDS}
    classifier = weights.Classifier.of(arrays)
    projected = _projection(heard[1][0], classifier)
    network = SoundNetwork(convolutions, projected)
    graph = half_graph(network)
    descriptions = []
    for seconds in SECONDS:
        features = _settings(seconds, FrozenNetwork.of(graph))
        clips, variants = (one.projected(projected) for one in heard[seconds])
        statistics = _statistics(clips, variants, chosen.seed)
        every = np.concatenate([part for one in heard[seconds] for part in (one.clips, one.speech)])
        known = Known(known_sounds(classifier, projected, every, statistics, chosen.seed))
        statistics = dataclasses.replace(statistics, known=known)
        path = chosen.output if seconds == 1 else chosen.output.with_stem(f"{chosen.output.stem}_{seconds}s")
        description: dict[str, Any] = {
            "name": path.stem,
            "features": features.to_json() | {"preset": path.stem},
            "network": {
                "multiply_adds": multiply_adds(network, features.frames),
                "weights": weights.count(convolutions) + projected.matrix.size + projected.offset.size,
                "embedding": NUMBERS,
                "bytes_float32": len(graph),
            },
            "corpus": {"words": list(statistics.words), "attribution": chosen.attribution},
            "attribution": weights.ATTRIBUTION,
        }
        left_out = () if seconds == 1 else (front_end_file.FLOAT32, front_end_file.INT8)
        data = front_end_file.serialise(description, graph, b"", statistics.pack(), left_out=left_out)
        write_durably(path, data, 0o644)
        descriptions.append({"file": str(path), **description})
    if chosen.json:
        return json.dumps(descriptions, indent=1)
    return "\n".join(description["file"] for description in descriptions)


# As the network was trained, half of each number of samples.
_FILTERS = {"mel_bands": 128, "fft_size": 512, "low_hz": 0.0, "high_hz": 15_000.0, "filters": KALDI_32K}
_INPUT = {"offset": 4.5, "scale": 5.0, "floor": 1e-5}


def _settings(seconds: int, network: FrozenNetwork) -> EmbeddingSettings:
    """Return the settings of a front end that hears so many seconds."""
    parts: dict[str, Any] = {"frames": 100 * seconds - 2, "numbers": NUMBERS, "network": network, **_FILTERS, **_INPUT}
    return EmbeddingSettings("sounds", sample_sounds.RATE_HZ, float(seconds), 0.025, 0.01, **parts)


def _projection(heard: Material, classifier: weights.Classifier) -> weights.Projection:
    from model_export.pretraining.measurement import scatter_of

    sounds = heard.kinds != NOISE
    groups = [heard.clips[heard.kinds == kind] for kind in np.unique(heard.kinds[sounds])]
    every = np.concatenate([heard.clips, heard.speech])
    return weights.project(every, scatter_of([group.astype(np.float64) for group in groups]), classifier, NUMBERS)


def _statistics(clips: Material, variants: Material, seed: int) -> EmbeddingStatistics:
    from model_export.pretraining.measurement import Embedded, measure

    speech = np.concatenate([clips.speech, variants.speech])
    whole, varied = (Embedded(one.clips, one.kinds) for one in (clips, variants))
    return measure(whole, varied, speech, _SAMPLES, _NOISES, seed)


def _material(chosen: argparse.Namespace, progress: Progress) -> Material:
    """Synthesise and read all windows."""
    rng = np.random.default_rng([chosen.seed, 0])
    longest = _settings(SECONDS[-1], FrozenNetwork(""))
    length = longest.clip_samples
    clips: list[Floats] = [artificial_noise(_NOISES, longest, rng)]
    kinds = [NOISE] * _NOISES
    for kind in sample_sounds.SOUNDS:
        print(f"synthesising {kind}", file=progress, flush=True)
        for _ in range(chosen.sources):
            clips.append(sample_sounds.takes(kind, _TAKES, length, rng))
            kinds += [f"synthetic {kind}"] * _TAKES
    for path in _recordings(chosen.backgrounds) if chosen.backgrounds else ():
        clips.append(_cut([path], length, _WINDOWS, rng))
        kinds += [NOISE if path.stem.endswith("noise") else path.stem] * _WINDOWS
    print(f"reading {chosen.speech}", file=progress, flush=True)
    speech = _cut(_recordings(chosen.speech), length, _SPEECH, rng)
    return Material(np.concatenate(clips), np.array(kinds), speech)


def _recordings(folder: Path) -> list[Path]:
    found = sorted(path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES)
    if not found:
        raise CorpusError(f"{folder} holds no recordings; {FORMATS} are read")
    return found


def _cut(paths: list[Path], length: int, count: int, rng: np.random.Generator) -> Floats:
    """Return so many windows at random places of recordings, the same number of each, float32 [count, length]."""
    windows = np.zeros((count, length), np.float32)
    for number, path in enumerate(paths[:count]):
        samples = read_recording(path, sample_sounds.RATE_HZ)
        for window in windows[number :: len(paths)]:
            start = int(rng.integers(max(1, len(samples) - length + 1)))
            part = samples[start : start + length]
            window[: len(part)] = part
    return windows
