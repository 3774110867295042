"""Recording by PortAudio, in a process of its own (portaudio_process.py)."""

from __future__ import annotations

import json
import subprocess
import sys
import threading

from edge_client.capture.pcm_process import PcmProcess, PcmStream, last_line
from edge_client.capture.sound_devices import CaptureDevice, candidate_rates
from edge_client.config.sections import MicrophoneConfig
from edge_client.errors import AudioError

_COMMAND = (sys.executable, "-m", "edge_client.capture.portaudio_process")
# A small board takes seconds to start Python and to ask every device.
_START_S = 30.0


def portaudio_devices() -> list[CaptureDevice]:
    """Return the devices that PortAudio can record from now, with the usual rates that they offer.

    Raises AudioError if PortAudio is not there, or does not answer.
    """
    try:
        result = subprocess.run([*_COMMAND, "list"], capture_output=True, check=False, timeout=_START_S)
    except subprocess.TimeoutExpired as error:
        raise AudioError(f'PortAudio does not answer for {_START_S:g} s; try backend = "arecord"') from error
    if result.returncode:
        crashed = f'PortAudio failed with status {result.returncode}; try backend = "arecord"'
        raise AudioError(last_line(result.stderr) or crashed)
    return [
        CaptureDevice(item["name"], item["description"], tuple(item["rates_hz"])) for item in json.loads(result.stdout)
    ]


def open_portaudio(config: MicrophoneConfig, model_hz: int, cancelled: threading.Event) -> PcmStream:
    """Open the configured device at the best rate for a model's.

    Raises AudioError if it is not there, offers no such rate, or gives no sound.
    """
    rates = candidate_rates(config.rate_hz, model_hz)
    wanted = json.dumps({"device": config.device, "rates_hz": rates, "channel": config.channel})
    process = PcmProcess("PortAudio", [*_COMMAND, "record", wanted])
    try:
        opened = json.loads(process.read_line(_START_S, cancelled))
        return PcmStream(process, opened["device"], opened["rate_hz"], opened["channels"], config.channel)
    except BaseException:
        process.close()
        raise
