"""The process that records by PortAudio: ``record`` writes a line of JSON, then raw 16-bit frames; ``list`` lists.

It reads in a loop rather than by a callback: Python's callbacks need memory that is writable and executable, which a
hardened service may not have, and a process that does nothing else comes in time without one. Its writes never wait:
when the pipe is full, or the hardware was not read in time, sound is lost, and standard error says ``overrun N``.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import threading
import time
from types import ModuleType
from typing import Any

from edge_client.capture.sound_devices import USUAL_RATES_HZ, CaptureDevice, matching_device, port_of, presence
from edge_client.errors import AudioError

# Devices with more are plug-ins that make up as many channels as one likes.
_MAX_CHANNELS = 8
# Sound that the driver holds while this process waits for the processor.
_LATENCY_S = 0.25
_BLOCKS_PER_S = 20
_OUTPUT = 1


def main(arguments: list[str]) -> int:
    """List or record; return the exit status, with the reason of a failure as the last line on standard error."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        sounddevice = _sounddevice()
        if arguments[0] == "list":
            print(json.dumps([_offer(sounddevice, info) for info in _inputs(sounddevice)]), flush=True)
            return 0
        _record(sounddevice, **json.loads(arguments[1]))
    except AudioError as error:
        print(error, file=sys.stderr, flush=True)
    return 3


def _record(sounddevice: ModuleType, device: str, rates_hz: list[int], channel: int) -> None:
    """Record until nobody reads any more."""
    info = _wanted(sounddevice, device)
    rate_hz, channels = _setting(sounddevice, info, rates_hz, channel)
    try:
        stream = sounddevice.RawInputStream(
            device=info["index"], samplerate=rate_hz, channels=channels, dtype="int16", latency=_LATENCY_S
        )
        opened = {"device": info["name"], "rate_hz": rate_hz, "channels": channels}
        os.write(_OUTPUT, json.dumps(opened).encode() + b"\n")
        os.set_blocking(_OUTPUT, False)
        threading.Thread(target=_end_when_unread, daemon=True).start()
        stream.start()
        _hand_on(stream, rate_hz // _BLOCKS_PER_S)
    except sounddevice.PortAudioError as error:
        raise AudioError(f"PortAudio cannot record from {info['name']!r}: {error}") from error


def _hand_on(stream: Any, frames: int) -> None:  # noqa: ANN401  (sounddevice has no types)
    """Hand blocks of so many frames on for ever, dropping those for which the pipe has no room."""
    rest, lost, last_report = b"", 0, time.monotonic()
    while True:
        block, overflowed = stream.read(frames)
        lost += bool(overflowed)
        try:
            if rest:  # of a block for which the pipe had too little room; it goes first, so that no frame is torn
                rest = rest[os.write(_OUTPUT, rest) :]
            if rest:
                lost += 1
            else:
                rest = bytes(block)[os.write(_OUTPUT, block) :]
        except BlockingIOError:
            lost += 1
        if lost and time.monotonic() - last_report > 1:
            print(f"overrun {lost}", file=sys.stderr, flush=True)
            lost, last_report = 0, time.monotonic()


def _end_when_unread() -> None:
    """End the process when nobody reads its output any more, also when the hardware gives nothing to write."""
    closed = select.poll()
    closed.register(_OUTPUT, 0)
    closed.poll()
    os._exit(0)


def _sounddevice() -> ModuleType:
    try:
        import sounddevice
    except ModuleNotFoundError as error:
        raise AudioError(f"cannot record by PortAudio ({error}): pip install 'auricle[edge]'") from error
    except Exception as error:  # PortAudio is started while it is imported, and fails with errors of its own
        raise AudioError(
            f"cannot record by PortAudio ({error}): sudo apt install libportaudio2; or record by ALSA: "
            'backend = "arecord" under [microphone]'
        ) from error
    module: ModuleType = sounddevice
    return module


def _inputs(sounddevice: ModuleType) -> list[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for info in sounddevice.query_devices():
        if info["max_input_channels"]:
            found.setdefault(info["name"], info)
    return list(found.values())


def _wanted(sounddevice: ModuleType, device: str) -> dict[str, Any]:
    """Return the device of that name, the system's default for ""."""
    inputs = _inputs(sounddevice)
    devices = [CaptureDevice(info["name"], port_of(info["name"])) for info in inputs]
    if device:
        name = matching_device(device, devices).name
        return next(info for info in inputs if info["name"] == name)
    index = sounddevice.default.device[0]
    for info in inputs:
        if info["index"] == index:
            return info
    raise AudioError(f"the system has no default microphone; {presence(devices)}" if devices else presence(devices))


def _setting(sounddevice: ModuleType, info: dict[str, Any], rates_hz: list[int], channel: int) -> tuple[int, int]:
    """Return the first rate, and the most channels, that a device can be opened with. Raises AudioError if none."""
    default_hz = round(info["default_samplerate"])
    for rate_hz in rates_hz if len(rates_hz) == 1 else [*rates_hz, default_hz]:
        for channels in _channels(info, channel):
            if _opens(sounddevice, info, rate_hz, channels):
                return rate_hz, channels
    offered = _offer(sounddevice, info)["rates_hz"]
    raise AudioError(
        f"{info['name']!r} cannot be opened at {' or '.join(map(str, rates_hz))} Hz; "
        + (f"it offers {', '.join(map(str, offered))} Hz: set rate_hz" if offered else "is another program using it?")
    )


def _offer(sounddevice: ModuleType, info: dict[str, Any]) -> dict[str, Any]:
    rates = [rate for rate in USUAL_RATES_HZ if any(_opens(sounddevice, info, rate, n) for n in _channels(info))]
    return {"name": info["name"], "description": port_of(info["name"]), "rates_hz": rates}


def _channels(info: dict[str, Any], channel: int = 0) -> tuple[int, ...]:
    """Return the numbers of channels to try: all of a microphone's, so that they can be averaged, else one; at least
    the one that is wanted.
    """
    max_channels: int = info["max_input_channels"]
    if channel:
        return (max_channels if max_channels <= _MAX_CHANNELS else channel,)
    wanted = max_channels if max_channels <= _MAX_CHANNELS else 2
    return (wanted,) if wanted == 1 else (wanted, 1)


def _opens(sounddevice: ModuleType, info: dict[str, Any], rate_hz: int, channels: int) -> bool:
    try:
        sounddevice.check_input_settings(info["index"], channels=channels, dtype="int16", samplerate=rate_hz)
    except sounddevice.PortAudioError:
        return False
    return True


if __name__ == "__main__":
    # Not by the usual exit, in which PortAudio closes everything and may hang.
    os._exit(main(sys.argv[1:]))
