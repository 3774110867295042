"""Homes: how many other sounds are heard in them, and everyday sounds to teach in place of words."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.listening.material import TRAINING, TUNING, Clip, Half, Material, recordings_in

TAUGHT = ("car_horn", "dog_bark", "gun_shot", "siren")
OTHER = ("jackhammer", "drilling", "children_playing", "street_music")
# Clips of a taught sound that are listened to, in each half.
_CLIPS = 40


@dataclass(frozen=True)
class Home:
    """How many words and everyday sounds that nobody taught are heard in an hour, and whether there is talk."""

    others_per_hour: float
    talk: bool


HOMES = {"busy": Home(100.0, talk=True), "quiet": Home(5.0, talk=False)}


def source_of(path: Path) -> str:
    """Return which recording of UrbanSound8K a clip was cut from."""
    return path.stem.split("_")[1].split("-")[0]


def with_sounds(material: Material, data: Path, seed: int, *, words: bool) -> Material:
    """Return a material whose taught labels are everyday sounds, beside words or in place of them."""
    rng, parts = np.random.default_rng([seed, 6]), [list[Clip]() for _ in range(3)]
    for label in TAUGHT:
        sources: dict[str, list[Path]] = {}
        for path in recordings_in(data / "urbansound8k_subset" / label):
            sources.setdefault(source_of(path), []).append(path)
        order = rng.permutation(sorted(sources))
        bounds = [round(share * len(order)) for share in (TRAINING - 0.1, TRAINING - 0.1 + TUNING)]
        teaching, *halves = (list(map(str, part)) for part in np.split(order, bounds))
        parts[0] += [Clip(label, sources[source][0]) for source in teaching]
        for found, part in zip(parts[1:], halves, strict=True):
            rounds = max(1, _CLIPS // max(1, len(part)))
            found += [Clip(label, path) for source in part for path in sources[source][:rounds]]
    training, tuning, report = parts

    def half(of: Half, sounds: list[Clip]) -> Half:
        return Half((*(clip for clip in of.clips if words or clip.label is None), *sounds), of.backgrounds)

    kept = material.training if words else ()
    return dataclasses.replace(
        material,
        training=(*kept, *training),
        tuning=half(material.tuning, tuning),
        report=half(material.report, report),
    )
