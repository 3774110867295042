"""The device's configuration: one TOML file, checked in full before anything starts (docs/device.md lists the keys)."""

from __future__ import annotations

import dataclasses
import os
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dacite

from edge_client.errors import ConfigError


@dataclass(frozen=True)
class DeviceConfig:
    """``[device]``.

    Attributes:
        name: for people.
        state: folder of everything that the device must not lose.
        threads: of the TensorFlow Lite runtime.
        seed: of everything random; devices differ by their identity all the same.
        share_names: whether the owner's words for new sounds travel to the aggregator.
        learn_discovered: whether the device takes up classes that other devices discovered.
    """

    name: str
    state: Path
    threads: int = 1
    seed: int = 0
    share_names: bool = True
    learn_discovered: bool = True


@dataclass(frozen=True)
class ServerConfig:
    """``[server]``.

    Attributes:
        url: the aggregator's address.
        enrol_token: from ``auricle-aggregator tokens``; the environment's AURICLE_ENROL_TOKEN goes before it.
        wait_s: how long one question for work may stay open, in seconds.
        longest_pause_s: limit of the growing pauses between attempts while the aggregator is away, in seconds.
    """

    url: str
    enrol_token: str = ""
    wait_s: float = 25.0
    longest_pause_s: float = 60.0


@dataclass(frozen=True)
class ModelConfig:
    """``[model]``: ``bundle`` is the file that ``auricle-export build`` wrote."""

    bundle: Path


@dataclass(frozen=True)
class RecordingsConfig:
    """``[recordings]``.

    Attributes:
        folder: clips as ``<label>/*.wav|flac|ogg``; a label's folder may appear at any time.
        per_round: smallest and largest number of clips of a label in one round.
        background: folder of noise recordings to mix in while training; none: no noise is added.
        evaluation: folder of held-out clips, laid out like ``folder``, on which accuracy is reported.
    """

    folder: Path
    per_round: tuple[int, int] = (200, 300)
    background: Path | None = None
    evaluation: Path | None = None


@dataclass(frozen=True)
class Config:
    """A device's whole configuration."""

    device: DeviceConfig
    server: ServerConfig
    model: ModelConfig
    recordings: RecordingsConfig


def load_config(path: Path) -> Config:
    """Read and check a configuration file. Relative paths in it are relative to the file.

    Raises:
        ConfigError: naming the file, the key, the value and what is allowed.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read the configuration {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from error
    _refuse_unknown(path, document)
    folder = path.resolve().parent
    rules = dacite.Config(
        type_hooks={Path: lambda text: folder / Path(text).expanduser(), float: _number}, cast=[tuple]
    )
    try:
        config = dacite.from_dict(Config, document, rules)
    except (dacite.DaciteError, TypeError, ValueError) as error:
        raise ConfigError(f"{path}: {error}") from error
    token = os.environ.get("AURICLE_ENROL_TOKEN", config.server.enrol_token)
    config = dataclasses.replace(config, server=dataclasses.replace(config.server, enrol_token=token))
    _check(path, config)
    return config


def _number(value: Any) -> Any:  # noqa: ANN401  (what TOML holds; dacite checks the result)
    return float(value) if type(value) is int else value


def _refuse_unknown(path: Path, document: dict[str, Any]) -> None:
    sections = {item.name: item.type for item in dataclasses.fields(Config)}
    known = {
        "device": DeviceConfig,
        "server": ServerConfig,
        "model": ModelConfig,
        "recordings": RecordingsConfig,
    }
    for section, values in document.items():
        if section not in sections:
            raise ConfigError(f"{path}: unknown section [{section}]; known: {', '.join(sections)}")
        if not isinstance(values, dict):
            raise ConfigError(f"{path}: [{section}] must be a section of keys, not {values!r}")
        keys = [item.name for item in dataclasses.fields(known[section])]
        for key in values:
            if key not in keys:
                raise ConfigError(f"{path}: unknown key {key!r} in [{section}]; known: {', '.join(keys)}")


def _check(path: Path, config: Config) -> None:
    low, high = config.recordings.per_round
    problems = {
        f"recordings.per_round = [{low}, {high}]: needs 1 <= smallest <= largest": not 1 <= low <= high,
        f"server.url = {config.server.url!r}: must start with http:// or https://": not config.server.url.startswith(
            ("http://", "https://")
        ),
        f"device.threads = {config.device.threads}: must be from 1 to 64": not 1 <= config.device.threads <= 64,
        f"device.seed = {config.device.seed}: must not be negative": config.device.seed < 0,
        f"device.name = {config.device.name!r}: must have 1 to 100 characters": not 1 <= len(config.device.name) <= 100,
        f"server.wait_s = {config.server.wait_s}: must be from 0 to 60": not 0 <= config.server.wait_s <= 60,
        f"server.longest_pause_s = {config.server.longest_pause_s}: must be above 0": not (
            config.server.longest_pause_s > 0
        ),
    }
    for problem, found in problems.items():
        if found:
            raise ConfigError(f"{path}: {problem}")
