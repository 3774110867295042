"""What a device promised, and what came: hours that were heard, detections, and those that the owner calls wrong."""

from collections.abc import Mapping
from typing import Any

from edge_client.room.reservoir import local_cell

# Days of which the status speaks.
STATUS_DAYS = 7


def observed_rates(
    heard_s: Mapping[tuple[int, int], float],
    detections: Mapping[tuple[int, str], int],
    promised: float,
    denied: list[tuple[float, str]],
    now: float,
) -> dict[str, Any]:
    """Return the status's ``room``, with for each label that was detected the ``detections`` of the last days, and of
    them those that the owner said were ``wrong``.
    """
    first = local_cell(now)[0] - STATUS_DAYS + 1
    seconds = sum(heard for (day, _), heard in heard_s.items() if day >= first)
    labels: dict[str, dict[str, int]] = {}
    for (day, label), count in detections.items():
        if day >= first:
            labels.setdefault(label, {"detections": 0, "wrong": 0})["detections"] += count
    for moment, label in denied:
        if local_cell(moment)[0] >= first and label in labels:
            labels[label]["wrong"] = min(labels[label]["wrong"] + 1, labels[label]["detections"])
    return {"promised_per_hour": promised, "hours": round(seconds / 3600, 2), "days": STATUS_DAYS, "labels": labels}


def rate_sentences(room: Mapping[str, Any]) -> list[str]:
    """Return what a person reads of the status's ``room``: what was promised, and for each label what came."""
    promised, hours = room["promised_per_hour"], room["hours"]
    unit = "false alarm" if promised == 1 else "false alarms"
    heard = "less than an hour" if hours < 1 else "1 hour" if hours < 1.5 else f"{hours:.0f} hours"
    found = [
        f"each sound may give {promised:g} {unit} an hour; this device listened for {heard} in the last "
        f"{room['days']} days"
    ]
    for label, counts in sorted(room["labels"].items()):
        detections, wrong = counts["detections"], counts["wrong"]
        rate = f", {wrong / hours:.1f} an hour" if wrong and hours >= 1 else ""
        times = "once" if detections == 1 else f"{detections} times"
        found.append(f"{label}: heard {times}; you called {wrong or 'none'} of them wrong{rate}")
    return found


def rate_lines(room: Mapping[str, Any]) -> list[str]:
    """Return these sentences as lines of `auricle-edge status`."""
    first, *labels = rate_sentences(room)
    return [f"room      {first}", *(f"          {line}" for line in labels)]
