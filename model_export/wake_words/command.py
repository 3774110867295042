"""`auricle-export openwakeword`: a taught word as a classifier of openWakeWord, for Home Assistant and others."""

from __future__ import annotations

import argparse
from pathlib import Path

from fleet_protocol.atomic_files import write_durably
from model_export.errors import ExportError
from model_export.wake_words.taught_word import read_word

_SUFFIX = ".tflite"


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

    from model_export.wake_words.graph import wake_word_graph  # heavy: TensorFlow

    write_durably(output, wake_word_graph(word), 0o644)
    return output
