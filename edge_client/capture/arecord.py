"""Recording by ALSA's `arecord`, which also reaches PulseAudio and PipeWire where the system defines them for ALSA.

A device is chosen by name, because its number changes from boot to boot.

Hardware is opened as `plughw:`, which converts formats and channels. It would convert rates too, but by straight lines
that fold what is inaudible into what the model hears; so a rate that the hardware has is asked for, as of `hw:`.
"""

import os
import re
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from edge_client.capture.pcm_process import PcmProcess, PcmStream, last_line
from edge_client.config.sections import MicrophoneConfig
from edge_client.errors import AudioError

_TIMEOUT_S = 10.0
_PERIOD_US, _BUFFER_US = 50_000, 1_000_000
# What arecord lists although it is no microphone: converters that need a device of their own.
_CONVERTERS = frozenset({"null", "lavrate", "samplerate", "speexrate", "speex", "upmix", "vdownmix"})
# What sound hardware usually offers, in Hz.
_USUAL_RATES_HZ = (8_000, 11_025, 16_000, 22_050, 32_000, 44_100, 48_000, 88_200, 96_000, 176_400, 192_000)

_WITHOUT = "to try it without one, play recordings: `auricle-edge init --play FOLDER`"


@dataclass(frozen=True)
class CaptureDevice:
    """A device that can record."""

    name: str
    description: str = ""


def matching_device(wanted: str, devices: Sequence[CaptureDevice]) -> CaptureDevice:
    """Return the one device whose name or description holds ``wanted``; a whole name goes first. Raises AudioError."""
    text = wanted.casefold()
    exact = [one for one in devices if text in (one.name.casefold(), *one.description.casefold().split("; "))]
    found = exact or [device for device in devices if text in f"{device.name}\n{device.description}".casefold()]
    if len(found) == 1:
        return found[0]
    if found:
        raise AudioError(
            f"several microphones are named like {wanted!r}: {_names(found)}; put more of one's name, or its port, "
            "into device"
        )
    raise AudioError(f"no microphone is named like {wanted!r}; {presence(devices)}")


def port_of(name: str, cards: Path = Path("/sys/class/sound"), names: Path = Path("/proc/asound")) -> str:
    """Return the USB port of an ALSA device, as "usb port 1-1.2", which tells two equal microphones apart from boot to
    boot; "" where it has none. ``name`` holds ``CARD=Device``.
    """
    named = re.search(r"CARD=(\w+)", name)
    try:
        card = str((names / named[1]).readlink()) if named else ""
        device = str((cards / card / "device").readlink()) if card else ""
    except OSError:  # no card of that name, or a system without ALSA
        return ""
    port = re.search(r"(?:^|/)(\d+-[\d.]+)(?::[^/]*)?$", device)
    return f"usb port {port[1]}" if port else ""


def presence(devices: Sequence[CaptureDevice]) -> str:
    """Say which devices are there, and what to do when the wanted one is not."""
    if not devices:
        return f"no microphone is there: plug one in; the user needs the group audio; {_WITHOUT}"
    return f"present: {_names(devices)}; name one by a part of its name, as device under [microphone]"


def candidate_rates(wanted_hz: int, model_hz: int) -> tuple[int, ...]:
    """Return the rates to try, the best first: a wanted one alone, else the model's, then the usual ones above it."""
    if wanted_hz:
        return (wanted_hz,)
    return (model_hz, *(rate for rate in _USUAL_RATES_HZ if rate > model_hz))


def arecord_devices() -> list[CaptureDevice]:
    """Return the devices that arecord can record from now: each card once, and what the system defines beside cards.

    Without a card, those are left out that cannot be opened. Raises AudioError if there is no arecord, or no answer.
    """
    devices: list[CaptureDevice] = []
    for line in _run("-L")[1].splitlines():
        if line and not line[0].isspace():
            devices.append(CaptureDevice(line.strip()))
        elif line.strip() and devices:
            last = devices[-1]
            devices[-1] = CaptureDevice(last.name, f"{last.description}; {line.strip()}".removeprefix("; "))
    for number, device in enumerate(devices):
        if port := port_of(device.name):
            devices[number] = CaptureDevice(device.name, f"{device.description}; {port}".removeprefix("; "))
    found = [
        device
        for device in devices
        if device.name not in _CONVERTERS and (device.name.startswith("plughw:") or "CARD=" not in device.name)
    ]
    has_card = any(device.name.startswith("plughw:") for device in found)
    return found if has_card else [device for device in found if "RATE" in _offered(device.name)[0]]


def open_arecord(config: MicrophoneConfig, model_hz: int, cancelled: threading.Event) -> PcmStream:
    """Open the configured device at the best rate for a model's. Raises AudioError if that cannot be recorded."""
    name = _wanted(config.device)
    rate_hz, most = _best_rate(name, candidate_rates(config.rate_hz, model_hz), cancelled)
    channels = most if config.channel or most == 2 else 1  # the mean of two is taken where a loss in it is seen
    options = f"-q -t raw -f S16_LE -c {channels} -r {rate_hz} -F {_PERIOD_US} -B {_BUFFER_US}"
    process = PcmProcess("arecord", ["arecord", "-D", name, *options.split()])
    return PcmStream(process, name, rate_hz, channels, config.channel)


def _wanted(device: str) -> str:
    """Return the name of the device meant; for "" the system's default, where it has none the first card."""
    devices = arecord_devices()
    if device:
        return matching_device(device, devices).name
    if not devices:
        raise AudioError(presence(devices))
    cards = [found.name for found in devices if found.name.startswith("plughw:")]
    return cards[0] if cards and "default" not in (found.name for found in devices) else "default"


def _best_rate(name: str, candidates_hz: tuple[int, ...], cancelled: threading.Event) -> tuple[int, int]:
    """Return the first rate that a device's hardware has, else its highest; and the most channels that it has."""
    card = name.startswith("plughw:")
    device = name.replace("plughw:", "hw:", 1)
    offered, reason = _offered(device)
    if "RATE" not in offered:
        raise AudioError(f"arecord cannot open {device!r}: {reason}; is another program using it?")
    most = max(map(int, re.findall(r"\d+", offered.get("CHANNELS", "1"))))
    bounds = [int(number) for number in re.findall(r"\d+", offered["RATE"])]
    for rate_hz in candidates_hz:
        if cancelled.is_set():
            raise AudioError("closed while the microphone was being opened")
        if bounds[0] <= rate_hz <= bounds[-1] and (not card or _has(device, rate_hz, offered)):
            return rate_hz, most
    if len(candidates_hz) == 1:
        raise AudioError(f"{name!r} cannot record at {candidates_hz[0]} Hz; its rates: {offered['RATE']}; set rate_hz")
    return bounds[-1], most


def _offered(device: str) -> tuple[dict[str, str], str]:
    """Return the parameters that a device offers, by name, and what arecord said last."""
    _, _, text = _run("-D", device, "--dump-hw-params", "-t", "raw", "-s", "1", "/dev/null")
    return dict(re.findall(r"^([A-Z_]+): +(.+)$", text, re.MULTILINE)), last_line(text.encode())


def _has(device: str, rate_hz: int, offered: dict[str, str]) -> bool:
    """Ask hardware for one sample at a rate: within its bounds it may still lack some."""
    formats, channels = offered["FORMAT"].split(), re.findall(r"\d+", offered["CHANNELS"])
    chosen = "S16_LE" if "S16_LE" in formats else formats[0]
    options = f"-t raw -f {chosen} -c {channels[0]} -r {rate_hz} -s 1 /dev/null"
    status, _, text = _run("-D", device, *options.split())
    return status == 0 and "not accurate" not in text


def _run(*arguments: str) -> tuple[int, str, str]:
    try:
        environment = {**os.environ, "LC_ALL": "C"}
        result = subprocess.run(["arecord", *arguments], capture_output=True, timeout=_TIMEOUT_S, env=environment)
    except subprocess.TimeoutExpired as error:
        raise AudioError(f"arecord {' '.join(arguments)} does not answer for {_TIMEOUT_S:g} s") from error
    except OSError as error:
        raise AudioError(f"cannot run arecord: {error.strerror}: sudo apt install alsa-utils") from error
    return result.returncode, result.stdout.decode(errors="replace"), result.stderr.decode(errors="replace")


def _names(devices: Sequence[CaptureDevice]) -> str:
    return ", ".join(
        f"{device.name!r} ({device.description})" if device.description else repr(device.name) for device in devices
    )
