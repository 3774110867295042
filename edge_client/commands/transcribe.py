"""``transcribe``: writes down what is said in recordings."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from edge_client.commands import add_json
from fleet_protocol.command_line import print_json

if TYPE_CHECKING:
    from edge_client.commands import Commands


def add(commands: Commands) -> None:
    """Add the command."""
    transcribe = commands.add_parser("transcribe", help="write down what is said in recordings, with a speech bundle")
    transcribe.add_argument("bundle", type=Path, metavar="BUNDLE", help="file of a bundle that transcribes")
    transcribe.add_argument("files", type=Path, nargs="+", metavar="FILE", help="wav, flac, ogg, opus or mp3")
    add_json(transcribe)
    transcribe.set_defaults(command=_transcribe)


def _transcribe(options: argparse.Namespace) -> int:
    from edge_client.speech.transcription import Transcriber

    transcriber = Transcriber(options.bundle)
    texts = {str(path): transcriber(path) for path in options.files}
    if options.json:
        print_json(texts)
    else:
        print("\n".join(f"{path}: {text}" for path, text in texts.items()))
    return 0
