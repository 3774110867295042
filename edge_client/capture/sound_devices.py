"""Which capture device, at which rate: by name, because a device's number changes from boot to boot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edge_client.errors import AudioError

# What sound hardware usually offers, in Hz.
USUAL_RATES_HZ = (8_000, 11_025, 16_000, 22_050, 32_000, 44_100, 48_000, 88_200, 96_000, 176_400, 192_000)

_HIDDEN = "one that another program has open may be hidden"
_WITHOUT = "to try it without one, play recordings: `auricle-edge init --play FOLDER`"


@dataclass(frozen=True)
class CaptureDevice:
    """A device that can record. ``rates_hz``: Usual rates that it offers, Hz; () where they were not queried."""

    name: str
    description: str = ""
    rates_hz: tuple[int, ...] = ()


def matching_device(wanted: str, devices: Sequence[CaptureDevice]) -> CaptureDevice:
    """Return the one device whose name or description contains ``wanted``, in any case; a whole name goes first.

    Raises AudioError if none or several do; names them.
    """
    text = wanted.casefold()
    exact = [device for device in devices if device.name.casefold() == text]
    found = exact or [device for device in devices if text in f"{device.name}\n{device.description}".casefold()]
    if len(found) == 1:
        return found[0]
    if found:
        raise AudioError(
            f"several microphones are named like {wanted!r}: {_names(found)}; put more of one's name into device"
        )
    raise AudioError(f"no microphone is named like {wanted!r}; {presence(devices)}")


def presence(devices: Sequence[CaptureDevice]) -> str:
    """Say which devices are there, and what to do when the wanted one is not."""
    if not devices:
        return f"no microphone is there: plug one in; the user needs the group audio, and {_HIDDEN}; {_WITHOUT}"
    return f"present: {_names(devices)}; name one by a part of its name, as device under [microphone]; {_HIDDEN}"


def candidate_rates(wanted_hz: int, model_hz: int) -> tuple[int, ...]:
    """Return the rates to try, the best first: a wanted one alone, else the model's, then the usual ones above it."""
    if wanted_hz:
        return (wanted_hz,)
    return (model_hz, *(rate for rate in USUAL_RATES_HZ if rate > model_hz))


def _names(devices: Sequence[CaptureDevice]) -> str:
    return ", ".join(
        f"{device.name!r} ({device.description})" if device.description else repr(device.name) for device in devices
    )
