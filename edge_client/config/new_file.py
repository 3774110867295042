"""A configuration file for a device that has none, as ``auricle-edge init`` writes it."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path

from edge_client.config import load_config
from edge_client.errors import ConfigError
from fleet_protocol.atomic_files import write_durably


@dataclass(frozen=True)
class Answers:
    """What a device's owner decided.

    Attributes:
        name: Name of the device, for people.
        state: Folder of what the device must not lose, as the file shall say it.
        bundle: Name of a ready bundle, or the path of a file.
        microphone: Part of the sound device's name, "" for the system's default; None: it does not listen.
        backend: Program that records.
        played: Recordings in the place of a microphone, a file or a folder; None: there is a microphone, or none.
        share_names: Whether the owner's words for sounds travel to the aggregator.
        recordings: Folder of clips to learn from, as ``<label>/*.wav``; None: what the owner teaches.
    """

    name: str
    state: str
    bundle: str
    microphone: str | None
    backend: str = "portaudio"
    played: Path | None = None
    share_names: bool = False
    recordings: Path | None = None


def require_new(path: Path, *, replace: bool) -> None:
    """Check that no configuration would be lost.

    Raises:
        ConfigError: there is a file already and it must stay.
    """
    if path.exists() and not replace:
        raise ConfigError(f"{path} is there already; --force replaces it, --config FILE writes another one")


def write_new(path: Path, answers: Answers, *, replace: bool) -> None:
    """Write a configuration file, once it is sure that the device can use it.

    Raises:
        ConfigError: there is a file already and it must stay, or an answer cannot be used.
        BundleError: no ready bundle has this name.
        OSError: the disk refuses.
    """
    require_new(path, replace=replace)
    text = _text(answers)
    with tempfile.TemporaryDirectory() as folder:  # nobody resolves relative paths yet
        trial = Path(folder) / path.name
        trial.write_text(text, encoding="utf-8")
        load_config(trial)
    # It holds no secret; the daemon's user has to read it.
    write_durably(path, text.encode(), mode=0o644)


def _text(answers: Answers) -> str:
    lines = [
        "# Written by `auricle-edge init`. docs/device.md lists all keys; without [server] the device learns alone.",
        "[device]",
        f"name = {_quoted(answers.name)}",
        "# What the device must not lose.",
        f"state = {_quoted(answers.state)}",
        "# Whether your words for sounds travel to the aggregator of a fleet.",
        f"share_names = {str(answers.share_names).lower()}",
        "",
        "[model]",
        f"bundle = {_quoted(answers.bundle)}",
    ]
    if answers.played is not None:
        lines += [
            "",
            "[microphone]",
            "# Recordings in the place of a microphone.",
            'backend = "file"',
            f"file = {_quoted(str(answers.played))}",
        ]
    elif answers.microphone is not None:
        lines += [
            "",
            "[microphone]",
            '# Part of its name (`auricle-edge devices`); "": the system\'s default.',
            f"device = {_quoted(answers.microphone)}",
            f"backend = {_quoted(answers.backend)}",
        ]
    if answers.recordings is not None:
        lines += [
            "",
            "[recordings]",
            "# Clips to learn from, as LABEL/*.wav.",
            f"folder = {_quoted(str(answers.recordings))}",
        ]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """Return a text as a TOML string: as in JSON, which differs in one character alone."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
