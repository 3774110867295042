"""`auricle-export openwakeword`: a taught word as a classifier of openWakeWord, for Home Assistant and others."""

from __future__ import annotations

import argparse
import dataclasses
from dataclasses import dataclass
from pathlib import Path

from edge_client.config import load_config
from edge_client.config.sections import THRESHOLD
from edge_client.detection.thresholds import Tail, threshold_of
from edge_client.storage.saved_model import ModelStore
from fleet_protocol.arrays import Floats
from fleet_protocol.atomic_files import write_durably
from fleet_protocol.bundle import Bundle, read_bundle
from fleet_protocol.feature_settings import SpeechEmbeddingSettings
from fleet_protocol.labels import LabelMap
from fleet_protocol.ready_bundles import SUFFIX
from model_export.errors import ExportError
from model_export.plain import read_classifier

_CONFIG, _SUFFIX = "edge.toml", ".tflite"


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    command.add_argument(
        "source", type=Path, help="configuration of a device (edge.toml), or an .auricle bundle with --model"
    )
    command.add_argument("label", help="the taught word")
    command.add_argument(
        "--model", type=Path, metavar="FILE", help="labels and weights that edge_client.api.Classifier.save wrote"
    )
    command.add_argument("--force", action="store_true", help="replace the output")
    command.add_argument("-o", "--output", type=Path, required=True, metavar="WORD.tflite", help="file to write")


def export(chosen: argparse.Namespace) -> Path:
    """Write the classifier; return its path.

    Raises ExportError: the word cannot be exported, or the output cannot be written; ConfigError, StateError,
    BundleError, TensorError: what is read is damaged or missing; OSError: a file cannot be read or written.
    """
    output: Path = chosen.output
    if output.suffix != _SUFFIX:
        raise ExportError(f"--output must end in {_SUFFIX}, by which openWakeWord finds it, not be {output}")
    if not output.parent.is_dir():
        raise ExportError(f"there is no folder {output.parent}; make it first")
    if output.exists() and not chosen.force:
        raise ExportError(f"{output} is there already; --force replaces it")
    word = read_word(chosen.source, chosen.label, chosen.model)

    from model_export.wake_word_graph import wake_word_graph  # heavy: TensorFlow

    write_durably(output, wake_word_graph(**vars(word)), 0o644)
    return output


@dataclass(frozen=True)
class TaughtWord:
    """A label, and what tells it from everything else."""

    bundle: Bundle  # Bundle with the weights that listen
    labels: LabelMap  # Which of its outputs are used
    label: str  # One of the labels
    threshold: float  # Score from which it counts as heard, above 0, at most 1
    prototype: Floats | None = None  # Its direction, float32 [numbers]; None: the head alone scores


def read_word(source: Path, label: str, model: Path | None = None) -> TaughtWord:
    """Read a taught word.

    Args:
        source: the configuration of a device, the folder in which it lies, or a bundle.
        label: the word.
        model: what a classifier of the bundle saved; for a bundle alone.

    Raises ExportError: it was not taught, or not on the speech embedding; ConfigError, StateError, BundleError,
    TensorError: what is read is damaged or missing; OSError: a file cannot be read.
    """
    if source.suffix == SUFFIX:
        word = _of_classifier(source, label, model)
    elif model is not None:
        raise ExportError(f"--model goes with an {SUFFIX} bundle; {source} has the weights of its device")
    else:
        word = _of_device(source, label)
    _require_heard(source, word)
    return word


def _of_device(source: Path, label: str) -> TaughtWord:
    path = source / _CONFIG if source.is_dir() else source
    if not path.exists():
        raise ExportError(
            f"there is no configuration {path}; name the device's {_CONFIG}, like /etc/auricle/{_CONFIG}, which says "
            "where its state and its bundle are"
        )
    config = load_config(path)
    _require_speech_embedding(path, read_bundle(config.bundle))
    store = ModelStore(config.device.state)
    if not store.path.exists():
        raise ExportError(f"the device of {path} has learned nothing yet: there is no {store.path}; teach it first")
    saved = store.load(config.bundle)
    tails = {name: Tail(*numbers) for name, numbers in saved.progress.listening_tails.items()}
    threshold = threshold_of(label, config.detector, tails)
    near = saved.progress.listening_prototypes.get(label)
    return TaughtWord(saved.listening_bundle, saved.progress.listening_labels, label, threshold, near)


def _of_classifier(source: Path, label: str, model: Path | None) -> TaughtWord:
    if model is None:
        raise ExportError(f"{source} holds no taught words; give --model what a classifier saved, or name a device")
    bundle = read_bundle(source)
    _require_speech_embedding(source, bundle)
    weights, labels = read_classifier(model, bundle)
    # To a classifier every clip is one of its labels: the outputs for what is no label are off.
    known = dataclasses.replace(labels, reserved=0)
    return TaughtWord(dataclasses.replace(bundle, weights=weights), known, label, THRESHOLD)


def _require_speech_embedding(source: Path, bundle: Bundle) -> None:
    settings = bundle.manifest.feature_settings
    if not isinstance(settings, SpeechEmbeddingSettings):
        raise ExportError(
            f"{source} hears with the front end {settings.preset!r}, but openWakeWord with Google's speech embedding. "
            "Build a bundle for it: auricle-export build linear --features speech_embedding.frontend (docs/models.md); "
            "name it in [model] bundle of the device, and start the daemon, which learns the words anew from the clips"
        )


def _require_heard(source: Path, word: TaughtWord) -> None:
    """Refuse a label that is not there, that is not learned yet, or that nothing else is told from."""
    known, mask = word.labels.labels, word.labels.listening_mask
    if word.label not in known:
        raise ExportError(f"{source} knows no label {word.label!r}; known: {', '.join(known) or 'none, teach one'}")
    if not mask[word.labels.slot_of(word.label)]:
        raise ExportError(f"{word.label!r} is not learned yet; let the daemon of {source} learn it first")
    if mask.sum() < 2:
        raise ExportError(
            f"{word.label!r} is all that {source} knows, so everything would be taken for it; teach a second word"
        )
