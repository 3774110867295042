"""What keeps a device from listening, learning or taking part: a check for each, with the way out (``doctor``)."""

from __future__ import annotations

import os
import platform
import shutil
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
from edge_client.daemon.status import listening_name, read_status, temperature_c
from edge_client.fleet.enrolment import client_of_member
from edge_client.model.interpreter import describe_runtime
from edge_client.model.runtime import ModelRuntime
from edge_client.model.self_test import check_runtime
from edge_client.storage.device_state import DeviceState
from fleet_protocol.bundle import read_bundle
from fleet_protocol.command_line import version
from fleet_protocol.errors import AuricleError, CertificateError, LinkError, RefusedError

Verdict = Literal["ok", "warning", "problem"]

_LISTEN_S = 2.0
_LEAST_FREE_MB, _LITTLE_FREE_MB = 50.0, 500.0
# Certificates of this release are younger; a board without a clock of its own starts in 1970.
_RELEASED = 1_735_689_600.0
_CLOCK_S = 60.0
_MB = 1e6


@dataclass(frozen=True)
class Finding:
    """What one check found. A warning keeps nothing from working now; ``way_out`` is "" where none is needed."""

    check: str
    verdict: Verdict
    found: str
    way_out: str = ""


def examine(given: Path | None) -> Iterator[Finding]:
    """Check a device, one thing after the other; what an earlier finding makes impossible is left out."""
    yield _versions()
    config_path = None
    try:
        config_path = find_config(given)
        config = load_config(config_path)
    except AuricleError as error:
        yield Finding("configuration", "problem", str(error), "correct it" if config_path else "see the message")
        return
    yield Finding("configuration", "ok", str(config_path))
    yield _permission(config)
    for check, find in _checks(config).items():
        yield _guarded(check, find, config)


def _guarded(check: str, find: Callable[[Config], Finding], config: Config) -> Finding:
    """Return a check's finding; what it could not do is one too, and carries its own way out."""
    try:
        return find(config)
    except (AuricleError, OSError) as error:
        return Finding(check, "problem", str(error), "see the message")


def _versions() -> Finding:
    found = f"auricle {version()}, Python {platform.python_version()}, {platform.machine()}"
    try:
        check_runtime()
        return Finding("versions", "ok", f"{found}, {describe_runtime()}")
    except AuricleError as error:
        return Finding("versions", "problem", f"{found}: {error}", "see the message")


def _permission(config: Config) -> Finding:
    folder = config.device.state
    existing = _existing(folder)
    if os.access(existing, os.R_OK | os.W_OK | os.X_OK):
        return Finding("permission", "ok", f"this user may write {folder}")
    owner = existing.owner()
    return Finding(
        "permission",
        "problem",
        f"this user may not write {existing}, which is {owner}'s",
        f"sudo -u {owner} auricle-edge doctor",
    )


def _existing(folder: Path) -> Path:
    """Return a folder, or the nearest above it that is there and can be read."""
    for place in (folder, *folder.parents):
        try:
            place.stat()
        except (PermissionError, FileNotFoundError):
            continue
        return place
    return Path("/")


def _bundle(config: Config) -> Finding:
    model = ModelRuntime.open(config.bundle, config.device.threads)
    saved = DeviceState(config.device.state).model.load(config.bundle)
    labels = saved.progress.label_map.labels
    return Finding("bundle", "ok", f"{model.manifest.architecture}: {', '.join(labels) or 'no labels yet'}")


def _disk(config: Config) -> Finding:
    free = shutil.disk_usage(_existing(config.device.state)).free / _MB
    found = f"{free:.0f} MB are free in {config.device.state}"
    if free >= _LITTLE_FREE_MB:
        return Finding("disk", "ok", found)
    verdict: Verdict = "problem" if free < _LEAST_FREE_MB else "warning"
    return Finding(
        "disk", verdict, found, "remove what is not needed, or lower [clips] quota_mb and [events] journal_mb"
    )


def _journal(config: Config) -> Finding:
    """Say what a daemon that runs says of the journal."""
    state = DeviceState(config.device.state)
    journal = (read_status(state).get("journal") if state.locked("daemon") else None) or {"trouble": "", "lost": 0}
    if journal["trouble"]:
        found = f"it takes no events: {journal['trouble']}"
        return Finding("journal", "problem", found, "the daemon tries it again and goes on by itself")
    lost = f"; {journal['lost']} events were lost since the daemon started" if journal["lost"] else ""
    return Finding("journal", "ok", f"{state.database.path}{lost}")


def _recordings(config: Config) -> Finding:
    for key, folder in config.recordings.missing_folders().items():
        way_out = "correct the path, or mount the disk"
        return Finding("recordings", "problem", f"[recordings] {key} = {folder} is no folder", way_out)
    return Finding("recordings", "ok", str(config.clips_folder))


def _microphone(name: str, config: Config) -> Finding:
    """Check one input; ``name``: as in :attr:`Config.inputs`."""
    check, microphone, state = _check_of(name), config.inputs[name], DeviceState(config.device.state)
    if state.locked("daemon"):
        return _daemons_microphone(name, microphone, read_status(state))
    rate_hz = read_bundle(config.bundle).manifest.feature_settings.sample_rate_hz
    if microphone.source == "file":
        return _played(check, microphone, rate_hz)
    with closing(Microphone(microphone, rate_hz)) as source:
        level = rms_dbfs(source.read(round(_LISTEN_S * source.sample_rate_hz), 2 * _LISTEN_S))
    found = f"{source.device} at {source.device_rate_hz} Hz, {level:.0f} dB"
    return _judged_level(check, found, level, microphone.source)


def _check_of(name: str) -> str:
    return "microphone" if name in ("", FIRST_INPUT) else f"microphone {name}"


def _no_microphone(_: Config) -> Finding:
    return Finding("microphone", "ok", "none: without [microphone] this device does not listen")


def _played(check: str, microphone: MicrophoneConfig, rate_hz: int) -> Finding:
    """Check whether recordings can be played in the place of a microphone; they may well begin with silence."""
    source = Microphone(microphone, rate_hz)
    source.close()
    return Finding(check, "ok", f"none: it plays recordings, {source.device}")


def _daemons_microphone(name: str, microphone: MicrophoneConfig, status: dict[str, Any]) -> Finding:
    """Judge by what the daemon, which has the microphone, says of it."""
    listening = status.get("inputs", {}).get(name)
    if not listening or not listening["frames"]:
        loop = status.get("loops", {}).get(listening_name(name), {})
        error = (listening or {}).get("trouble") or loop.get("error", "")
        stream = microphone.source == "stream"
        lists = "the log says more" if stream else "`auricle-edge devices` lists the microphones; the log says more"
        return Finding(_check_of(name), "problem", f"the daemon gets no sound{error and ': '}{error}", lists)
    age = listening["last_frame_age_s"]
    found = f"the daemon has it: last sound {age:.0f} s ago, {listening['level_db']:.0f} dB"
    if listening["trouble"]:
        return Finding(_check_of(name), "problem", f"{found}; {listening['trouble']}", "the daemon tries it again")
    return _judged_level(_check_of(name), found, listening["level_db"], microphone.source)


def _judged_level(check: str, found: str, level_db: float, source: str) -> Finding:
    if level_db > TOO_QUIET_DB:
        return Finding(check, "ok", found)
    if source == "stream":  # cameras that suppress noise send zeros
        return Finding(check, "warning", f"{found}: silent", "make a noise there, and ask again")
    return Finding(
        check,
        "problem",
        f"{found}: silent",
        "unmute it (`alsamixer`, F4, raise Capture), or choose another one (`auricle-edge devices`)",
    )


def _temperature(config: Config) -> Finding:
    hot, limit = temperature_c(), config.training.max_temperature_c
    if hot is None:
        return Finding("temperature", "ok", "this board does not report it")
    found = f"{hot:.0f} degrees"
    if 0 < limit < hot:
        way_out = f"cool the board; nothing is trained above {limit:.0f} ([training] max_temperature_c)"
        return Finding("temperature", "warning", found, way_out)
    return Finding("temperature", "ok", found)


def _clock(_: Config) -> Finding:
    now = time.strftime("%Y-%m-%d %H:%M")
    if time.time() < _RELEASED:
        return Finding("clock", "problem", f"it says {now}", "sudo timedatectl set-ntp true, and wait for a network")
    return Finding("clock", "ok", f"it says {now}")


def _aggregator(config: Config) -> Finding:
    """Check address, TLS, clock and membership by one question, which the device asks of itself."""
    if config.server is None:
        return Finding("aggregator", "ok", "none: without [server] this device learns alone")
    state = DeviceState(config.device.state)
    found = {url: _at(url, config, state) for url in config.server.addresses}
    if len(found) == 1:
        return next(iter(found.values()))
    good = [finding for finding in found.values() if finding.verdict == "ok"]
    bad = {url: finding for url, finding in found.items() if finding.verdict != "ok"}
    what = "; ".join([finding.found for finding in good] + [f"{url}: {item.found}" for url, item in bad.items()])
    if not bad:
        return Finding("aggregator", "ok", what)
    worst = next((item for item in bad.values() if item.verdict == "problem"), next(iter(bad.values())))
    return Finding("aggregator", "warning" if good else worst.verdict, what, worst.way_out)


def _at(url: str, config: Config, state: DeviceState) -> Finding:
    client = client_of_member((url,), state)
    try:
        client.check_enrolment()
    except CertificateError as error:
        return Finding("aggregator", "problem", str(error), "if the server was set up anew: auricle-edge join LINK")
    except RefusedError as error:
        return _refused(error, config, running=state.locked("daemon"))
    except LinkError as error:
        return Finding("aggregator", "problem", str(error), f"is {url} right, the server up, and its port open?")
    finally:
        client.close()
    if client.server_time is not None and abs(client.server_time - time.time()) > _CLOCK_S:
        away = client.server_time - time.time()
        return Finding(
            "aggregator",
            "warning",
            f"{url} answers; its clock is {away:+.0f} s away from this one",
            "set the clock of whichever is wrong: sudo timedatectl set-ntp true",
        )
    membership = state.membership.load()
    pinned = membership is not None and membership.authority is not None
    how = "TLS by the pinned authority" if pinned else "TLS by a public authority"
    how = "without TLS" if url.startswith("http:") else how
    return Finding("aggregator", "ok", f"{url} knows this device ({how})")


def _refused(error: RefusedError, config: Config, *, running: bool) -> Finding:
    if error.code == "device_waiting":
        return Finding("aggregator", "warning", str(error), "ask the operator: auricle-aggregator devices admit ID")
    assert config.server is not None
    if config.server.enrol_token and not running:
        return Finding("aggregator", "warning", "not enrolled yet", "start the daemon, which enrols: auricle-edge run")
    way_out = "ask for an invitation: auricle-edge join LINK; or correct enrol_token (`auricle-aggregator tokens`)"
    return Finding("aggregator", "problem", f"not enrolled: {error}", way_out)


def _mqtt(config: Config) -> Finding:
    from edge_client.events.mqtt import trouble_of

    section = config.sinks["mqtt"]
    at = f"{section.host}:{section.port}"
    trouble = trouble_of(section)
    if trouble:
        return Finding("mqtt", "problem", f"no MQTT broker at {at}: {trouble}")
    return Finding("mqtt", "ok", f"the broker {at} takes this device")


def _checks(config: Config) -> dict[str, Callable[[Config], Finding]]:
    inputs = {_check_of(name): partial(_microphone, name) for name in config.inputs}
    return {
        "clock": _clock,
        "temperature": _temperature,
        "disk": _disk,
        **({"journal": _journal} if config.microphone else {}),
        "bundle": _bundle,
        "recordings": _recordings,
        **(inputs or {"microphone": _no_microphone}),
        **({"mqtt": _mqtt} if config.microphone and config.sinks.get("mqtt") else {}),
        "aggregator": _aggregator,
    }
