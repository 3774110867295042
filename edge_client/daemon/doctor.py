"""What keeps a device from listening, learning or taking part: a check for each, with the way out (``doctor``)."""

from __future__ import annotations

import os
import platform
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from edge_client.audio.level import TOO_QUIET_DB, rms_dbfs
from edge_client.capture.microphone import Microphone
from edge_client.config import FIRST_INPUT, Config, load_config
from edge_client.config.location import find_config
from edge_client.config.sections import MicrophoneConfig
from edge_client.daemon.status import STARTING_S, listening_name, read_status, why_forgetful
from edge_client.fleet.enrolment import client_of_member
from edge_client.model.interpreter import describe_runtime
from edge_client.model.runtime import ModelRuntime
from edge_client.model.self_test import check_runtime
from edge_client.pauses import Pauses
from edge_client.storage.device_state import DeviceState
from fleet_protocol.bundle.bundle_file import read_bundle
from fleet_protocol.errors import AuricleError, CertificateError, LinkError, RefusedError
from fleet_protocol.ground.command_line import version

Verdict = Literal["ok", "warning", "problem"]

_LISTEN_S, _BROKER_S = 2.0, 5.0
_LEAST_FREE_MB, _LITTLE_FREE_MB = 50.0, 500.0
# Certificates of this release are younger; a board without a clock of its own starts in 1970.
_RELEASED = 1_735_689_600.0
_CLOCK_S = 60.0
_MB = 1e6


Result = tuple[Verdict, str] | tuple[Verdict, str, str]
"""Of a finding what is behind ``check``."""


@dataclass(frozen=True)
class Finding:
    """What one check found. A warning keeps nothing from working now; ``way_out`` is "" where none is needed."""

    check: str
    verdict: Verdict
    found: str
    way_out: str = ""


def examine(given: Path | None) -> Iterator[Finding]:
    """Check a device, one thing after the other; what an earlier finding makes impossible is left out."""
    yield Finding("versions", *_versions())
    config_path = None
    try:
        config_path = find_config(given)
        config = load_config(config_path)
    except AuricleError as error:
        yield Finding("configuration", "problem", str(error), "correct it" if config_path else "see the message")
        return
    yield Finding("configuration", "ok", str(config_path))
    for check, find in _checks(config).items():
        try:
            yield Finding(check, *find(config))
        except (AuricleError, OSError) as error:  # what a check could not do carries its own way out
            yield Finding(check, "problem", str(error), "see the message")


def _checks(config: Config) -> dict[str, Callable[[Config], Result]]:
    inputs = {
        "microphone" if name in ("", FIRST_INPUT) else f"microphone {name}": partial(_microphone, name)
        for name in config.inputs
    }
    return {
        "permission": _permission,
        "clock": _clock,
        "disk": _disk,
        "bundle": _bundle,
        "recordings": _recordings,
        **(inputs or {"microphone": lambda _: ("ok", "none: without [microphone] this device does not listen")}),
        **({"mqtt": _mqtt} if config.microphone and config.mqtt else {}),
        "aggregator": _aggregator,
    }


def _versions() -> Result:
    found = f"auricle {version()}, Python {platform.python_version()}, {platform.machine()}"
    try:
        check_runtime()
        return "ok", f"{found}, {describe_runtime()}"
    except AuricleError as error:
        return "problem", f"{found}: {error}", "see the message"


def _permission(config: Config) -> Result:
    folder = config.device.state
    existing = _existing(folder)
    if forgets := why_forgetful(existing):
        return "problem", forgets, "see the message"
    if os.access(existing, os.R_OK | os.W_OK | os.X_OK):
        return "ok", f"this user may write {folder}"
    owner = existing.owner()
    found = f"this user may not write {existing}, which is {owner}'s"
    return "problem", found, f"sudo -u {owner} auricle-edge doctor"


def _existing(folder: Path) -> Path:
    """Return a folder, or the nearest above it that is there and can be read."""
    for place in (folder, *folder.parents):
        try:
            place.stat()
        except (PermissionError, FileNotFoundError):
            continue
        return place
    return Path("/")


def _bundle(config: Config) -> Result:
    model = ModelRuntime.open(config.bundle, config.device.threads)
    saved = DeviceState(config.device.state).model.load(config.bundle)
    labels = saved.progress.label_map.labels
    return "ok", f"{model.manifest.architecture}: {', '.join(labels) or 'no labels yet'}"


def _disk(config: Config) -> Result:
    free = shutil.disk_usage(_existing(config.device.state)).free / _MB
    found = f"{free:.0f} MB are free in {config.device.state}"
    if free >= _LITTLE_FREE_MB:
        return "ok", found
    way_out = "remove what is not needed, or lower [clips] quota_mb and [events] journal_mb"
    return "problem" if free < _LEAST_FREE_MB else "warning", found, way_out


def _recordings(config: Config) -> Result:
    for key, folder in config.recordings.missing_folders().items():
        return "problem", f"[recordings] {key} = {folder} is no folder", "correct the path, or mount the disk"
    return "ok", str(config.clips_folder)


def _microphone(name: str, config: Config) -> Result:
    """Check one input; ``name``: as in :attr:`Config.inputs`."""
    microphone, state = config.inputs[name], DeviceState(config.device.state)
    if (pause := Pauses(state.database, config.hours).current()) is not None:
        return "warning", f"not looked at: the device is paused {pause.words}", "auricle-edge resume"
    if state.locked("daemon"):
        return _daemons_microphone(name, microphone, read_status(state))
    rate_hz = read_bundle(config.bundle).manifest.feature_settings.sample_rate_hz
    with closing(Microphone(microphone, rate_hz)) as source:
        if microphone.source == "file":
            return "ok", f"none: it plays recordings, {source.device}"
        level = rms_dbfs(source.read(round(_LISTEN_S * source.sample_rate_hz), 2 * _LISTEN_S))
    return _judged_level(f"{source.device} at {source.device_rate_hz} Hz, {level:.0f} dB", level, microphone.source)


def _daemons_microphone(name: str, microphone: MicrophoneConfig, status: dict[str, Any]) -> Result:
    """Judge by what the daemon, which has the microphone, says of it."""
    listening = status.get("inputs", {}).get(name)
    if not listening or not listening["frames"]:
        loop = status.get("loops", {}).get(listening_name(name), {})
        error = (listening or {}).get("trouble") or loop.get("error", "")
        if not error and time.time() - status.get("started", time.time()) < STARTING_S:  # it may not say yet
            return "warning", "the daemon has just started, and gets no sound yet", "ask again in a few seconds"
        stream = microphone.source == "stream"
        lists = "the log says more" if stream else "`auricle-edge devices` lists the microphones; the log says more"
        return "problem", f"the daemon gets no sound{error and ': '}{error}", lists
    age = listening["last_frame_age_s"]
    found = f"the daemon has it: last sound {age:.0f} s ago, {listening['level_db']:.0f} dB"
    if listening["trouble"]:
        return "problem", f"{found}; {listening['trouble']}", "the daemon tries it again"
    return _judged_level(found, listening["level_db"], microphone.source)


def _judged_level(found: str, level_db: float, source: str) -> Result:
    if level_db > TOO_QUIET_DB or source == "file":  # recordings may well be silent for a while
        return "ok", found
    if source == "stream":  # cameras that suppress noise send zeros
        return "warning", f"{found}: silent", "make a noise there, and ask again"
    way_out = "unmute it (`alsamixer`, F4, raise Capture), or choose another one (`auricle-edge devices`)"
    return "problem", f"{found}: silent", way_out


def _clock(_: Config) -> Result:
    now = f"it says {time.strftime('%Y-%m-%d %H:%M')}"
    right = time.time() >= _RELEASED
    return ("ok", now) if right else ("problem", now, "sudo timedatectl set-ntp true, and wait for a network")


def _aggregator(config: Config) -> Result:
    """Check address, TLS, clock and membership by one question, which the device asks of itself."""
    if config.server is None:
        return "ok", "none: without [server] this device learns alone"
    state, url = DeviceState(config.device.state), config.server.url
    with closing(client_of_member(url, state)) as client:
        try:
            client.check_enrolment()
        except CertificateError as error:
            return "problem", str(error), "if the server was set up anew: auricle-edge join LINK"
        except RefusedError as error:
            return _refused(error, config, running=state.locked("daemon"))
        except LinkError as error:
            return "problem", str(error), f"is {url} right, the server up, and its port open?"
    if client.server_time is not None and abs(away := client.server_time - time.time()) > _CLOCK_S:
        found = f"{url} answers; its clock is {away:+.0f} s away from this one"
        return "warning", found, "set the clock of whichever is wrong: sudo timedatectl set-ntp true"
    membership = state.membership.load()
    pinned = membership is not None and membership.authority is not None
    how = "TLS by the pinned authority" if pinned else "TLS by a public authority"
    return "ok", f"{url} knows this device ({'without TLS' if url.startswith('http:') else how})"


def _refused(error: RefusedError, config: Config, *, running: bool) -> Result:
    if error.code == "device_waiting":
        return "warning", str(error), "ask the operator: auricle-aggregator devices admit ID"
    assert config.server is not None
    if config.server.enrol_token and not running:
        return "warning", "not enrolled yet", "start the daemon, which enrols: auricle-edge run"
    way_out = "ask for an invitation: auricle-edge join LINK; or correct enrol_token (`auricle-aggregator tokens`)"
    return "problem", f"not enrolled: {error}", way_out


def _mqtt(config: Config) -> Result:
    """Say what a daemon that runs says of the broker; else whether anything listens there."""
    assert config.mqtt is not None
    state, at = DeviceState(config.device.state), f"{config.mqtt.host}:{config.mqtt.port}"
    if state.locked("daemon"):
        trouble = (read_status(state).get("mqtt") or {"trouble": "the daemon does not say yet"})["trouble"]
        return ("problem", trouble, "see the message") if trouble else ("ok", f"the broker {at} takes this device")
    try:
        with socket.create_connection((config.mqtt.host, config.mqtt.port), _BROKER_S):
            return "ok", f"something listens at {at}; the daemon says whether it takes this device"
    except OSError as error:
        return "problem", f"no MQTT broker at {at}: {error}", "is it running, and are [mqtt] host and port right?"
