"""The sections of a device's configuration. Each checks its own values; docs/device.md says what each key means."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from edge_client.config.hours import hours_problem
from edge_client.errors import ConfigError
from fleet_protocol.bundle.ready_bundles import BundlePath
from fleet_protocol.ground.addresses import address_problem, is_clear, without_password
from fleet_protocol.ground.toml_sections import RefusedValue


class RefusedValueError(RefusedValue, ConfigError):
    """A value is outside what a key allows."""


def require(allowed: bool, key: str, value: Any, rule: str) -> None:  # noqa: ANN401  (whatever the file holds)
    """Refuse a value by its key, by a RefusedValueError, unless it is allowed."""
    if not allowed:
        raise RefusedValueError(key, value, rule)


def require_between(section: object, low: float, high: float, *keys: str) -> None:
    """Refuse a section whose numbers of some keys are not from ``low`` to ``high``."""
    for key in keys:
        value = getattr(section, key)
        require(low <= value <= high, key, value, f"must be from {low:g} to {high:.6g}")


def _require_above_zero(section: object, *keys: str) -> None:
    for key in keys:
        require(getattr(section, key) > 0, key, getattr(section, key), "must be above 0")


@dataclass(frozen=True)
class DeviceConfig:
    """``[device]``."""

    name: str
    state: Path
    threads: int = 1
    seed: int = 0
    share_names: bool = False
    share_corrections: bool = True
    learn_discovered: bool = True

    def __post_init__(self) -> None:
        require(1 <= len(self.name) <= 100, "name", self.name, "must have 1 to 100 characters")
        require_between(self, 1, 64, "threads")
        require(self.seed >= 0, "seed", self.seed, "must not be negative")


@dataclass(frozen=True)
class ServerConfig:
    """``[server]``; without this section the device takes no part in rounds."""

    url: str = ""
    enrol_token: str = ""
    wait_s: float = 25.0
    longest_pause_s: float = 60.0
    insecure_http: bool = False

    def __post_init__(self) -> None:
        problem = address_problem(self.url)
        require(not problem, "url", without_password(self.url), problem)
        usable = self.enrol_token.isascii() and self.enrol_token.isprintable() and " " not in self.enrol_token
        rule = "must be printable ASCII without blanks; `auricle-aggregator tokens` prints it"
        require(usable, "enrol_token", "...", rule)  # no part of a secret appears in a log
        rule = "is plain HTTP, so others can read this device's secret; use https://, or add insecure_http = true"
        require(self.insecure_http or not is_clear(self.url), "url", self.url, rule)
        require_between(self, 0, 60, "wait_s")
        _require_above_zero(self, "longest_pause_s")


@dataclass(frozen=True)
class ModelConfig:
    """``[model]``."""

    bundle: BundlePath


@dataclass(frozen=True)
class RecordingsConfig:
    """``[recordings]``."""

    folder: Path | None = None
    per_round: tuple[int, int] = (200, 300)
    background: Path | None = None
    evaluation: Path | None = None

    def __post_init__(self) -> None:
        low, high = self.per_round
        require(1 <= low <= high, "per_round", self.per_round, "needs 1 <= smallest <= largest")

    def missing_folders(self) -> dict[str, Path]:
        """Return the folders that are not there, or that this user cannot see, by their keys."""
        named = {key: getattr(self, key) for key in ("folder", "background", "evaluation")}
        return {key: folder for key, folder in named.items() if folder is not None and not folder.is_dir()}


@dataclass(frozen=True)
class MicrophoneConfig:
    """``[microphone]``; without this section the device does not listen."""

    device: str = ""
    rate_hz: int = 0
    channel: int = 0
    silent_s: float = 10.0
    file: Path | None = None
    repeat: bool = True
    url: str = field(default="", repr=False)  # which may hold a password

    def __post_init__(self) -> None:
        possible = self.rate_hz == 0 or 4_000 <= self.rate_hz <= 768_000
        require(possible, "rate_hz", self.rate_hz, "must be 0 (automatic) or from 4000 to 768000")
        require(0 <= self.channel <= 64, "channel", self.channel, "must be 0 (the mean of all) or from 1 to 64")
        require(self.silent_s >= 1, "silent_s", self.silent_s, "must be at least 1")
        alone = self.file is None or not self.device
        require(alone, "file", self.file, "stands in the place of device; leave one of them out")
        if self.url:
            example = "rtsp://name:password@host/path; also rtsps://, http:// and https://"
            problem = url_problem(self.url, 1000, ("rtsp", "rtsps", "http", "https"), example)
            require(not problem, "url", "...", problem)  # no part of a secret appears in a log
            alone = not self.device and self.file is None
            require(alone, "url", "...", "stands in the place of device and file; leave one of them out")

    @property
    def source(self) -> Literal["arecord", "file", "stream"]:
        """What brings the sound."""
        return "stream" if self.url else "arecord" if self.file is None else "file"


def url_problem(url: str, longest: int, schemes: Collection[str], example: str) -> str:
    """Return why an address of one of some schemes cannot be used, "" where it can. It never quotes the address."""
    if len(url) > longest or not url.isascii() or not url.isprintable() or set(url) & set(' \\"<>`'):
        return f"must be printable ASCII without blanks, at most {longest} characters; write others like %20"
    try:
        parts = urlsplit(url)
        whole = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        whole = False
    return "" if whole and parts.scheme in schemes else f"must be like {example}"


@dataclass(frozen=True)
class ListenConfig:
    """``[listen]``: when the device listens."""

    hours: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        problem = hours_problem(self.hours)
        require(not problem, "hours", self.hours, problem)


THRESHOLD = 0.7
"""Averaged score from which a label counts as heard where it is not known how often other sounds reach it."""


@dataclass(frozen=True, kw_only=True)
class DetectorConfig:
    """``[detector]``. Without ``hop_s`` and ``average_s``, the front end decides (edge_client/detection/pace.py)."""

    hop_s: float | None = None
    average_s: float | None = None
    false_accepts_per_hour: float = 1.0
    threshold: float | None = None
    thresholds: dict[str, float] = field(default_factory=dict)
    waits: dict[str, list[str]] = field(default_factory=dict)
    refractory_s: float = 1.0
    over_after_s: float = 3.0
    energy_gate_db: float = -60.0
    unknown_threshold: float = 0.5
    unknown_onset_db: float = 10.0
    unknown_refractory_s: float = 10.0

    def __post_init__(self) -> None:
        if self.hop_s is not None:
            require_between(self, 0.02, 10, "hop_s")
        if self.average_s is not None:
            require_between(self, 0, 60, "average_s")
        rate = self.false_accepts_per_hour
        require(0 < rate <= 1000, "false_accepts_per_hour", rate, "must be above 0, at most 1000")
        allowed = self.threshold is None or 0 < self.threshold <= 1
        require(allowed, "threshold", self.threshold, "must be above 0, at most 1")
        for label, value in self.thresholds.items():
            require(0 < value <= 1, label, value, "must be above 0, at most 1")
        for label, others in self.waits.items():
            require(label not in others, label, others, "a label cannot wait for itself")
        require_between(self, 0, 3600, "refractory_s", "over_after_s")
        require_between(self, -120, 0, "energy_gate_db")
        require_between(self, 0, 1, "unknown_threshold")
        require_between(self, 0, 100, "unknown_onset_db")
        require_between(self, 0, 86_400, "unknown_refractory_s")

    def waiting_slots(self, labels: Sequence[str]) -> dict[int, list[int]]:
        """Return which labels wait while which others are heard, by their places; unknown ones are left out."""
        slots = {label: slot for slot, label in enumerate(labels)}
        found = {slots[label]: others for label, others in self.waits.items() if label in slots}
        return {slot: [slots[other] for other in others if other in slots] for slot, others in found.items()}


@dataclass(frozen=True)
class EventsConfig:
    """``[events]``: the journal, and standard output."""

    stdout: bool = True
    journal_days: float = 90.0
    journal_mb: float = 50.0

    def __post_init__(self) -> None:
        _require_above_zero(self, "journal_days")
        require(self.journal_mb >= 1, "journal_mb", self.journal_mb, "must be at least 1")


@dataclass(frozen=True, kw_only=True)
class MqttConfig:
    """``[mqtt]``; without this section nothing is published."""

    host: str
    port: int = 1883
    username: str = ""
    password: str = ""
    tls: bool = False
    ca: Path | None = None
    topic: str = "auricle"
    discovery: str = "homeassistant"
    birth: str = "homeassistant/status"

    def __post_init__(self) -> None:
        require_between(self, 1, 65_535, "port")
        require(bool(self.host), "host", self.host, "must name the broker")
        port = ":" in self.host and not _is_address(self.host.partition("%")[0])
        fits = not port and not set(self.host) & set(" /\t[]@")
        rule = "must be a name or an address alone, such as 192.0.2.7 or ::1: the port is [mqtt] port, TLS tls = true"
        require(fits, "host", self.host, rule)
        require(self.ca is None or self.tls, "ca", self.ca, "is for tls = true")
        for key in ("topic", "discovery", "birth"):
            value = getattr(self, key)
            require(not set(value) & set("+#\0"), key, value, "must not contain +, # or a zero byte")
        require(bool(self.topic), "topic", self.topic, "must not be empty")


@dataclass(frozen=True)
class HomeConfig:
    """``[home]``: several devices hear as one; without this section each hears for itself."""

    name: str
    window_s: float = 0.7
    ears: int | None = None

    def __post_init__(self) -> None:
        named = re.fullmatch(r"[A-Za-z0-9_-]{1,40}", self.name) is not None
        require(named, "name", self.name[:40], "must have 1 to 40 of A-Z, a-z, 0-9, - and _")
        require_between(self, 0.2, 3, "window_s")
        require(self.ears is None or 1 <= self.ears <= 64, "ears", self.ears, "must be from 1 to 64")


@dataclass(frozen=True)
class ClipsConfig:
    """``[clips]``: limits of what the device keeps of what it heard."""

    quota_mb: float = 500.0
    unknown_count: int = 50
    unknown_days: float = 7.0
    detected_count: int = 0
    detected_days: float = 7.0

    def __post_init__(self) -> None:
        _require_above_zero(self, "quota_mb", "unknown_days", "detected_days")
        require_between(self, 0, 10_000, "unknown_count", "detected_count")


@dataclass(frozen=True)
class TrainingConfig:
    """``[training]``."""

    max_temperature_c: float = 75.0
    deadline_s: float = 3600.0
    nice: int = 10
    teach_epochs: int = 60
    teach_learning_rate: float = 0.02

    def __post_init__(self) -> None:
        require_between(self, 0, 150, "max_temperature_c")
        _require_above_zero(self, "deadline_s")
        require_between(self, 0, 19, "nice")
        require_between(self, 1, 1000, "teach_epochs")
        rate = self.teach_learning_rate
        require(0 < rate <= 1, "teach_learning_rate", rate, "must be above 0, at most 1")


@dataclass(frozen=True)
class LearningConfig:
    """``[learning]``: what the device learns of what it hears, beside what its owner teaches."""

    room: bool = True
    questions: int = 3

    def __post_init__(self) -> None:
        require_between(self, 0, 20, "questions")


@dataclass(frozen=True)
class PrivacyConfig:
    """``[privacy]``: what the device sends its fleet."""

    only_sums: bool = False
    epsilon: float | None = None

    def __post_init__(self) -> None:
        if self.epsilon is not None:
            require(0.1 <= self.epsilon <= 100, "epsilon", self.epsilon, "must be from 0.1 to 100, or left out")


@dataclass(frozen=True)
class UiConfig:
    """``[ui]``: the owner's page, which `auricle-edge ui` serves."""

    host: str = "127.0.0.1"
    port: int = 8471
    names: tuple[str, ...] = ()
    insecure_http: bool = False
    proxy: str = ""
    certificate: Path | None = None
    key: Path | None = None

    def __post_init__(self) -> None:
        whole = (self.certificate is None) == (self.key is None)
        require(whole, "certificate", str(self.certificate), "needs key, and key needs it: two files (PEM)")
        require(bool(self.host), "host", self.host, "must not be empty")
        require_between(self, 0, 65_535, "port")
        for name in self.names:
            require(bool(name) and not set(name) & set("/: "), "names", self.names, "must be names without a port")
        if self.proxy:
            require(_is_address(self.proxy), "proxy", self.proxy, "must be an IP address, like 172.30.32.2")

    @property
    def is_local(self) -> bool:
        """Whether this machine alone reaches the page, but for a proxy on it."""
        try:
            return self.host == "localhost" or ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def own_tls(self) -> bool:
        """Whether the page speaks TLS with a certificate that it makes itself."""
        return not (self.is_local or self.proxy or self.insecure_http or self.certificate)

    @property
    def secure(self) -> bool:
        """Whether the page itself speaks TLS."""
        return self.own_tls or self.certificate is not None

    @property
    def address(self) -> str:
        """The page's address for other machines; "" where it has none, or none that is known here."""
        if self.proxy:
            return ""
        if self.names and not self.secure:
            return f"https://{self.names[0]}/"  # of a proxy with TLS
        if not self.port or self.is_local:
            return ""
        name = self.names[0] if self.names else self.host
        if _is_address(name):
            address = ipaddress.ip_address(name)
            name = f"{socket.gethostname()}.local" if address.is_unspecified else name
            name = f"[{name}]" if ":" in name else name
        return f"{'https' if self.secure else 'http'}://{name}:{self.port}/"


def _is_address(given: str) -> bool:
    try:
        return str(ipaddress.ip_address(given)) == given
    except ValueError:
        return False
