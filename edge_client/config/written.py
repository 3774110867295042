"""What commands write of a configuration: a new file (``init``), and the section [server] (``join`` and ``leave``)."""

from __future__ import annotations

import json
import stat
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

from edge_client.config import load_config
from edge_client.errors import ConfigError
from fleet_protocol.atomic_files import write_durably

_HEADER = "[server]"


@dataclass(frozen=True)
class Answers:
    """What a device's owner decided.

    Attributes:
        state: Folder of what the device must not lose, as it is to stand in the file.
        microphone: Part of the sound device's name, "" for the system's default; None: it does not listen.
        played: Recordings in the place of a microphone, a file or a folder; None: there is a microphone, or none.
    """

    name: str
    state: str
    bundle: str
    microphone: str | None
    played: Path | None = None
    share_names: bool = False
    recordings: Path | None = None


def require_new(path: Path, *, replace: bool) -> None:
    """Check that no configuration would be lost. Raises ConfigError if there is a file already and it must stay."""
    if path.exists() and not replace:
        raise ConfigError(f"{path} is there already; --force replaces it, --config FILE writes another one")


def write_new(path: Path, answers: Answers, *, replace: bool) -> None:
    """Write a configuration file, once it is sure that the device can use it.

    Raises ConfigError if there is a file already and it must stay, or an answer cannot be used; BundleError if no ready
    bundle has this name.
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
    text = f"""\
# Written by `auricle-edge init`. docs/device.md lists all keys; without [server] the device learns alone.
[device]
name = {_quoted(answers.name)}
# What the device must not lose.
state = {_quoted(answers.state)}
# Whether your words for sounds travel to the aggregator of a fleet.
share_names = {str(answers.share_names).lower()}

[model]
bundle = {_quoted(answers.bundle)}
"""
    if answers.played is not None:
        text += f"""
[microphone]
# Recordings in the place of a microphone.
file = {_quoted(str(answers.played))}
"""
    elif answers.microphone is not None:
        text += f"""
[microphone]
# Part of its name (`auricle-edge devices`); "": the system's default.
device = {_quoted(answers.microphone)}
"""
    if answers.recordings is not None:
        text += f"""
[recordings]
# Clips to learn from, as LABEL/*.wav.
folder = {_quoted(str(answers.recordings))}
"""
    return text


def _quoted(text: str) -> str:
    """Return a text as a TOML string: as in JSON, which differs in one character alone."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def write_server(path: Path, url: str, *, insecure_http: bool) -> None:
    """Name the aggregator's address in a configuration file; other keys of the section stay.

    Raises ConfigError if the file is written in a way that this does not understand.
    """
    lines = path.read_text(encoding="utf-8-sig").splitlines()
    keys = {"url": json.dumps(url)} | ({"insecure_http": "true"} if insecure_http else {})
    written = [f"{key} = {value}" for key, value in keys.items()]
    start, end = _section(lines)
    if start is None:
        lines += ["", _HEADER, *written]
    else:
        kept = [line for line in lines[start + 1 : end] if _key(line) not in ("url", "insecure_http")]
        lines[start + 1 : end] = [*written, *kept]
    _replace(path, lines, url)


def remove_server(path: Path) -> None:
    """Turn the section into comments.

    Raises ConfigError if the file is written in a way that this does not understand.
    """
    lines = path.read_text(encoding="utf-8-sig").splitlines()
    start, end = _section(lines)
    if start is not None:
        lines[start:end] = [f"#{line}" if line and not line.startswith("#") else line for line in lines[start:end]]
    _replace(path, lines, None)


def _section(lines: list[str]) -> tuple[int | None, int]:
    """Return the line of the section's header and the one behind its last; None where there is none."""
    start = next((number for number, line in enumerate(lines) if line.split("#")[0].strip() == _HEADER), None)
    if start is None:
        return None, len(lines)
    behind = (number for number, line in enumerate(lines) if number > start and line.lstrip().startswith("["))
    end = next(behind, len(lines))
    while end > start + 1 and (not lines[end - 1].strip() or lines[end - 1].startswith("#")):
        end -= 1  # comments above the next header belong to that one
    return start, end


def _key(line: str) -> str:
    return line.partition("=")[0].strip()


def _replace(path: Path, lines: list[str], url: str | None) -> None:
    """Write the lines, where the aggregator's address, None without the section, is what is meant."""
    text = "\n".join(lines) + "\n"
    try:
        found = tomllib.loads(text).get("server")
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: the section {_HEADER} could not be changed ({error}); change it by hand") from error
    if (None if found is None else found.get("url")) != url:
        raise ConfigError(f"{path}: the section {_HEADER} could not be changed; change it by hand")
    write_durably(path, text.encode(), mode=stat.S_IMODE(path.stat().st_mode))
