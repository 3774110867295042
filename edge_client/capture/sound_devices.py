"""Which capture device, at which rate: by name, because a device's number changes from boot to boot."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from edge_client.errors import AudioError

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


def _names(devices: Sequence[CaptureDevice]) -> str:
    return ", ".join(
        f"{device.name!r} ({device.description})" if device.description else repr(device.name) for device in devices
    )
