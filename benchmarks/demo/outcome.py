"""What the demonstration found: accuracies by user and round, and what became of the new sounds."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class UserRound:
    """One device in one round; accuracies in percent.

    Attributes:
        name: of the user.
        clips: recordings that it trained on.
        held_out_after: the model that it listens with after the round, on recordings of people whom nobody has
            trained on.
        kept_own: whether it refused the round's result.
        local_accuracy: its own model before the consensus, on the public recordings of its labels.
        global_accuracy: the fleet's consensus, on the same.
        distilled_accuracy: its own model after learning from the consensus, on the same.
        held_out_before: its own model before the consensus, as ``held_out_after``.

    Where the strategy has no consensus, the figures of it are None.
    """

    name: str
    clips: int
    held_out_after: float
    kept_own: bool
    local_accuracy: float | None
    global_accuracy: float | None
    distilled_accuracy: float | None
    held_out_before: float | None


@dataclass(frozen=True)
class Report:
    """A device's report of a new sound, with the word that its owner has for it (which did not travel)."""

    user: str
    label: str
    class_id: str | None


@dataclass(frozen=True)
class RoundOutcome:
    """A round: its number, how long it took in seconds, its devices, and the reports of new sounds."""

    number: int
    seconds: float
    users: tuple[UserRound, ...]
    reports: tuple[Report, ...]


@dataclass(frozen=True)
class NewClass:
    """What became of a new sound.

    Attributes:
        label: the owners' word.
        devices: users whose devices met it.
        class_id: the fleet's class; None where none was made of it.
        round: in which round the class was found.
        matched: whether every device that met it was given one and the same class, and no other sound was.
    """

    label: str
    devices: tuple[str, ...]
    class_id: str | None
    round: int | None
    matched: bool


@dataclass(frozen=True)
class Recognition:
    """How a device recognises a new sound afterwards, among all classes that it knows, on held-out recordings.

    Attributes:
        label: the sound.
        user: the device.
        heard: whether it ever had recordings of it.
        recordings: of the sound.
        recognised: share of them that it names rightly, in percent.
        mistaken: share of the recordings of its other labels that it takes for this one, in percent.
        classes: number of classes that it chooses from.
    """

    label: str
    user: str
    heard: bool
    recordings: int
    recognised: float
    mistaken: float
    classes: int


def round_outcome(
    detail: Mapping[str, Any], seconds: float, names: Mapping[str, Mapping[int, str]], users: Sequence[str]
) -> RoundOutcome:
    """Read a round's description.

    Args:
        detail: of ``GET /v1/rounds/{id}``.
        seconds: that it took.
        names: the owner's word for every slot, by user.
        users: in order.
    """
    by_name = {item["name"]: item for item in detail["participants"]}
    by_id = {item["device_id"]: item["name"] for item in detail["participants"]}
    reports: tuple[Report, ...] = ()
    if discovery := detail["discovery"]:
        classes = {index: group["class_id"] for group in discovery["groups"] for index in group["members"]}
        reports = tuple(
            Report(by_id[item["device_id"]], names[by_id[item["device_id"]]][item["slot"]], classes.get(index))
            for index, item in enumerate(discovery["reports"])
        )
    rows = tuple(_user_round(name, by_name[name]) for name in users)
    return RoundOutcome(detail["summary"]["round_id"], seconds, rows, reports)


def _user_round(name: str, item: Mapping[str, Any]) -> UserRound:
    before, after = item["metrics"], item["learned_metrics"]
    return UserRound(
        name=name,
        clips=item["clips"],
        held_out_after=after["held_out_accuracy"],
        kept_own=item["kept_own"],
        local_accuracy=before.get("local_accuracy"),
        global_accuracy=after.get("global_accuracy"),
        distilled_accuracy=after.get("distilled_accuracy"),
        held_out_before=before.get("held_out_accuracy"),
    )


def new_classes(rounds: Sequence[RoundOutcome], owners: Mapping[str, tuple[str, ...]]) -> tuple[NewClass, ...]:
    """Hold what the aggregator made of the reports against the truth.

    Args:
        rounds: all of them.
        owners: the users whose devices met each new label.
    """
    given: dict[tuple[str, str], tuple[str, int]] = {}
    for outcome in rounds:
        for report in outcome.reports:
            if report.class_id is not None:
                given.setdefault((report.label, report.user), (report.class_id, outcome.number))
    found = []
    for label, users in owners.items():
        own = [given.get((label, user)) for user in users]
        classes = {item[0] for item in own if item is not None}
        foreign = {class_id for (other, _), (class_id, _) in given.items() if other != label}
        first = min((item for item in own if item is not None), key=lambda item: item[1], default=(None, None))
        matched = None not in own and len(classes) == 1 and not classes & foreign
        found.append(NewClass(label, users, first[0], first[1], matched))
    return tuple(found)


def mean_of(rounds: Sequence[RoundOutcome], user: str, value: Callable[[UserRound], float | None]) -> float | None:
    """Return the mean of a user's value over the rounds; None where the rounds have none."""
    values = [value(row) for outcome in rounds for row in outcome.users if row.name == user]
    return mean(values)


def mean(values: Sequence[float | None]) -> float | None:
    """Return the mean of what there is; None of nothing."""
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def row_of(outcome: RoundOutcome, user: str) -> UserRound:
    """Return a user's row of a round."""
    return next(row for row in outcome.users if row.name == user)
