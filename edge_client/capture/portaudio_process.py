"""The process that records by PortAudio: ``record`` writes a line of JSON, then raw 16-bit frames; ``list`` lists.

PortAudio's callback hands its frames straight to the pipe, which is bounded and never waits: when it is full, or the
hardware was not read in time, sound is lost, and standard error says ``overrun N``. It ends when nobody reads.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
from types import ModuleType
from typing import Any

from edge_client.capture.sound_devices import USUAL_RATES_HZ, CaptureDevice, matching_device, presence
from edge_client.errors import AudioError

# A write of up to this many bytes goes into a pipe whole or not at all (POSIX), so frames are never torn.
_ATOMIC_BYTES = select.PIPE_BUF
# Devices with more are plug-ins that make up as many channels as one likes.
_MOST_CHANNELS = 8
# Sound that the driver holds while this process waits for the processor.
_LATENCY_S = 0.25
_REPORT_MS = 1_000
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


def _record(sounddevice: ModuleType, device: str, rates_hz: list[int]) -> None:
    """Record until nobody reads any more.

    Raises:
        AudioError: the device is not there, offers no such rate, cannot be opened, or went away.
    """
    info = _wanted(sounddevice, device)
    rate_hz, channels = _setting(sounddevice, info, rates_hz)
    recorder = _Recorder(2 * channels)
    try:
        stream = sounddevice.RawInputStream(
            device=info["index"], samplerate=rate_hz, channels=channels, dtype="int16", latency=_LATENCY_S,
            callback=recorder.heard,
        )  # fmt: skip
        opened = {"device": info["name"], "rate_hz": rate_hz, "channels": channels}
        os.write(_OUTPUT, json.dumps(opened).encode() + b"\n")
        os.set_blocking(_OUTPUT, False)
        stream.start()
        recorder.report_until_unread(stream)
    except sounddevice.PortAudioError as error:
        raise AudioError(f"PortAudio cannot record from {info['name']!r}: {error}") from error
    raise AudioError(f"{info['name']!r} stopped recording")


class _Recorder:
    """Hands frames on, and counts what is lost."""

    def __init__(self, frame_bytes: int) -> None:
        self._piece = _ATOMIC_BYTES // frame_bytes * frame_bytes
        self._lost = 0

    def heard(self, data: Any, frames: int, time: Any, status: Any) -> None:  # noqa: ANN401, ARG002  (PortAudio's)
        """Take one block; called by PortAudio in its own thread, so it must not wait."""
        if status.input_overflow:
            self._lost += 1
        block = memoryview(data)
        try:
            for start in range(0, len(block), self._piece):
                os.write(_OUTPUT, block[start : start + self._piece])
        except BlockingIOError:
            self._lost += 1

    def report_until_unread(self, stream: Any) -> None:  # noqa: ANN401  (sounddevice has no types)
        """Say on standard error what was lost, until the reader is gone or the stream has ended."""
        unread = select.poll()
        unread.register(_OUTPUT, 0)
        reported = 0
        while stream.active:
            if unread.poll(_REPORT_MS):
                os._exit(0)
            lost = self._lost
            if lost > reported:
                print(f"overrun {lost - reported}", file=sys.stderr, flush=True)
                reported = lost


def _sounddevice() -> ModuleType:
    try:
        import sounddevice
    except (ImportError, OSError) as error:
        raise AudioError(
            f"cannot record by PortAudio, because sounddevice cannot be loaded ({error}): install auricle[edge] and "
            'the system\'s libportaudio2, or set backend = "arecord"'
        ) from error
    module: ModuleType = sounddevice
    return module


def _inputs(sounddevice: ModuleType) -> list[dict[str, Any]]:
    """Return PortAudio's description of every capture device, one of each name."""
    found: dict[str, dict[str, Any]] = {}
    for info in sounddevice.query_devices():
        if info["max_input_channels"]:
            found.setdefault(info["name"], info)
    return list(found.values())


def _wanted(sounddevice: ModuleType, device: str) -> dict[str, Any]:
    """Return the device of that name, the system's default for "".

    Raises:
        AudioError: there is none, or several are named so.
    """
    inputs = _inputs(sounddevice)
    devices = [CaptureDevice(info["name"]) for info in inputs]
    if device:
        name = matching_device(device, devices).name
        return next(info for info in inputs if info["name"] == name)
    index = sounddevice.default.device[0]
    for info in inputs:
        if info["index"] == index:
            return info
    raise AudioError(f"the system has no default microphone; {presence(devices)}")


def _setting(sounddevice: ModuleType, info: dict[str, Any], rates_hz: list[int]) -> tuple[int, int]:
    """Return the first rate, and the most channels, that a device can be opened with.

    Raises:
        AudioError: none.
    """
    default_hz = round(info["default_samplerate"])
    for rate_hz in rates_hz if len(rates_hz) == 1 else [*rates_hz, default_hz]:
        for channels in _channels(info):
            if _opens(sounddevice, info, rate_hz, channels):
                return rate_hz, channels
    offered = _offer(sounddevice, info)["rates_hz"]
    raise AudioError(
        f"{info['name']!r} cannot be opened at {' or '.join(map(str, rates_hz))} Hz; "
        + (f"it offers {', '.join(map(str, offered))} Hz: set rate_hz" if offered else "is another program using it?")
    )


def _offer(sounddevice: ModuleType, info: dict[str, Any]) -> dict[str, Any]:
    rates = [rate for rate in USUAL_RATES_HZ if any(_opens(sounddevice, info, rate, n) for n in _channels(info))]
    return {"name": info["name"], "rates_hz": rates}


def _channels(info: dict[str, Any]) -> tuple[int, ...]:
    """Return the numbers of channels to try: all of a microphone's, so that they can be averaged, else one."""
    most = info["max_input_channels"]
    wanted = most if most <= _MOST_CHANNELS else 2
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
