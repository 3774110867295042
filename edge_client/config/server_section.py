"""The section [server] of a configuration file, written by ``auricle-edge join`` and removed by ``leave``.

Everything else in the file stays as it is, comments included.
"""

from __future__ import annotations

import json
import stat
import tomllib
from pathlib import Path

from edge_client.errors import ConfigError
from fleet_protocol.atomic_files import write_durably

_HEADER = "[server]"


def write_server(path: Path, url: str, *, insecure_http: bool) -> None:
    """Name the aggregator in a configuration file; other keys of the section stay.

    Raises:
        ConfigError: the file is written in a way that this does not understand.
        OSError: the disk refuses.
    """
    lines = path.read_text(encoding="utf-8").splitlines()
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

    Raises:
        ConfigError: the file is written in a way that this does not understand.
        OSError: the disk refuses.
    """
    lines = path.read_text(encoding="utf-8").splitlines()
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
    """Write the lines, where what they say of the aggregator's address, None without the section, is what is meant."""
    text = "\n".join(lines) + "\n"
    try:
        found = tomllib.loads(text).get("server")
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: the section {_HEADER} could not be changed ({error}); change it by hand") from error
    if (None if found is None else found.get("url", "")) != url:
        raise ConfigError(f"{path}: the section {_HEADER} could not be changed; change it by hand")
    write_durably(path, text.encode(), mode=stat.S_IMODE(path.stat().st_mode))
