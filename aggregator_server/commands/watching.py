"""Which devices are away, so that whoever follows a round does not wait for them."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import inf
from typing import Any, get_args

from aggregator_server.client import Client
from aggregator_server.commands import print_table, rich_table, text_of
from aggregator_server.rounds.devices.lateness import late_after
from fleet_protocol.messages import RoundState

AWAY_S = 120.0
"""Time after which a device that was not heard of is away, s. A device asks for work at least every minute, and the
server writes down half a minute later when it was heard of."""
# Of a device that uploaded: a small board may train on the result for long, and asks for nothing meanwhile.
_LONGEST_SILENCE_S = 900.0


def awaited(client: Client, detail: Mapping[str, Any], now: datetime) -> bool:
    """Tell whether a device that is there has yet to apply the result of a round that is done.

    Args:
        now: a time with a zone.
    """
    missing = [item for item in detail["participants"] if not item["learned"]]
    if not missing:
        return False
    silences = {info["device_id"]: _silence_s(info, now) for info in client.get("/v1/devices")}
    return any(
        silences.get(item["device_id"], inf) <= (AWAY_S if item["upload"] is None else _LONGEST_SILENCE_S)
        for item in missing
    )


def print_left_out(client: Client, round_id: int) -> None:
    """Say on standard error which devices a round that was just opened leaves out, because they are away."""
    taken = {item["device_id"] for item in client.get(f"/v1/rounds/{round_id}")["participants"]}
    _print([info for info in client.get("/v1/devices") if info["device_id"] not in taken], "is left out")


def print_not_awaited(client: Client, detail: Mapping[str, Any]) -> None:
    """Say on standard error which devices of a round have not applied its result, because they are away."""
    from aggregator_server.store.tables import DONE

    missing = {item["device_id"] for item in detail["participants"] if not item["learned"]}
    if missing and detail["summary"]["state"] == DONE:
        away = [info for info in client.get("/v1/devices") if info["device_id"] in missing]
        _print(away, "has not applied the result")


def _print(devices: Iterable[Mapping[str, Any]], what: str) -> None:
    now = datetime.now(UTC)
    for info in sorted(devices, key=lambda info: str(info["name"])):
        silence = _silence_s(info, now)
        if AWAY_S < silence < inf:
            print(f"{info['name']} {what}: last heard of {_in_words(silence)} ago", file=sys.stderr, flush=True)


def _silence_s(info: Mapping[str, Any], now: datetime) -> float:
    """Return for how long a device was not heard of, s; infinite for one that was shut out."""
    return inf if info["revoked_at"] else (now - datetime.fromisoformat(info["seen_at"])).total_seconds()


def _in_words(seconds: float) -> str:
    for unit, length in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


_PAUSE_S = 1.0
# Metrics of devices that are shares in percent (docs/protocol.md), of an upload and of a report after the round, in
# plain words; and which of them says among how many classes.
_SHARES = (
    ("metrics", "global_accuracy", "classes", "the fleet's model before the round"),
    ("metrics", "local_accuracy", "classes", "its model after training"),
    ("metrics", "held_out_accuracy", "held_out_classes", "its test recordings after training"),
    ("learned_metrics", "global_accuracy", "classes", "the fleet's model after the round"),
    ("learned_metrics", "distilled_accuracy", "classes", "its model after the round"),
    ("learned_metrics", "held_out_accuracy", "held_out_classes", "its test recordings after the round"),
)
_CLIPS = {"own": "its own clips", "taught": "its own clips, learned", "public": "public recordings"}
_OPEN, _DONE, _FAILED = get_args(RoundState)
_STATUS = {_DONE: 0, _FAILED: 3}  # of the command

Detail = dict[str, Any]


@dataclass(frozen=True)
class Seat:
    """What a selected device has done in a round so far.

    Attributes:
        state: One of waiting, late, uploaded, gave nothing, learned or kept its own.
        after_s: Time from the round's opening to its upload, s.
        details: Number of clips, or why it gave nothing.
    """

    name: str
    state: str
    after_s: float | None
    details: str

    def line(self) -> str:
        """Return it as a line of text."""
        after = "" if self.after_s is None else f" after {self.after_s:.0f} s"
        return f"{self.name}: {self.state}{after}{f' ({self.details})' if self.details else ''}"


def watch(client: Client, round_id: int, *, learned: bool, as_json: bool) -> int:
    """Follow a round until it ends; return the exit status.

    Args:
        learned: whether to go on until every selected device has applied the result, but those that are away.
        as_json: whether to print an object a line: what changed, and at the end the whole round.

    Raises:
        ServerError: the server does not answer, or there is no such round.
    """
    address = f"/v1/rounds/{round_id}"
    screen = _Live() if sys.stdout.isatty() and not as_json else _Lines(as_json=as_json)
    with screen:
        while True:
            detail: Detail = client.get(address)
            now = datetime.now(UTC)
            taken = seats(detail, _troubles(client, detail), now)
            screen.show(detail, taken)
            state = detail["summary"]["state"]
            if state != _OPEN and not (learned and state == _DONE and awaited(client, detail, now)):
                break
            time.sleep(_PAUSE_S)
    if as_json:
        print(json.dumps({"event": detail["summary"]["state"], "round": detail}), flush=True)
    else:
        _print_result(detail, taken)
    if learned:
        print_not_awaited(client, detail)
    return _STATUS[detail["summary"]["state"]]


def seats(detail: Mapping[str, Any], troubles: Mapping[str, str], now: datetime) -> tuple[Seat, ...]:
    """Return what each selected device has done so far, in the order of names.

    Args:
        troubles: why devices could not contribute, as they say.
        now: a time with a zone.
    """
    opened = datetime.fromisoformat(detail["summary"]["opened_at"])
    waited = (now - opened).total_seconds()
    participants = sorted(detail["participants"], key=_name)
    uploads = [item["uploaded_at"] for item in participants]
    times = [None if upload is None else _seconds(opened, upload) for upload in uploads]
    late = waited > late_after([after for after in times if after is not None], len(times))
    found = [
        Seat(item["name"], _state(item, detail["summary"]["state"], late=late), after, _details(item, troubles))
        for item, after in zip(participants, times, strict=True)
    ]
    return tuple(found)


def _seconds(opened: datetime, text: str) -> float:
    return (datetime.fromisoformat(text) - opened).total_seconds()


def _state(item: Mapping[str, Any], state: str, *, late: bool) -> str:
    if item["learned"]:
        return "kept its own model" if item["kept_own"] else "learned"
    if item["upload"] is not None:
        return "uploaded"
    if state != _OPEN:
        return "gave nothing"
    return "late" if late else "waiting"


def _details(item: Mapping[str, Any], troubles: Mapping[str, str]) -> str:
    if item["upload"] is None:
        return troubles.get(item["device_id"], "")
    return "" if item["clips"] is None else f"{item['clips']} clips"


def _title(detail: Detail) -> str:
    summary = detail["summary"]
    until = "" if summary["deadline_at"] is None else f", until {text_of(summary['deadline_at'])} UTC"
    state = _OPEN + until if summary["state"] == _OPEN else summary["state"]
    return f"round {summary['round_id']}: {summary['strategy']}, {summary['selected']} devices, {state}"


class _Lines:
    """Prints what changed since it was last shown, a line each."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._shown: set[object] = set()

    def __enter__(self) -> _Lines:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def show(self, detail: Detail, taken: Iterable[Seat]) -> None:
        if not self._shown:
            self._shown.add("title")
            self._print(_title(detail), {"event": _OPEN, "round_id": detail["summary"]["round_id"]})
        for seat in taken:
            if seat.state != "waiting" and seat not in self._shown:
                self._shown.add(seat)
                details = {"device": seat.name, "after_s": seat.after_s, "details": seat.details}
                self._print(seat.line(), {"event": seat.state} | details)

    def _print(self, line: str, document: dict[str, Any]) -> None:
        print(json.dumps(document) if self._as_json else line, flush=True)


class _Live:
    """Shows the round's devices at a terminal, over and over in one place."""

    def __init__(self) -> None:
        from rich.live import Live

        self._live = Live(auto_refresh=False, transient=True)

    def __enter__(self) -> _Live:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def show(self, detail: Detail, taken: Iterable[Seat]) -> None:
        lines = [[seat.name, seat.state, _time(seat.after_s), seat.details] for seat in taken]
        self._live.update(rich_table(("device", "state", "after", ""), lines, _title(detail)), refresh=True)


def _time(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.0f} s"


def _troubles(client: Client, detail: Detail) -> dict[str, str]:
    """Return why devices could not contribute, as they say; asked for only while an upload is missing."""
    if all(item["upload"] is not None for item in detail["participants"]):
        return {}
    return {item["device_id"]: str(item["trouble"]) for item in client.get("/v1/devices")}


def _print_result(detail: Detail, taken: Sequence[Seat]) -> None:
    summary, participants = detail["summary"], sorted(detail["participants"], key=_name)
    took = _seconds(datetime.fromisoformat(summary["opened_at"]), summary["closed_at"])
    reason = f": {summary['reason']}" if summary["reason"] else ""
    print(f"round {summary['round_id']} {summary['state']} after {took:.0f} s{reason}")
    lines = [
        (seat.name, seat.state, seat.details, accuracy_of(detail, item))
        for item, seat in zip(participants, taken, strict=True)
    ]
    if lines:
        print_table(("device", "state", "", "accuracy"), lines)


def _name(participant: Mapping[str, Any]) -> tuple[str, str]:
    return str(participant["name"]), str(participant["device_id"])


def accuracy_of(detail: Mapping[str, Any], participant: Mapping[str, Any]) -> str:
    """Return what is known of a device's accuracy in a round, with the number of classes that it chose among."""
    found = []
    device_id = participant["device_id"]
    if device_id in detail["accuracies"]:
        classes = detail["accuracy_classes"].get(device_id)
        found.append(f"what it uploaded: {100 * detail['accuracies'][device_id]:.1f} %{_among(classes)}")
    for part, name, among, words in _SHARES:
        metrics = participant[part]
        if name in metrics and metrics.get(among) != 0:  # a model without labels recognises nothing
            found.append(f"{words}: {metrics[name]:.1f} %{_among(metrics.get(among))}")
    found += map(_recognition, participant["recognition"])
    return "; ".join(found)


def _recognition(found: Mapping[str, Any]) -> str:
    """Return what a device recognises before a round and with its result (``schemas.RecognitionInfo``)."""
    after = f"{found['after']:.1f} %{_among(found['classes_after'])}"
    if found["before"] is None:
        return f"{_CLIPS[found['of']]}: first model {after}"
    return f"{_CLIPS[found['of']]}: before {found['before']:.1f} %{_among(found['classes_before'])}, after {after}"


def _among(classes: float | None) -> str:
    return "" if classes is None else f" of {classes:.0f} classes"
