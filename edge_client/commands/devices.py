"""``devices``: lists the microphones, and tests one."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from contextlib import closing
from typing import TYPE_CHECKING

from edge_client.commands import Commands, set_command
from fleet_protocol.command_line import print_json

if TYPE_CHECKING:
    from edge_client.capture.microphone import Microphone
    from edge_client.capture.sound_devices import CaptureDevice
    from fleet_protocol.arrays import Floats

# At which the test listens; most models hear so.
_RATE_HZ = 16_000
_STEP_S = 0.25
_CLIPPED_DB = -0.1
_METER_DB, _METER_WIDTH = 60, 40


def add(commands: Commands) -> None:
    """Add the command."""
    devices = commands.add_parser("devices", help="list the microphones, or test one")
    devices.add_argument(
        "--test", metavar="NAME", nargs="?", const="", help="record and show the level; part of a name (the default)"
    )
    devices.add_argument("--seconds", type=float, default=5.0, metavar="S", help="of the test (5)")
    devices.add_argument("--backend", choices=["portaudio", "arecord"], default="portaudio", help="(portaudio)")
    set_command(devices, _devices, config=False)


def _devices(options: argparse.Namespace) -> int:
    if options.test is not None:
        return _test(options.test, options.backend, options.seconds, json=options.json)
    from edge_client.capture.arecord import arecord_devices
    from edge_client.capture.portaudio import portaudio_devices
    from edge_client.capture.sound_devices import presence

    found = {"portaudio": portaudio_devices, "arecord": arecord_devices}[options.backend]()
    if options.json:
        print_json([dataclasses.asdict(device) for device in found])
        return 0 if found else 1
    for device in found:
        print(_described(device))
    if not found:
        print(presence(found), file=sys.stderr)
    return 0 if found else 1


def _described(device: CaptureDevice) -> str:
    rates = ", ".join(str(rate) for rate in device.rates_hz)
    return "  ".join(part for part in (device.name, device.description, f"{rates} Hz" if rates else "") if part)


def _test(name: str, backend: str, seconds: float, *, json: bool) -> int:
    """Listen for a while, showing the level; return 0 when the microphone hears something."""
    import numpy as np

    from edge_client.capture.microphone import Microphone
    from edge_client.config.sections import MicrophoneConfig

    config = MicrophoneConfig(device=name, backend=backend)  # type: ignore[arg-type]
    with closing(Microphone(config, _RATE_HZ)) as microphone:
        if not json:
            rate = microphone.device_rate_hz
            print(f"{microphone.device}: recording at {rate} Hz for {seconds:g} s; make some noise")
        heard = []
        for _ in range(max(1, round(seconds / _STEP_S))):
            heard.append(microphone.read(round(_STEP_S * _RATE_HZ), 2 * _STEP_S))
            if not json:
                _show_level(heard[-1])
    if sys.stdout.isatty() and not json:
        print()
    return _judge(np.concatenate(heard), microphone, json=json)


def _show_level(samples: Floats) -> None:
    from edge_client.audio.level import peak_dbfs, rms_dbfs

    peak, rms = peak_dbfs(samples), rms_dbfs(samples)
    filled = round(max(0.0, 1 + rms / _METER_DB) * _METER_WIDTH)
    line = f"[{'#' * filled:{_METER_WIDTH}}] peak {peak:6.1f} dBFS, rms {rms:6.1f} dBFS"
    print(f"\r{line}" if sys.stdout.isatty() else line, end="" if sys.stdout.isatty() else "\n", flush=True)


def _judge(samples: Floats, microphone: Microphone, *, json: bool) -> int:
    from edge_client.audio.level import TOO_QUIET_DB, peak_dbfs, rms_dbfs

    peak, rms = peak_dbfs(samples), rms_dbfs(samples)
    if json:
        found = {"device": microphone.device, "rate_hz": microphone.device_rate_hz, "seconds": len(samples) / _RATE_HZ}
        counts = {"overflows": microphone.overflows, "reopened": microphone.reopened}
        print_json(found | {"peak_dbfs": round(peak, 1), "rms_dbfs": round(rms, 1)} | counts)
        return 0 if peak > TOO_QUIET_DB else 1
    print(
        f"{len(samples) / _RATE_HZ:.1f} s heard, peak {peak:.1f} dBFS, rms {rms:.1f} dBFS, "
        f"{microphone.overflows} overflows, opened again {microphone.reopened} times"
    )
    if not peak > TOO_QUIET_DB:
        print(
            f"{microphone.device} is silent: it may be muted (`alsamixer`, F4, raise Capture), or be the wrong one "
            "(`auricle-edge devices` lists all); if others hear it, try the other --backend",
            file=sys.stderr,
        )
        return 1
    if peak >= _CLIPPED_DB:
        print("the loudest sound was clipped: lower the capture level with `alsamixer`, F4", file=sys.stderr)
    return 0
