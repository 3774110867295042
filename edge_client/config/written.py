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
from fleet_protocol.ground.atomic_files import write_durably

_HEADER = "[server]"


@dataclass(frozen=True)
class Answers:
    """What a device's owner decided.

    ``state`` is the folder of what the device must not lose, as it is to stand in the file; ``microphone`` part of the
    sound device's name, "" for the system's default, None where it does not listen; ``played`` a file or a folder of
    recordings in the place of a microphone.
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

    Raises ConfigError as :func:`require_new`, or if an answer is no use; BundleError if no ready bundle has this name.
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
        text += _new_section("microphone", "Recordings in the place of a microphone.", "file", answers.played)
    elif answers.microphone is not None:
        meaning = 'Part of its name (`auricle-edge devices`); "": the system\'s default.'
        text += _new_section("microphone", meaning, "device", answers.microphone)
    if answers.recordings is not None:
        text += _new_section("recordings", "Clips to learn from, as LABEL/*.wav.", "folder", answers.recordings)
    return text


def _new_section(name: str, meaning: str, key: str, value: Path | str) -> str:
    return f"\n[{name}]\n# {meaning}\n{key} = {_quoted(str(value))}\n"


def _quoted(text: str) -> str:
    """Return a text as a TOML string: as in JSON, which differs in one character alone."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def write_server(path: Path, url: str, *, insecure_http: bool) -> None:
    """Name the aggregator; other keys of its section stay. Raises ConfigError as :func:`remove_server`."""
    lines = path.read_text(encoding="utf-8-sig").splitlines()
    keys = {"url": json.dumps(url)} | ({"insecure_http": "true"} if insecure_http else {})
    written = [f"{key} = {value}" for key, value in keys.items()]
    start, end = _section(lines)
    if start is None:
        lines += ["", _HEADER, *written]
    else:
        kept = [line for line in lines[start + 1 : end] if line.split("=")[0].strip() not in ("url", "insecure_http")]
        lines[start + 1 : end] = [*written, *kept]
    _replace(path, lines, url)


def remove_server(path: Path) -> None:
    """Turn [server] into comments. Raises ConfigError if the file is written in a way that this does not understand."""
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
