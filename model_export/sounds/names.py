"""`auricle-export names`: the rows of all of AudioSet's classes, folded to words that a home uses, for guesses.

``names.tsv`` has AudioSet's classes in the order of its ``class_labels_indices.csv`` (Gemmeke et al. 2017, Google,
CC BY 4.0), and the word that each folds to; ``-``: it names no sound. A class that everything sounds a little like, as
music and traffic, would be guessed always. So what a word's logit reaches among dreams of other classes
(:mod:`model_export.sounds.known`) is taken off: words compare by how far each is above what it reaches by chance.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from edge_client.detection.sound_names import SoundNames
from fleet_protocol.ground.atomic_files import write_durably
from fleet_protocol.numbers.joint_statistics import unpack_statistics
from model_export.errors import ExportError
from model_export.front_ends import find_front_end
from model_export.sounds import weights
from model_export.sounds.known import levels_of

TABLE = Path(__file__).with_name("names.tsv")
_FRONT_END, _SUFFIX = "sounds_2s", ".safetensors"
_AMONG_OTHERS = 0.95  # Quantile of a word's logit among other sounds


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    about = "EfficientAT's mn04_as as .safetensors"
    command.add_argument("--weights", type=Path, required=True, metavar="FILE", help=about)
    command.add_argument("-o", "--output", type=Path, required=True, help=f"file NAME{_SUFFIX}")


def words() -> list[str]:
    """Return the word of each of AudioSet's classes; "-" of one that names no sound."""
    return [line.split("\t")[2] for line in TABLE.read_text("utf-8").splitlines()]


def make(chosen: argparse.Namespace) -> str:
    """Write the file of the front ends that ship; return its name. Raises ExportError: the weights cannot be used."""
    if chosen.output.suffix != _SUFFIX or not chosen.output.parent.is_dir():
        raise ExportError(f"--output must be a file NAME{_SUFFIX} in a folder that is there, not {chosen.output}")
    classifier = weights.Classifier.of(weights.read(chosen.weights))
    front_end = find_front_end(_FRONT_END, "float32")
    statistics = unpack_statistics(front_end.statistics)
    known = None if statistics is None else statistics.known.of_sounds
    if statistics is None or known is None:
        raise ExportError(f"the front end {_FRONT_END} knows no sounds; make it by `auricle-export sounds`")
    inner = weights.Classifier(known.hidden, known.hidden_bias, classifier.second, classifier.second_bias)
    table = np.array(words())
    kept = [word for word in dict.fromkeys(table.tolist()) if word != "-"]
    classes = [np.flatnonzero(table == word) for word in kept]
    levels = levels_of(inner, statistics, 0, classes, _AMONG_OTHERS)
    sizes = [len(numbers) for numbers in classes]
    order = np.concatenate(classes)
    names = SoundNames(
        network=front_end.settings.networks[-1].sha256,
        words=tuple(kept),
        rows=inner.second[:, order],
        bias=(inner.second_bias[order] - np.repeat(levels, sizes)).astype(np.float32),
        first=np.cumsum([0, *sizes[:-1]]),
    )
    write_durably(chosen.output, names.pack(), 0o644)
    return str(chosen.output)
