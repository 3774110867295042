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
from typing import Any

from edge_client.config import sections
from edge_client.config.hours import Hours
from edge_client.config.rules import MOST_RULES, RuleConfig
from edge_client.errors import ConfigError
from fleet_protocol.ground.toml_sections import TomlFile

# Environment variables that replace secrets of the file, by section and key.
_SECRETS = {("server", "enrol_token"): "AURICLE_ENROL_TOKEN", ("mqtt", "password"): "AURICLE_MQTT_PASSWORD"}
# What the events of [microphone] call it where there are others.
FIRST_INPUT = "microphone"
_MICROPHONES, _MOST_MICROPHONES = "microphones", 7
_RULES = "rules"


@dataclass(frozen=True, kw_only=True)
class Config:
    """A device's whole configuration; an optional section that the file lacks is None, or holds its defaults.

    Attributes:
        microphones: Further sources of sound, by the name that their events have (``[microphones.NAME]``).
        rules: What is done when something is heard (``[[rules]]``).
    """

    device: sections.DeviceConfig
    model: sections.ModelConfig
    server: sections.ServerConfig | None = None
    recordings: sections.RecordingsConfig = field(default_factory=sections.RecordingsConfig)
    microphone: sections.MicrophoneConfig | None = None
    microphones: Mapping[str, sections.MicrophoneConfig] = field(default_factory=dict)
    rules: tuple[RuleConfig, ...] = ()
    listen: sections.ListenConfig = field(default_factory=sections.ListenConfig)
    detector: sections.DetectorConfig = field(default_factory=sections.DetectorConfig)
    events: sections.EventsConfig = field(default_factory=sections.EventsConfig)
    mqtt: sections.MqttConfig | None = None
    home: sections.HomeConfig | None = None
    clips: sections.ClipsConfig = field(default_factory=sections.ClipsConfig)
    training: sections.TrainingConfig = field(default_factory=sections.TrainingConfig)
    learning: sections.LearningConfig = field(default_factory=sections.LearningConfig)
    privacy: sections.PrivacyConfig = field(default_factory=sections.PrivacyConfig)
    ui: sections.UiConfig = field(default_factory=sections.UiConfig)

    @property
    def inputs(self) -> dict[str, sections.MicrophoneConfig]:
        """All sources of sound by the name that their events have, which is "" where there is only one."""
        if self.microphone is None:
            return {}
        return {FIRST_INPUT if self.microphones else "": self.microphone, **self.microphones}

    def require_home_of(self, rule: RuleConfig, where: str = "") -> None:
        """Raise ConfigError, which begins with ``where``, if a rule is of the home, and there is none."""
        if rule.home and self.home is None:
            raise ConfigError(f"{where}the rule {rule.name!r} is of the home; add [home] name to the configuration")

    @property
    def hours(self) -> Hours:
        """When the device listens."""
        return Hours.read(self.listen.hours)

    @property
    def bundle(self) -> Path:
        """The bundle in use."""
        return self.model.bundle

    @property
    def clips_folder(self) -> Path:
        """Where taught clips are, as ``<label>/*.wav``."""
        return self.recordings.folder or self.device.state / "clips"


def load_config(path: Path) -> Config:
    """Read and check a file, to which its relative paths are relative. Raises ConfigError, which names the place."""
    file = TomlFile.read(path, "configuration", ConfigError)
    own = section_classes()
    file.require_known((*own, _MICROPHONES, _RULES))
    values = {
        item.name: file.section(item.name, own[item.name], file.document.get(item.name, {}))
        for item in dataclasses.fields(Config)
        if item.name in own and (item.name in file.document or item.default is item.default_factory)
    }
    microphones = _microphones(file, listens="microphone" in values)
    for (name, key), variable in _SECRETS.items():
        if values.get(name) is not None and variable in os.environ:
            values[name] = dataclasses.replace(values[name], **{key: os.environ[variable]})
    config = Config(**values, microphones=microphones, rules=_rules(file))
    for rule in config.rules:
        config.require_home_of(rule, f"{file.place(_RULES)}: ")
    if config.home is None:
        return config
    if config.mqtt is None:
        raise ConfigError(f"{file.place('home')}: [home] needs [mqtt]: its devices speak by a broker")
    # What one ear keeps to, so that what is promised holds for the home.
    rate = config.detector.false_accepts_per_hour / (config.home.ears or len(config.inputs) or 1)
    return dataclasses.replace(config, detector=dataclasses.replace(config.detector, false_accepts_per_hour=rate))


def _rules(file: TomlFile) -> tuple[RuleConfig, ...]:
    given, where = file.document.get(_RULES, []), file.place(_RULES)
    if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
        raise ConfigError(f"{where}: each rule is a section [[{_RULES}]]")
    if len(given) > MOST_RULES:
        raise ConfigError(f"{where}: {len(given)} rules; at most {MOST_RULES} are possible")
    rules: list[RuleConfig] = []
    for number, values in enumerate(given, start=1):
        rule: RuleConfig = file.section(_RULES, RuleConfig, values, (number,))
        if any(rule.name == other.name for other in rules):
            raise ConfigError(f"{file.place(_RULES, 'name', (number,))}: there is a rule {rule.name!r} already")
        rules.append(rule)
    return tuple(rules)


def _microphones(file: TomlFile, *, listens: bool) -> dict[str, sections.MicrophoneConfig]:
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
    return {
        name: file.section(f"{_MICROPHONES}.{name}", sections.MicrophoneConfig, values)
        for name, values in found.items()
    }


def section_classes() -> dict[str, type[Any]]:
    """Return the dataclass of every section that a configuration file may have."""
    hints = typing.get_type_hints(Config)
    del hints["microphones"], hints["rules"]
    return {
        name: next(part for part in typing.get_args(hint) if part is not type(None))
        if isinstance(hint, types.UnionType)
        else hint
        for name, hint in hints.items()
    }
