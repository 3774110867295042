"""`auricle-export voices`: in which directions people's voices differ, from a corpus of many people's words.

Within one person's word lies everything else that varies: how it was said, noise, and the microphone, for which each
clip's bands get other weights. Without these variants a microphone would be taken for its owner.
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from edge_client.detection.speaker_gate import LOUD_FRAMES, voice_numbers
from fleet_protocol.arrays import Doubles, Floats, Ints
from fleet_protocol.atomic_files import write_durably
from fleet_protocol.tensors import Arrays, pack
from model_export.errors import CorpusError, ExportError
from model_export.pretraining.batches import coloured_noise
from model_export.pretraining.corpus import NOBODY, NOISE, SPEECH, Corpus, read_corpus, speakers_of
from model_export.pretraining.pictures import BANDS, FLOOR, LOG_POWERS

# Directions that are kept, and the share of the scatter within a word that is replaced by a multiple of the identity.
_DIRECTIONS, _SHRINKAGE = 20, 0.02
# Takes of a word that a person has at least, and variants of each clip.
_TAKES, _VARIANTS = 3, 2
# Share of the variants that are in noise, and how far below the word it is, dB.
_NOISY, _SNR_DB = 0.9, (-3.0, 25.0)
# Other microphones: so many cosines over the bands, of so much together, dB.
_COSINES, _MICROPHONE_DB = 3, 4.0
_NOISES, _AT_ONCE = 500, 2000
_NEPERS = float(np.log(10) / 10)  # of a decibel of power


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    several: dict[str, Any] = {"type": Path, "action": "append", "metavar": "PATH"}
    command.add_argument(
        "--data", required=True, help="archive of log-mel pictures, or folder of <label>/*; may be repeated", **several
    )
    command.add_argument(
        "--leave-out-speakers", default=[], help="who speaks in this folder is left out; may be repeated", **several
    )
    command.add_argument("--attribution", default="", metavar="TEXT", help="source and licence of the corpus")
    command.add_argument("--seed", type=int, default=0, help="of noises and microphones (default: %(default)s)")
    command.add_argument("-o", "--output", type=Path, required=True, help="file NAME.safetensors")


def make(chosen: argparse.Namespace, progress: TextIO) -> str:
    """Read the corpus, write the file; return what to print.

    Raises ExportError: an option or the corpus cannot be used.
    """
    if chosen.seed < 0:
        raise ExportError(f"--seed must be at least 0, not {chosen.seed}")
    left_out = set[str]().union(*(speakers_of(path) for path in chosen.leave_out_speakers))
    print("reading the corpus", file=progress, flush=True)
    corpus = read_corpus(chosen.data)
    corpus = corpus.where(~np.isin(corpus.speakers, list(left_out - {NOBODY})))
    arrays = learn(corpus, chosen.seed)
    document = {"attribution": chosen.attribution, "corpus": corpus.digest(), "seed": chosen.seed}
    write_durably(chosen.output, pack(arrays, document), 0o644)
    return str(chosen.output)


def learn(corpus: Corpus, seed: int) -> Arrays:
    """Return ``directions``, float32 [numbers, directions], and ``between``, float32 [directions].

    Linear discriminant analysis: in the directions the scatter within one person's word is 1, and between people's
    words it is ``between``.

    Raises CorpusError: no two people have enough takes of a word.
    """
    spoken = corpus.where((corpus.speakers != NOBODY) & ~np.isin(corpus.words, [NOISE, SPEECH]))
    takes = Counter(zip(spoken.words.tolist(), spoken.speakers.tolist(), strict=True))
    if sum(count >= _TAKES for count in takes.values()) < 2:
        raise CorpusError(f"no two people of the corpus have {_TAKES} takes of a word, so voices cannot be compared")
    recorded = LOG_POWERS[corpus.where(corpus.words == NOISE).pixels]
    rng = np.random.default_rng(seed)
    noises = np.concatenate([coloured_noise(_NOISES, rng), recorded[rng.permutation(len(recorded))[:_NOISES]]])
    rows = range(0, len(spoken), _AT_ONCE)
    numbers = np.stack(
        [
            np.concatenate(
                [voice_numbers(_varied(LOG_POWERS[spoken.pixels[at : at + _AT_ONCE]], noises, rng)) for at in rows]
            )
            for _ in range(_VARIANTS)
        ]
    )
    within, between = _scatter(numbers.astype(np.float64), spoken)
    spread = np.trace(within) / len(within) * np.eye(len(within))
    whitening = np.linalg.inv(np.linalg.cholesky((1 - _SHRINKAGE) * within + _SHRINKAGE * spread))
    variances, axes = np.linalg.eigh(whitening @ between @ whitening.T)
    most = np.argsort(-variances)[:_DIRECTIONS]
    return {
        "directions": (whitening.T @ axes[:, most]).astype(np.float32),
        "between": np.maximum(variances[most], 0).astype(np.float32),
    }


def _varied(log_power: Floats, noises: Floats, rng: np.random.Generator) -> Floats:
    """Return clips, float32 [clips, 98, 40], through other microphones and mostly in noise."""
    count, places = len(log_power), np.pi * (np.arange(BANDS) + 0.5) / BANDS
    curves = np.stack([np.cos(order * places) for order in range(1, _COSINES + 1)])
    weights = rng.standard_normal((count, _COSINES)) * _MICROPHONE_DB * _NEPERS / np.sqrt(_COSINES)
    power = np.exp(log_power + (weights @ curves)[:, None])
    noise = np.exp(noises[rng.integers(len(noises), size=count)])
    loud = np.sort(power.mean(axis=2), axis=1)[:, -LOUD_FRAMES:].mean(axis=1)
    wanted = loud * np.exp(-_NEPERS * rng.uniform(*_SNR_DB, count)) * (rng.random(count) < _NOISY)
    power += noise * (wanted / noise.mean(axis=(1, 2)))[:, None, None]
    return np.asarray(np.log(power + FLOOR), np.float32)


def _scatter(numbers: Doubles, corpus: Corpus) -> tuple[Doubles, Doubles]:
    """Return covariances within one person's takes of a word and between people, of [variants, clips, numbers]."""
    _, word = np.unique(corpus.words, return_inverse=True)
    _, cell = np.unique(np.stack([corpus.words, corpus.speakers]), axis=1, return_inverse=True)
    takes = np.bincount(cell)
    chosen, several = takes[cell] >= _TAKES, takes >= _TAKES
    off = numbers - _means(numbers.mean(axis=0), word)[word]
    clips = off.mean(axis=0)
    people = _means(clips, cell)
    free = chosen.sum() - several.sum()
    within = (off - people[cell])[:, chosen].reshape(-1, numbers.shape[-1])
    of_means = (clips - people[cell])[chosen]
    # A person's mean scatters by chance too: by that of a clip's mean over its variants, over the takes.
    chance = of_means.T @ of_means / free * np.mean(1 / takes[several])
    among = people[several].T @ people[several] / several.sum()
    return within.T @ within / (len(numbers) * free), among - chance


def _means(rows: Doubles, groups: Ints) -> Doubles:
    """Return the mean of each group's rows, [rows, numbers] -> [groups, numbers]."""
    sums = np.zeros((groups.max() + 1, rows.shape[1]))
    np.add.at(sums, groups, rows)
    return np.asarray(sums / np.bincount(groups)[:, None])
