"""The device's configuration: one TOML file, checked in full before anything starts (docs/device.md lists the keys)."""

from __future__ import annotations

import dataclasses
import os
import re
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from edge_client.config.sections import (
    ClipsConfig,
    DetectorConfig,
    DeviceConfig,
    EventsConfig,
    LearningConfig,
    MetricsConfig,
    MicrophoneConfig,
    ModelConfig,
    RecordingsConfig,
    ServerConfig,
    TrainingConfig,
    UiConfig,
)
from edge_client.errors import ConfigError
from fleet_protocol.registry import Named, Registry, discover
from fleet_protocol.toml_sections import TomlFile

# Environment variable that replaces [server] enrol_token.
ENROL_VARIABLE = "AURICLE_ENROL_TOKEN"
# Where event sinks are found: the modules of a package that export SINK, and a group of entry points.
SINK_PACKAGE, SINK_GROUP = "edge_client.events", "auricle.event_sinks"
# What the events of [microphone] call it where there are others.
FIRST_INPUT = "microphone"
_MICROPHONES, _MOST_MICROPHONES = "microphones", 7


@runtime_checkable
class ConfiguredSink(Named, Protocol):
    """What the configuration sees of an event sink."""

    @property
    def section(self) -> type[Any] | None:
        """Dataclass of its section, which checks its own values; None for a sink without one."""

    @property
    def secrets(self) -> Mapping[str, str]:
        """Environment variables that replace keys of the section, by key."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """A device's whole configuration; an optional section that the file lacks is None, or holds its defaults.

    Attributes:
        microphones: Further sources of sound, by the name that their events have (``[microphones.NAME]``).
        sinks: The file's sections of event sinks, by name (``SinkKind.section``).
    """

    device: DeviceConfig
    model: ModelConfig
    server: ServerConfig | None = None
    recordings: RecordingsConfig = field(default_factory=RecordingsConfig)
    microphone: MicrophoneConfig | None = None
    microphones: Mapping[str, MicrophoneConfig] = field(default_factory=dict)
    detector: DetectorConfig = field(default_factory=DetectorConfig)
    events: EventsConfig = field(default_factory=EventsConfig)
    clips: ClipsConfig = field(default_factory=ClipsConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    learning: LearningConfig = field(default_factory=LearningConfig)
    metrics: MetricsConfig | None = None
    ui: UiConfig = field(default_factory=UiConfig)
    sinks: Mapping[str, Any] = field(default_factory=dict)

    @property
    def inputs(self) -> dict[str, MicrophoneConfig]:
        """All sources of sound by the name that their events have, which is "" where there is only one."""
        if self.microphone is None:
            return {}
        return {FIRST_INPUT if self.microphones else "": self.microphone, **self.microphones}

    @property
    def bundle(self) -> Path:
        """The bundle in use."""
        return self.model.bundle

    @property
    def clips_folder(self) -> Path:
        """Where taught clips are, as ``<label>/*.wav``."""
        return self.recordings.folder or self.device.state / "clips"


def load_config(path: Path) -> Config:
    """Read and check a configuration file, to which its relative paths are relative.

    Raises ConfigError, which names the file, the line, the key, the value and what is allowed.
    """
    file = TomlFile.read(path, "configuration", ConfigError)
    own, sinks = _own_sections(), _sink_sections()
    file.require_known((*own, _MICROPHONES, *sinks))
    values = {
        item.name: file.section(item.name, own[item.name], file.document.get(item.name, {}))
        for item in dataclasses.fields(Config)
        if item.name in own and (item.name in file.document or item.default is item.default_factory)
    }
    given = {name: file.section(name, sinks[name], file.document[name]) for name in sinks if name in file.document}
    microphones = _microphones(file, listens="microphone" in values)
    return _with_secrets(Config(**values, microphones=microphones, sinks=given))


def _microphones(file: TomlFile, *, listens: bool) -> dict[str, MicrophoneConfig]:
    """Return the sections ``[microphones.NAME]`` by name."""
    found = file.table(_MICROPHONES, file.document.get(_MICROPHONES, {}))
    where = file.place(_MICROPHONES)
    if found and not listens:
        raise ConfigError(f"{where}: [{_MICROPHONES}.{next(iter(found))}] is a further one; [microphone] is the first")
    if len(found) > _MOST_MICROPHONES:
        raise ConfigError(f"{where}: {len(found)} further microphones; at most {_MOST_MICROPHONES} are possible")
    for name in found:
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,40}", name) or name == FIRST_INPUT:
            raise ConfigError(
                f"{where}: [{_MICROPHONES}.{name}] needs another name: 1 to 40 of A-Z, a-z, 0-9, - and _, but not "
                f"{FIRST_INPUT!r}, which is [microphone]"
            )
    return {name: file.section(f"{_MICROPHONES}.{name}", MicrophoneConfig, values) for name, values in found.items()}


def section_classes() -> dict[str, type[Any]]:
    """Return the dataclass of every section that a configuration file may have.

    Raises ConfigError if an event sink wants a section of the device's own.
    """
    return _own_sections() | _sink_sections()


def _own_sections() -> dict[str, type[Any]]:
    hints = typing.get_type_hints(Config)
    del hints["sinks"], hints["microphones"]
    return {
        name: next(part for part in typing.get_args(hint) if part is not type(None))
        if isinstance(hint, types.UnionType)
        else hint
        for name, hint in hints.items()
    }


def _sinks() -> Registry[ConfiguredSink]:
    """Return what the event sinks say of their configuration; edge_client/events/publisher.py opens them."""
    return discover(SINK_PACKAGE, "SINK", SINK_GROUP, ConfiguredSink)


def _sink_sections() -> dict[str, type[Any]]:
    found = {kind.name: kind.section for kind in _sinks().values() if kind.section is not None}
    if taken := sorted(found.keys() & _own_sections().keys()):
        raise ConfigError(f"the event sink {taken[0]!r} needs another name: [{taken[0]}] is a section of the device")
    return found


def _with_secrets(config: Config) -> Config:
    server = config.server
    if server is not None:
        server = dataclasses.replace(server, enrol_token=os.environ.get(ENROL_VARIABLE, server.enrol_token))
    sinks = {}
    for name, section in config.sinks.items():
        secrets = _sinks()[name].secrets
        given = {key: os.environ[variable] for key, variable in secrets.items() if variable in os.environ}
        sinks[name] = dataclasses.replace(section, **given)
    return dataclasses.replace(config, server=server, sinks=sinks)
