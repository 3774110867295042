"""A fleet of three devices goes through the schedule, and what its users gain by it is measured."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from threading import Event
from typing import Any

from demo.devices import (
    Device,
    FleetKind,
    NewClass,
    link,
    new_classes,
    own_accuracy,
    read_held_out,
    recognition,
    reports_of,
    train_alone,
)
from demo.fleet import Fleet
from demo.report import Terminal
from demo.split import Split, new_sound_rounds
from edge_client.clips.public_set import build_public_set
from fleet_protocol.bundle.bundle_file import read_bundle
from fleet_protocol.bundle.ready_bundles import find_bundle
from fleet_protocol.messages.rest import RoundPlan, parse
from fleet_protocol.numbers.arrays import Floats

# A round of the demonstration takes seconds, on a busy machine minutes; one that takes so long has failed.
_ROUND_S = 600.0
# Recordings of a label that a device judges its models by after each round; the last tables are of all.
_JUDGED = 15

Figures = dict[str, Any]


# Gudur & Perepu 2021, table 1.
PUBLISHED = FleetKind(
    "published", "cepstra, networks trained from scratch (as published)", ("cnn2", "cnn3", "dscnn3"), "zero_shot"
)
PRETRAINED = FleetKind(
    "base", "pretrained front end 'base', heads alone are trained", ("base", "base_hidden", "base"), share=0.5
)
SOUNDS = FleetKind(
    "sounds",
    "everyday sounds on the pretrained front end 'sounds', heads alone are trained",
    ("sounds",) * 3,
    share=0.5,
)


def play(
    kind: FleetKind, split: Split, rounds: int, seed: int, folder: Path, terminal: Terminal, stop: Event
) -> Figures:
    """Start a fleet, run all rounds, stop, and measure what was learned.

    Args:
        kind: what its devices listen with.
        split: which recordings go where.
        rounds: how many, at least 3.
        seed: of everything random.
        folder: of this run; it must not exist.
        terminal: shows how far it is.
        stop: is set where all shall end.

    Returns:
        ``users``, ``average``, ``rounds``, ``new_classes`` and ``recognition``, as JSON; accuracies are percentages,
        and None where the strategy does not measure them.
    """
    link(split.test, folder / "test")
    link({label: clips[:_JUDGED] for label, clips in split.test.items()}, folder / "judged")
    devices = [
        Device(f"user {number}", name, labels, folder / f"user-{number}", find_bundle(name))
        for number, (name, labels) in enumerate(zip(kind.bundles, split.deal.devices, strict=True), 1)
    ]
    link(split.public, folder / "public")
    settings, size = read_bundle(devices[0].bundle).manifest.feature_settings, len(split.public[split.deal.known[0]])
    public_set = build_public_set(folder / "public", settings, split.deal.known, size, seed)
    terminal.say(kind.key, "the aggregator and the devices start")
    with ThreadPoolExecutor(1) as aside, Fleet(folder, _ROUND_S, stop) as fleet:
        fleet.publish(public_set)
        for index, device in enumerate(devices):
            device.prepare(fleet.url, fleet.enrol_token, folder / "judged", split.per_round, seed + index)
            device.add(split.training[index])
            fleet.start_device(device.name, device.config)
        fleet.wait_for_devices({device.name for device in devices})
        request: Figures = {} if kind.strategy is None else {"strategy": kind.strategy}
        requests = [request | {"quorum": 1.0, "seed": seed + number} for number in range(1, rounds + 1)]
        learning = []

        def begun(plan: RoundPlan) -> None:
            terminal.say(kind.key, "beside the rounds, a twin of every device learns by itself")
            job = (devices, split, public_set, plan, rounds, folder / "alone")
            learning.append(aside.submit(train_alone, *job))

        played, found = _rounds(kind.key, requests, fleet, devices, split, terminal, begun)
    twins = learning[0].result()
    terminal.say(kind.key, "the devices' models are asked for what they know")
    held_out = read_held_out(folder / "test", devices[0].bundle)
    recognised = recognition(devices, held_out, found)
    users: list[Figures] = [
        {"name": device.name, "architecture": device.architecture, "labels": list(device.labels)}
        | _listening(device, twin, held_out, recognised)
        for device, twin in zip(devices, twins, strict=True)
    ]
    return {
        "users": users,
        "average": {key: _mean(user[key] for user in users) for key in list(users[0])[3:]},
        "rounds": played,
        "new_classes": [{key: value for key, value in asdict(new).items() if key != "class_id"} for new in found],
        "recognition": recognised,
    }


def _rounds(
    key: str,
    requests: Sequence[Figures],
    fleet: Fleet,
    devices: Sequence[Device],
    split: Split,
    terminal: Terminal,
    begun: Callable[[RoundPlan], None],
) -> tuple[list[Figures], list[NewClass]]:
    """Run all rounds, ``begun`` of the first one's plan; return what they measured, and what became of new sounds."""
    rounds, reports, appears = [], [], new_sound_rounds(len(requests))
    owners: dict[str, tuple[str, ...]] = dict.fromkeys(split.deal.new, ())
    for number, request in enumerate(requests, 1):
        arrivals = [arrival for arrival in split.arrivals if appears[arrival.late] == number]
        for arrival in arrivals:
            device = devices[arrival.device]
            device.add({arrival.label: arrival.clips})
            owners[arrival.label] = tuple(dict.fromkeys((*owners[arrival.label], device.name)))
            met = f"{device.name} has {len(arrival.clips)} recordings of '{arrival.label}'"
            terminal.say(key, f"before round {number}: {met}", "yellow")
        before = time.monotonic()
        detail = fleet.run_round(request)
        if number == 1:
            begun(parse(RoundPlan, detail["plan"]))
        by_name = {item["name"]: item for item in detail["participants"]}
        rounds.append(
            {
                "round": number,
                "seconds": time.monotonic() - before,
                "appeared": list(dict.fromkeys(arrival.label for arrival in arrivals)),
                "users": [_user_round(by_name[device.name]) for device in devices],
            }
        )
        found = reports_of(detail, {device.name: device.names() for device in devices})
        terminal.round_done(key, rounds[-1], found)
        reports += found
    return rounds, new_classes(reports, owners)


def _user_round(participant: Mapping[str, Any]) -> Figures:
    """Return what a device said of a round.

    ``held_out_before`` and ``_after`` are of the held-out recordings: its own model as trained in the round, and the
    one that it listens with afterwards. ``local_``, ``global_`` and ``distilled_accuracy`` are of the public recordings
    of its labels: its own model, the fleet's consensus, and its own model after learning from the consensus.
    """
    before, after = participant["metrics"], participant["learned_metrics"]
    return {
        "name": participant["name"],
        "clips": participant["clips"],
        "held_out_after": after["held_out_accuracy"],
        "kept_own": participant["kept_own"],
        "local_accuracy": before.get("local_accuracy"),
        "global_accuracy": after.get("global_accuracy"),
        "distilled_accuracy": after.get("distilled_accuracy"),
        "held_out_before": before.get("held_out_accuracy"),
    }


def _listening(device: Device, twin: Device, held_out: Mapping[str, Floats], recognised: Sequence[Figures]) -> Figures:
    """Return what a device names rightly: its twin alone, itself, among the new sounds too, and of sounds never had."""
    never = [row["recognised"] for row in recognised if row["user"] == device.name and not row["heard"]]
    return {
        "alone": own_accuracy(twin, held_out, with_new=True),
        "after": own_accuracy(device, held_out, with_new=False),
        "with_new": own_accuracy(device, held_out, with_new=True),
        "never_heard": _mean(never),
    }


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None
