"""A round that is followed: what each of its devices has done, and which are away, so that nobody waits for them."""

import json
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from math import inf
from typing import Any

from aggregator_server.client import Client
from aggregator_server.commands import print_table, text_of
from aggregator_server.limits import AWAY_S

_PAUSE_S = 1.0
_CLIPS = {"own": "its own clips", "taught": "its own clips, which it learned from", "public": "public recordings"}
_OPEN, _DONE = "open", "done"
_STATES = {"missing": "gave nothing", "kept_own": "kept its own model"}  # others are called as the server does
_FAILED_STATUS = 3  # of the command

_Detail = Mapping[str, Any]


@dataclass(frozen=True)
class Seat:
    """What a selected device has done in a round so far."""

    name: str
    state: str  # one of waiting, late, uploaded, gave nothing, learned or kept its own
    after_s: float | None  # time from the round's opening to its upload, s
    details: str  # number of clips, or why it gave nothing

    def line(self) -> str:
        """Return it as a line of text."""
        after = "" if self.after_s is None else f" after {self.after_s:.0f} s"
        return f"{self.name}: {self.state}{after}{f' ({self.details})' if self.details else ''}"


def watch(client: Client, round_id: int, *, learned: bool, as_json: bool) -> int:
    """Follow a round until it ends: print what changes, a line each, and at the end the result; return the exit status.

    With ``learned`` it goes on until every selected device has applied the result, but those that are away. With
    ``as_json`` it prints the round at its end alone. Raises ServerError: there is no answer, or no such round.
    """
    shown: set[Seat] = set()
    begun = as_json
    while True:
        detail: _Detail = client.get(f"/v1/rounds/{round_id}")
        summary = detail["summary"]
        if not begun:
            print(_title(detail), flush=True)
            begun = True
        taken = _seats(detail, _troubles(client, detail))
        news = [seat for seat in taken if seat.state != "waiting" and seat not in shown]
        shown.update(news)
        if news and not as_json:
            print("\n".join(seat.line() for seat in news), flush=True)
        if summary["state"] != _OPEN and not (learned and summary["state"] == _DONE and _is_awaited(client, detail)):
            break
        time.sleep(_PAUSE_S)
    if as_json:
        print(json.dumps(detail))
    else:
        _print_result(detail, taken)
    if learned and summary["state"] == _DONE:
        _print_not_learned(client, detail)
    return 0 if summary["state"] == _DONE else _FAILED_STATUS


def state_of(summary: Mapping[str, Any]) -> str:
    """Return how a round stands; to an older server a cancelled one is failed."""
    return "cancelled" if summary.get("cancelled") else str(summary["state"])


def print_left_out(client: Client, round_id: int) -> None:
    """Say on standard error which devices a round that was just opened leaves out, because they are away."""
    detail: _Detail = client.get(f"/v1/rounds/{round_id}")
    opened = _time(detail["summary"]["opened_at"])
    for item in detail["left_out"]:
        _say_away(item["name"], "is left out", (opened - _time(item["seen_at"])).total_seconds())
    if more := detail["left_out_count"] - len(detail["left_out"]):
        print(f"{more} more are left out", file=sys.stderr, flush=True)


def _print_not_learned(client: Client, detail: _Detail) -> None:
    missing = {item["device_id"] for item in detail["participants"] if not item["learned"]}
    for info in sorted(client.get("/v1/devices") if missing else (), key=_name):
        silence = _silence_s(info)
        if info["device_id"] in missing and AWAY_S < silence < inf:
            _say_away(info["name"], "has not applied the result", silence)


def _say_away(name: str, what: str, silence_s: float) -> None:
    print(f"{name} {what}: last heard of {_in_words(silence_s)} ago", file=sys.stderr, flush=True)


def _is_awaited(client: Client, detail: _Detail) -> bool:
    """Say whether a device that is there has yet to apply the result of a round that is done."""
    missing = [item for item in detail["participants"] if not item["learned"]]
    silences = {info["device_id"]: _silence_s(info) for info in client.get("/v1/devices")} if missing else {}
    return any(silences.get(item["device_id"], inf) <= AWAY_S for item in missing)


def _silence_s(info: Mapping[str, Any]) -> float:
    """Return for how long a device was not heard of, s; infinite for one that was shut out."""
    return inf if info["revoked_at"] else (datetime.now(UTC) - _time(info["seen_at"])).total_seconds()


def _in_words(seconds: float) -> str:
    for unit, length in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


def _seats(detail: _Detail, troubles: Mapping[str, str]) -> tuple[Seat, ...]:
    """Return what each selected device has done so far, in the order of names; ``troubles`` as devices say them."""
    opened, found = _time(detail["summary"]["opened_at"]), []
    for item in sorted(detail["participants"], key=_name):
        after = None if item["upload"] is None else (_time(item["uploaded_at"]) - opened).total_seconds()
        found.append(Seat(item["name"], _STATES.get(item["state"], item["state"]), after, _details(item, troubles)))
    return tuple(found)


def _details(item: Mapping[str, Any], troubles: Mapping[str, str]) -> str:
    if item["upload"] is None:
        return troubles.get(item["device_id"], "")
    return "" if item["clips"] is None else f"{item['clips']} clips"


def _title(detail: _Detail) -> str:
    summary, private = detail["summary"], detail.get("private")
    is_open = summary["state"] == _OPEN and summary["deadline_at"] is not None
    until = f", until {text_of(summary['deadline_at'])} UTC" if is_open else ""
    how = "" if private is None else f", private in groups of {private['group_size']}"
    if private is not None and private["epsilon"] is not None:
        how += f" (epsilon {private['epsilon']:.3g})"
    devices = f"{summary['selected']} devices{how}"
    return f"round {summary['round_id']}: {summary['strategy']}, {devices}, {state_of(summary)}{until}"


def _troubles(client: Client, detail: _Detail) -> dict[str, str]:
    """Return why devices could not contribute, as they say; asked for only while an upload is missing."""
    if all(item["upload"] is not None for item in detail["participants"]):
        return {}
    return {item["device_id"]: str(item["trouble"]) for item in client.get("/v1/devices")}


def _print_result(detail: _Detail, taken: Iterable[Seat]) -> None:
    summary, participants = detail["summary"], sorted(detail["participants"], key=_name)
    took = (_time(summary["closed_at"]) - _time(summary["opened_at"])).total_seconds()
    reason = f": {summary['reason']}" if summary["reason"] else ""
    print(f"round {summary['round_id']} {state_of(summary)} after {took:.0f} s{reason}")
    lines = [
        (seat.name, seat.state, seat.details, accuracy_of(detail, item))
        for item, seat in zip(participants, taken, strict=True)
    ]
    if lines:
        print_table(("device", "state", "", "accuracy"), lines)


def _name(participant: Mapping[str, Any]) -> tuple[str, str]:
    return str(participant["name"]), str(participant["device_id"])


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def accuracy_of(detail: _Detail, participant: Mapping[str, Any]) -> str:
    """Return what is known of a device's accuracy in a round, with the number of classes that it chose among."""
    found = []
    device_id = participant["device_id"]
    if device_id in detail["accuracies"]:
        classes = detail["accuracy_classes"].get(device_id)
        found.append(f"what it uploaded names {_right(100 * detail['accuracies'][device_id], classes)}")
    for part in participant["recognition"]:  # a schemas.RecognitionInfo
        after = _right(part["after"], part["classes_after"])
        if part["before"] is None:
            said = f"its first model names {after}"
        else:
            said = f"before {_right(part['before'], part['classes_before'])}, after {after}"
        found.append(f"{_CLIPS[part['of']]}: {said}")
    return "; ".join(found)


def _right(percent: float, classes: float | None) -> str:
    among = "" if classes is None else f", out of {classes:.0f} classes"
    return f"{percent:.1f} % rightly{among}"
