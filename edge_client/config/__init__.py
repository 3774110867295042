"""The device's configuration: one TOML file, checked in full before anything starts (docs/device.md lists the keys)."""

from __future__ import annotations

import dataclasses
import os
import tomllib
import types
import typing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dacite

from edge_client.config.sections import (
    ClipsConfig,
    DetectorConfig,
    DeviceConfig,
    EventsConfig,
    MicrophoneConfig,
    ModelConfig,
    MqttConfig,
    RecordingsConfig,
    RefusedValueError,
    ServerConfig,
    TrainingConfig,
)
from edge_client.config.toml_lines import place
from edge_client.errors import ConfigError


@dataclass(frozen=True)
class Config:
    """A device's whole configuration; an optional section that the file lacks is None, or holds its defaults."""

    device: DeviceConfig
    model: ModelConfig
    server: ServerConfig | None = None
    recordings: RecordingsConfig = field(default_factory=RecordingsConfig)
    microphone: MicrophoneConfig | None = None
    detector: DetectorConfig = field(default_factory=DetectorConfig)
    events: EventsConfig = field(default_factory=EventsConfig)
    mqtt: MqttConfig | None = None
    clips: ClipsConfig = field(default_factory=ClipsConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)

    @property
    def clips_folder(self) -> Path:
        """Where taught clips are, as ``<label>/*.wav``."""
        return self.recordings.folder or self.device.state / "clips"


def load_config(path: Path) -> Config:
    """Read and check a configuration file. Relative paths in it are relative to the file.

    Raises:
        ConfigError: naming the file, the line, the key, the value and what is allowed.
    """
    try:
        text = path.read_text(encoding="utf-8")
        document = tomllib.loads(text)
    except OSError as error:
        raise ConfigError(f"cannot read the configuration {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from error
    sections = _sections()
    for name in document:
        if name not in sections:
            raise ConfigError(f"{place(path, text, name)}: unknown section [{name}]; known: {', '.join(sections)}")
    values = {
        item.name: _section(path, text, item.name, sections[item.name], document.get(item.name, {}))
        for item in dataclasses.fields(Config)
        if item.name in document or item.default is item.default_factory
    }
    return _with_secrets(Config(**values))


def _sections() -> dict[str, type[Any]]:
    """Return the dataclass of every section."""
    hints = typing.get_type_hints(Config)
    return {
        name: next(part for part in typing.get_args(hint) if part is not type(None))
        if isinstance(hint, types.UnionType)
        else hint
        for name, hint in hints.items()
    }


def _section(path: Path, text: str, name: str, kind: type[Any], values: Any) -> Any:  # noqa: ANN401  (a section's class)
    """Build one section.

    Raises:
        ConfigError: naming the file, the line, the key, the value and what is allowed.
    """
    if not isinstance(values, dict):
        raise ConfigError(f"{place(path, text, None, name)}: [{name}] must be a section of keys, not {values!r}")
    known = [item.name for item in dataclasses.fields(kind)]
    for key in values:
        if key not in known:
            where = place(path, text, name, key)
            raise ConfigError(f"{where}: unknown key {key!r} in [{name}]; known: {', '.join(known)}")
    folder = path.resolve().parent
    rules = dacite.Config(
        type_hooks={Path: lambda given: folder / Path(given).expanduser(), float: _number}, cast=[tuple]
    )
    try:
        return dacite.from_dict(kind, values, rules)
    except RefusedValueError as error:
        raise ConfigError(f"{place(path, text, name, error.key)}: [{name}] {error}") from error
    except dacite.DaciteFieldError as error:
        key = (error.field_path or "").split(".")[0]
        where = place(path, text, name, key)
        if isinstance(error, dacite.MissingValueError):
            raise ConfigError(f"{where}: [{name}] needs the key {key!r}") from error
        raise ConfigError(f"{where}: [{name}] {key} = {values.get(key)!r} is of the wrong type: {error}") from error
    except (dacite.DaciteError, TypeError, ValueError) as error:
        where, given = place(path, text, name), ", ".join(f"{key} = {value!r}" for key, value in values.items())
        raise ConfigError(f"{where}: [{name}] {error} ({given})") from error


def _number(value: Any) -> Any:  # noqa: ANN401  (what TOML holds; dacite checks the result)
    return float(value) if type(value) is int else value


def _with_secrets(config: Config) -> Config:
    """Take secrets from the environment, where they are given."""
    server, mqtt = config.server, config.mqtt
    if server is not None:
        token = os.environ.get("AURICLE_ENROL_TOKEN", server.enrol_token)
        server = dataclasses.replace(server, enrol_token=token)
    if mqtt is not None:
        mqtt = dataclasses.replace(mqtt, password=os.environ.get("AURICLE_MQTT_PASSWORD", mqtt.password))
    return dataclasses.replace(config, server=server, mqtt=mqtt)
