"""The sections of a device's configuration. Each checks its own values; docs/device.md says the same to people."""

from __future__ import annotations

import ipaddress
import urllib.parse
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from edge_client.errors import ConfigError
from fleet_protocol.addresses import is_clear
from fleet_protocol.ready_bundles import BundlePath
from fleet_protocol.toml_sections import RefusedValue


class RefusedValueError(RefusedValue, ConfigError):
    """A value is outside what a key allows."""


def require(allowed: bool, key: str, value: Any, rule: str) -> None:  # noqa: ANN401  (whatever the file holds)
    """Refuse a value by its key unless it is allowed.

    Raises:
        RefusedValueError: it is not.
    """
    if not allowed:
        raise RefusedValueError(key, value, rule)


def require_between(section: object, low: float, high: float, *keys: str) -> None:
    """Refuse a section whose numbers of some keys are not from ``low`` to ``high``."""
    for key in keys:
        value = getattr(section, key)
        require(low <= value <= high, key, value, f"must be from {low:g} to {high:.6g}")


def require_above_zero(section: object, *keys: str) -> None:
    """Refuse a section whose numbers of some keys are not above 0."""
    for key in keys:
        require(getattr(section, key) > 0, key, getattr(section, key), "must be above 0")


@dataclass(frozen=True)
class DeviceConfig:
    """``[device]``.

    Attributes:
        name: Name of the device, for people.
        state: Folder of everything that the device must not lose.
        threads: Number of threads of the TensorFlow Lite runtime.
        seed: Seed of everything random; devices differ by their identity all the same.
        share_names: Whether the owner's words for sounds travel to the aggregator.
        learn_discovered: Whether the device takes up classes that other devices discovered.
    """

    name: str
    state: Path
    threads: int = 1
    seed: int = 0
    share_names: bool = False
    learn_discovered: bool = True

    def __post_init__(self) -> None:
        require(1 <= len(self.name) <= 100, "name", self.name, "must have 1 to 100 characters")
        require_between(self, 1, 64, "threads")
        require(self.seed >= 0, "seed", self.seed, "must not be negative")


@dataclass(frozen=True)
class ServerConfig:
    """``[server]``; without this section the device takes no part in rounds.

    Attributes:
        url: Address of the aggregator.
        enrol_token: Token from ``auricle-aggregator tokens``; the environment's AURICLE_ENROL_TOKEN replaces it. A
            device that joined by an invitation needs none.
        wait_s: Longest time that one question for work stays open, s.
        longest_pause_s: Longest pause between attempts while the aggregator is away, s.
        insecure_http: Whether the device's secret may be sent where others can read it.
    """

    url: str
    enrol_token: str = ""
    wait_s: float = 25.0
    longest_pause_s: float = 60.0
    insecure_http: bool = False

    def __post_init__(self) -> None:
        require(self.url.startswith(("http://", "https://")), "url", self.url, "must start with http:// or https://")
        problem = _address_problem(self.url)
        require(not problem, "url", self.url, problem)
        usable = self.enrol_token.isascii() and self.enrol_token.isprintable() and " " not in self.enrol_token
        rule = "must be printable ASCII without blanks; `auricle-aggregator tokens` prints it"
        require(usable, "enrol_token", "...", rule)  # no part of a secret appears in a log
        require(
            self.insecure_http or not is_clear(self.url),
            "url",
            self.url,
            "is plain HTTP, so others can read this device's secret; use https://, or add insecure_http = true",
        )
        require_between(self, 0, 60, "wait_s")
        require_above_zero(self, "longest_pause_s")


def _address_problem(url: str) -> str:
    """Return what is wrong with an address beside its scheme; "" where nothing is."""
    try:
        found = urllib.parse.urlsplit(url)
        host, port = found.hostname, found.port
    except ValueError as error:  # the port is no number or above 65535, or the brackets of an IPv6 address do not match
        return f"is no address ({error}); write it like http://aggregator.local:8470"
    if not host or port == 0:
        return "must name a host, and a port from 1 to 65535 where it names one, like http://aggregator.local:8470"
    if found.query or found.fragment or not url.isprintable() or " " in url:
        return "must be a host and perhaps a path, without blanks, ? or #"
    return ""


@dataclass(frozen=True)
class ModelConfig:
    """``[model]``.

    Attributes:
        bundle: File of the bundle; the configuration may also name a ready one.
    """

    bundle: BundlePath


@dataclass(frozen=True)
class RecordingsConfig:
    """``[recordings]``.

    Attributes:
        folder: Folder of clips as ``<label>/*.wav|flac|ogg|opus|mp3``; a label's folder may appear at any time. None:
            ``clips`` in the state folder.
        per_round: Smallest and largest number of clips of a label in one round.
        background: Folder of noise recordings that training mixes in; None: no noise is added.
        evaluation: Folder of held-out clips, laid out like ``folder``, on which accuracy is reported.
    """

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
    """``[microphone]``; without this section the device does not listen.

    Attributes:
        device: Part of the sound device's name, because its number changes from boot to boot; "": the system's default.
        backend: Recorder: ``portaudio``, or ``arecord`` for boards where PortAudio hangs. ``file`` plays recordings in
            the place of a microphone.
        rate_hz: Sample rate of the recording, Hz; 0: the model's where the hardware offers it, else the nearest above.
        silent_s: Time without a frame, or of digital silence, after which the stream is opened anew, s.
        file: A recording, or a folder of recordings, that ``file`` plays in the order of their paths; None: none.
        repeat: Whether the recordings begin again after the last one; else silence follows.
    """

    device: str = ""
    backend: Literal["portaudio", "arecord", "file"] = "portaudio"
    rate_hz: int = 0
    silent_s: float = 10.0
    file: Path | None = None
    repeat: bool = True

    def __post_init__(self) -> None:
        require(
            self.rate_hz == 0 or 4_000 <= self.rate_hz <= 768_000,
            "rate_hz",
            self.rate_hz,
            "must be 0 (automatic) or from 4000 to 768000",
        )
        require(self.silent_s >= 1, "silent_s", self.silent_s, "must be at least 1")
        named = self.backend != "file" or self.file is not None
        require(named, "backend", self.backend, "needs the key file too, a recording or a folder of recordings")


THRESHOLD = 0.7
"""Averaged score from which a label counts as heard where it is not known how often other sounds reach it."""


@dataclass(frozen=True, kw_only=True)
class DetectorConfig:
    """``[detector]``.

    Attributes:
        hop_s: Time between two windows, in whole frames, s; a window is as long as the model's clips. None: 0.25, or
            0.5 with a front end for everyday sounds.
        average_s: Time over which scores are averaged, s. None: 0.5, or 1 with such a front end.
        false_accepts_per_hour: Rate that every label's threshold is chosen for, where the bundle's front end is
            pretrained and the owner gives no threshold.
        threshold: Averaged score from which a label counts as heard, 0..1; None: see :data:`THRESHOLD`.
        thresholds: The same for single labels, ``[detector.thresholds]``.
        refractory_s: Time after an event in which the same label makes no other, s.
        energy_gate_db: Level below which a window is not classified, dB full scale.
        unknown_threshold: Score below which every averaged score of an unknown sound stays, 0..1; 0: none is unknown.
        unknown_onset_db: Level above the background at which a sound begins, dB.
        unknown_refractory_s: Time after an unknown sound in which there is no other, s.
    """

    hop_s: float | None = None
    average_s: float | None = None
    false_accepts_per_hour: float = 1.0
    threshold: float | None = None
    thresholds: dict[str, float] = field(default_factory=dict)
    refractory_s: float = 1.0
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
        require_between(self, 0, 3600, "refractory_s")
        require_between(self, -120, 0, "energy_gate_db")
        require_between(self, 0, 1, "unknown_threshold")
        require_between(self, 0, 100, "unknown_onset_db")
        require_between(self, 0, 86_400, "unknown_refractory_s")


@dataclass(frozen=True)
class EventsConfig:
    """``[events]``: where events go besides the journal.

    Attributes:
        stdout: Whether every event is a line of JSON on standard output.
        command: Program and arguments, run for every event with the event as JSON on its standard input.
        command_timeout_s: Time after which that program is killed, s.
        journal_days: Age at which the journal deletes an event, days.
        journal_mb: Largest size of the journal, 10^6 bytes.
    """

    stdout: bool = True
    command: tuple[str, ...] = ()
    command_timeout_s: float = 10.0
    journal_days: float = 90.0
    journal_mb: float = 50.0

    def __post_init__(self) -> None:
        require_above_zero(self, "command_timeout_s", "journal_days")
        require(self.journal_mb >= 1, "journal_mb", self.journal_mb, "must be at least 1")


@dataclass(frozen=True)
class ClipsConfig:
    """``[clips]``: limits of what the device keeps of what it heard.

    Attributes:
        quota_mb: Largest size of all taught clips together, 10^6 bytes; more are refused.
        expire_days: Age at which taught clips are deleted, days; 0: never.
        unknown_count: Number of unknown sounds that are kept for their owner to name; 0: none.
        unknown_days: Age at which unknown sounds are deleted, days.
        detected_count: Number of detected sounds that are kept for their owner to confirm or correct; 0: none.
        detected_days: Age at which detected sounds are deleted, days.
    """

    quota_mb: float = 500.0
    expire_days: float = 0.0
    unknown_count: int = 50
    unknown_days: float = 7.0
    detected_count: int = 0
    detected_days: float = 7.0

    def __post_init__(self) -> None:
        require_above_zero(self, "quota_mb", "unknown_days", "detected_days")
        require(self.expire_days >= 0, "expire_days", self.expire_days, "must not be negative")
        require_between(self, 0, 10_000, "unknown_count", "detected_count")


@dataclass(frozen=True)
class MetricsConfig:
    """``[metrics]``; with this section the daemon answers Prometheus at ``/metrics``.

    Attributes:
        address: Address of this machine at which it answers; whoever reaches it may read, so the default is this
            machine alone.
        port: Port; 0: one that is free.
    """

    address: str = "127.0.0.1"
    port: int = 9471

    def __post_init__(self) -> None:
        require_between(self, 0, 65_535, "port")


@dataclass(frozen=True)
class TrainingConfig:
    """``[training]``.

    Attributes:
        window: Times of day between which rounds are trained, like ``22:00-06:00``; "": always. What the owner
            teaches is learned at once.
        max_temperature_c: Temperature of the processor above which no training begins, degrees Celsius; 0: no limit.
        deadline_s: Time after which a training process is killed, s.
        nice: Priority of the training process, 0 to 19.
        teach_epochs: Passes over the clips when the owner taught something.
        teach_learning_rate: Step size of these passes.
    """

    window: str = ""
    max_temperature_c: float = 75.0
    deadline_s: float = 3600.0
    nice: int = 10
    teach_epochs: int = 60
    teach_learning_rate: float = 0.02

    def __post_init__(self) -> None:
        window_minutes(self.window)
        require_between(self, 0, 150, "max_temperature_c")
        require_above_zero(self, "deadline_s")
        require_between(self, 0, 19, "nice")
        require_between(self, 1, 1000, "teach_epochs")
        rate = self.teach_learning_rate
        require(0 < rate <= 1, "teach_learning_rate", rate, "must be above 0, at most 1")


@dataclass(frozen=True)
class UiConfig:
    """``[ui]``: the owner's page, which `auricle-edge ui` serves.

    Attributes:
        host: Address on which it listens.
        port: Its port; 0: any that is free.
        names: Further names under which browsers may open it, as behind a proxy; they make a sign-in necessary.
        insecure_http: Whether it may listen beyond this machine, where others can read what is sent.
        proxy: Address of a proxy that signs people in, such as Home Assistant's; nobody else may open the page then.
            "" for none.
    """

    host: str = "127.0.0.1"
    port: int = 8471
    names: tuple[str, ...] = ()
    insecure_http: bool = False
    proxy: str = ""

    def __post_init__(self) -> None:
        require(bool(self.host), "host", self.host, "must not be empty")
        require_between(self, 0, 65_535, "port")
        for name in self.names:
            require(bool(name) and not set(name) & set("/: "), "names", self.names, "must be names without a port")
        if self.proxy:
            require(_is_address(self.proxy), "proxy", self.proxy, "must be an IP address, like 172.30.32.2")


def _is_address(given: str) -> bool:
    try:
        return str(ipaddress.ip_address(given)) == given
    except ValueError:
        return False


def window_minutes(window: str) -> tuple[int, int] | None:
    """Return the minutes of the day at which a training window begins and ends; None where it is always open.

    Raises:
        ConfigError: it is not written like ``22:00-06:00``.
    """
    if not window:
        return None
    ends = []
    for part in window.split("-"):
        hours, colon, minutes = part.strip().partition(":")
        proper = bool(colon) and hours.isdecimal() and minutes.isdecimal()
        require(proper and int(hours) < 24 and int(minutes) < 60, "window", window, "must be written like 22:00-06:00")
        ends.append(60 * int(hours) + int(minutes))
    require(len(ends) == 2 and ends[0] != ends[1], "window", window, "must be written like 22:00-06:00")
    return ends[0], ends[1]
