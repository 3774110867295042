"""What became of the new sounds: which class the fleet made of them, and who recognises them in the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from demo.devices import Device
from fleet_protocol.arrays import Floats


@dataclass(frozen=True)
class Report:
    """A device's report of a new sound.

    Attributes:
        round_number: Number of the round.
        user: Name of the user.
        label: The owner's word for the sound, which did not travel.
        class_id: Class that the fleet made of it; None: none in this round.
    """

    round_number: int
    user: str
    label: str
    class_id: str | None


@dataclass(frozen=True)
class NewClass:
    """What became of a new sound.

    Attributes:
        label: The owners' word.
        devices: Users whose devices met it.
        class_id: The fleet's class; None where none was made of it.
        round: Round in which the class was found.
        matched: Whether every device that met it was given one and the same class, and no other sound was.
    """

    label: str
    devices: tuple[str, ...]
    class_id: str | None
    round: int | None
    matched: bool


def reports_of(detail: Mapping[str, Any], names: Mapping[str, Mapping[int, str]]) -> list[Report]:
    """Read the reports of a round, the body of ``GET /v1/rounds/{id}``, with the owners' words for slots by user."""
    if not (discovery := detail["discovery"]):
        return []
    by_id = {item["device_id"]: item["name"] for item in detail["participants"]}
    classes = {index: group["class_id"] for group in discovery["groups"] for index in group["members"]}
    number = detail["summary"]["round_id"]
    return [
        Report(number, user := by_id[item["device_id"]], names[user][item["slot"]], classes.get(index))
        for index, item in enumerate(discovery["reports"])
    ]


def new_classes(reports: Sequence[Report], owners: Mapping[str, tuple[str, ...]]) -> list[NewClass]:
    """Compare what the aggregator made of all rounds' reports with the truth: whose devices met each new label."""
    given: dict[tuple[str, str], Report] = {}
    for report in reports:
        if report.class_id is not None:
            given.setdefault((report.label, report.user), report)
    found = []
    for label, users in owners.items():
        own = [given[label, user] for user in users if (label, user) in given]
        classes = {report.class_id for report in own}
        foreign = {report.class_id for (other, _), report in given.items() if other != label}
        first = min(own, key=lambda report: report.round_number, default=None)
        matched = len(own) == len(users) and len(classes) == 1 and not classes & foreign
        class_id, number = (first.class_id, first.round_number) if first else (None, None)
        found.append(NewClass(label, users, class_id, number, matched))
    return found


def recognition(devices: Sequence[Device], held_out: Mapping[str, Floats], found: Sequence[NewClass]) -> list[Any]:
    """Measure how each device recognises each new sound among all classes that it knows.

    ``held_out`` has features of the held-out recordings by label, float32 [n, frames, coefficients].

    Returns:
        For each sound and device that has a class for it: ``label``, ``user``, ``heard`` (whether the device ever had
        recordings of it), ``recordings``, ``recognised`` and ``mistaken`` (share of them that it names rightly, and of
        the recordings of its other labels that it takes for this one, in percent), ``classes`` (to choose from).
    """
    rows = []
    for device in devices:
        label_map = device.listening_labels()
        chosen = device.heard_as(held_out, label_map.listening_mask)
        others = np.concatenate([chosen[label] for label in device.labels])
        for new in found:
            slot = None if new.class_id is None else label_map.slot_of_class(new.class_id)
            # An owner's word for a sound that found no class: the device recognises it all the same.
            slot = label_map.slot_of(new.label) if slot is None and new.label in label_map.names else slot
            if slot is None:
                continue
            rows.append(
                {
                    "label": new.label,
                    "user": device.name,
                    "heard": device.name in new.devices,
                    "recordings": len(chosen[new.label]),
                    "recognised": 100 * float((chosen[new.label] == slot).mean()),
                    "mistaken": 100 * float((others == slot).mean()),
                    "classes": int(label_map.mask.sum()),
                }
            )
    order = [new.label for new in found]
    return sorted(rows, key=lambda row: (order.index(row["label"]), row["user"]))
