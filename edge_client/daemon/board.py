"""What the board says of itself: how hot its processor is, and how much memory a process holds."""

from __future__ import annotations

from pathlib import Path

_ZONES = Path("/sys/class/thermal")


def temperature_c(zones: Path = _ZONES) -> float | None:
    """Return the hottest thermal zone's temperature in degrees Celsius; None where there is none."""
    found = []
    for path in sorted(zones.glob("thermal_zone*/temp")):
        try:
            found.append(int(path.read_text()) / 1000.0)
        except (OSError, ValueError):  # a zone that is switched off cannot be read
            continue
    return max(found, default=None)


def resident_mb(pid: int | str = "self") -> float | None:
    """Return the memory that a process holds, in MB; None where it is gone."""
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024.0
    except OSError:
        return None
    return None
