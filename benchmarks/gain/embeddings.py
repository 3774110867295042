"""The words of Speech Commands' test set as a device hears them: each clip's embedding, and those of its variants."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edge_client.audio.recordings import loudest_stretch, read_recording, speaker_of
from edge_client.features.augmentation import BackgroundNoise, augment_takes
from edge_client.features.front_end import open_front_end
from edge_client.learning.teaching.negatives import artificial_noise
from fleet_protocol.arrays import Floats
from fleet_protocol.feature_settings import FeatureSettings

WORDS = ("yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go")
# As a device makes them of its clips.
_VARIANTS, _NOISES = 7, 12


@dataclass(frozen=True)
class Words:
    """Every clip of the words.

    Attributes:
        embeddings: float32 [clips, variants, numbers]; the first variant is the clip as it was recorded.
        words: the word of every clip.
        speakers: who speaks.
        nothing: embeddings of windows in which nobody speaks, float32 [windows, numbers].
    """

    embeddings: Floats
    words: NDArray[np.str_]
    speakers: NDArray[np.str_]
    nothing: Floats


def read_words(folder: Path, settings: FeatureSettings, cache: Path) -> Words:
    """Compute the embeddings of a folder's words once; later runs read them from the cache.

    Args:
        folder: of ``<word>/<speaker>_*``.
        settings: of the front end.
        cache: folder of the file.
    """
    paths = [path for word in WORDS for path in sorted((folder / word).iterdir())]
    names = "\n".join(f"{path.parent.name}/{path.name} {path.stat().st_size}" for path in paths)
    key = hashlib.sha256(f"{settings.digest} {_VARIANTS}\n{names}".encode()).hexdigest()[:16]
    file = cache / f"words-{key}.npz"
    if not file.exists():
        cache.mkdir(parents=True, exist_ok=True)
        rows = np.stack(list(_embedded(paths, settings)))
        noise = artificial_noise(40, settings, np.random.default_rng(1))
        np.savez(file, embeddings=rows, nothing=open_front_end(settings)(noise)[:, 0])
    kept = np.load(file)
    words = np.array([path.parent.name for path in paths])
    return Words(kept["embeddings"], words, np.array([speaker_of(path) for path in paths]), kept["nothing"])


def _embedded(paths: list[Path], settings: FeatureSettings) -> Iterator[Floats]:
    front_end, rate = open_front_end(settings), settings.sample_rate_hz
    rng = np.random.default_rng(0)
    noises = BackgroundNoise(tuple(artificial_noise(_NOISES, settings, rng)))
    for path in paths:
        clip = loudest_stretch(read_recording(path, rate), settings)[None]
        variants = [augment_takes(clip, rate, rng, noises) for _ in range(_VARIANTS)]
        yield front_end(np.concatenate([clip, *variants]))[:, 0]
