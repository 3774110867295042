"""A fleet of three devices goes through the paper's homogeneous schedule."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aggregator_server.store.blobs import BlobFolder
from benchmarks.demo.alone import train_alone
from benchmarks.demo.devices import Device, link
from benchmarks.demo.display import Display
from benchmarks.demo.fleet import Fleet
from benchmarks.demo.fleets import FleetKind
from benchmarks.demo.outcome import NewClass, Recognition, RoundOutcome, new_classes, round_outcome
from benchmarks.demo.paper import ROUNDS, SHOWN_AS, published
from benchmarks.demo.recognition import (
    HeldOut,
    Impressions,
    impressions,
    own_accuracy,
    read_held_out,
    recognise,
    similarity,
)
from benchmarks.demo.result import Result, User
from benchmarks.demo.split import Split
from edge_client.clips.public_set import build_public_set
from fleet_protocol.bundle import read_bundle
from fleet_protocol.feature_settings import FeatureSettings
from fleet_protocol.messages import RoundPlan, parse
from fleet_protocol.ready_bundles import find_bundle
from model_export.quiet import native_output_hidden

# A round of the demonstration takes seconds, on a busy machine minutes; one that takes so long has failed.
_ROUND_S = 600.0


@dataclass(frozen=True)
class Options:
    """What to run.

    Attributes:
        rounds: at least 3.
        seed: of everything random.
        settings: of the published fleet's local method; those left out take their defaults.
        folder: of this run; it must not exist.
        started: ``time.monotonic()`` at the start of the command.
    """

    rounds: int
    seed: int
    settings: Mapping[str, Any]
    folder: Path
    started: float


@dataclass(frozen=True)
class _Course:
    """What the rounds left.

    Attributes:
        plan: of the first.
        rounds: their outcomes.
        uploads: (round, user, digest, names of slots) of every upload with reports.
    """

    plan: RoundPlan
    rounds: tuple[RoundOutcome, ...]
    uploads: tuple[tuple[int, str, str, Mapping[int, str]], ...]


def run(options: Options, kind: FleetKind, source: str, split: Split, display: Display) -> Result:
    """Start, run all rounds, stop, and look at what was learned.

    Args:
        options: how.
        kind: what the devices listen with.
        source: says where the recordings are from.
        split: of them.
        display: is told what happens.

    Raises:
        DemoError: something failed; nothing that was started runs on.
        AuricleError: recordings or models cannot be used.
    """
    setting = _setting(kind, source, split, options)
    display.start(setting)
    test = options.folder / "test"
    link(split.test, test)
    link(split.public, options.folder / "public")
    size = len(split.public[split.deal.known[0]])
    display.stage("the public set's features are computed")
    settings = read_bundle(find_bundle(kind.bundles[0])).manifest.feature_settings
    public_set = build_public_set(options.folder / "public", settings, split.deal.known, size, options.seed)
    devices = [
        Device(f"user {number}", name, labels, options.folder / f"user-{number}", find_bundle(name))
        for number, (name, labels) in enumerate(zip(kind.bundles, split.deal.devices, strict=True), 1)
    ]
    display.stage("the aggregator and the devices start")
    with Fleet(options.folder, _ROUND_S) as fleet:
        fleet.publish(public_set)
        for index, device in enumerate(devices):
            device.prepare(fleet.url, fleet.enrol_token, test, split.per_round, options.seed + index)
            device.add(split.training[index])
            fleet.start_device(device.name, device.config)
        fleet.wait_for_devices({device.name for device in devices})
        course = _run_rounds(options, kind, fleet, devices, split, display)
    display.stage("a twin of every device learns by itself")
    twins = train_alone(devices, split, public_set, course.plan, options.rounds, options.folder / "alone")
    display.stage("the devices' models are asked for what they know")
    held_out = _held_out(test, settings)
    users = _users(devices, twins, held_out)
    return _result(options, kind, setting, split, devices, users, course, held_out)


def _setting(kind: FleetKind, source: str, split: Split, options: Options) -> tuple[str, ...]:
    """Say in sentences what will be done on what, and what the paper's sizes were."""
    deal, paper = split.deal, published(split.deal)
    users = "; ".join(
        f"user {number}: {SHOWN_AS[name]}, {', '.join(labels)}"
        for number, (name, labels) in enumerate(zip(kind.bundles, deal.devices, strict=True), 1)
    )
    arrivals = "; ".join(
        f"before round {arrival.round_number}, {len(arrival.clips)} of {arrival.label} for user {arrival.device + 1}"
        for arrival in split.arrivals
    )
    test = [len(clips) for clips in split.test.values()]
    return (
        f"{kind.title[0].upper()}{kind.title[1:]}.",
        f"Recordings: {source}. {users}. New on the way: {', '.join(deal.new)}.",
        f"{options.rounds} rounds (paper: {ROUNDS}), sizes scaled down to what is there: public set "
        f"{len(split.public[deal.known[0]])} recordings of each label (paper: {deal.paper.public}); "
        f"{split.per_round[0]} to {split.per_round[1]} of a label in a round (paper: {deal.paper.per_round[0]} to "
        f"{deal.paper.per_round[1]}); held out {min(test)} to {max(test)}. New sounds: {arrivals} "
        f"(paper: {paper.arrivals[0]}, then {paper.arrivals[1]}).",
        "No speaker (or source of a sound) is in two of these: public set, held-out recordings, each device.",
    )


def _run_rounds(
    options: Options, kind: FleetKind, fleet: Fleet, devices: list[Device], split: Split, display: Display
) -> _Course:
    users = [device.name for device in devices]
    plan: RoundPlan | None = None
    rounds: list[RoundOutcome] = []
    uploads: list[tuple[int, str, str, Mapping[int, str]]] = []
    for number in range(1, options.rounds + 1):
        for arrival in split.arrivals:
            if arrival.round_number == number:
                devices[arrival.device].add({arrival.label: arrival.clips})
                display.arrival(number, users[arrival.device], arrival.label, len(arrival.clips))
        before = time.monotonic()
        detail = fleet.run_round(_request(options, kind, number), display.watch)
        plan = plan or parse(RoundPlan, detail["plan"])
        names = {device.name: dict(enumerate(device.label_map().names)) for device in devices}
        outcome = round_outcome(detail, time.monotonic() - before, names, users)
        rounds.append(outcome)
        display.round_done(outcome)
        reporting = {report.user for report in outcome.reports}
        uploads += [
            (number, item["name"], item["upload"], names[item["name"]])
            for item in sorted(detail["participants"], key=_name)
            if item["name"] in reporting
        ]
    assert plan is not None
    return _Course(plan, tuple(rounds), tuple(uploads))


def _request(options: Options, kind: FleetKind, number: int) -> dict[str, Any]:
    request = {"quorum": 1.0, "seed": options.seed + number}
    if kind.strategy is None:
        return request
    return request | {"strategy": kind.strategy, "settings": dict(options.settings)}


def _name(item: Mapping[str, Any]) -> str:
    return str(item["name"])


def _result(
    options: Options,
    kind: FleetKind,
    setting: tuple[str, ...],
    split: Split,
    devices: list[Device],
    users: tuple[User, ...],
    course: _Course,
    held_out: HeldOut,
) -> Result:
    appeared: dict[int, list[str]] = {}
    owners: dict[str, tuple[str, ...]] = dict.fromkeys(split.deal.new, ())
    for arrival in split.arrivals:
        labels = appeared.setdefault(arrival.round_number, [])
        labels += [arrival.label] * (arrival.label not in labels)
        name = devices[arrival.device].name
        owners[arrival.label] += (name,) * (name not in owners[arrival.label])
    found = new_classes(course.rounds, owners)
    words = {item.class_id: item.label for item in found if item.class_id is not None}
    return Result(
        kind=kind,
        setting=setting,
        published=published(split.deal),
        users=users,
        rounds=course.rounds,
        appeared=appeared,
        new_classes=found,
        recognition=_recognition(devices, held_out, found),
        similarities=tuple(similarity(device, words) for device in devices),
        impressions=_impressions(options.folder, course, words),
        seconds=time.monotonic() - options.started,
    )


def _held_out(test: Path, settings: FeatureSettings) -> HeldOut:
    with native_output_hidden():  # the runtime greets everybody who opens a network
        return read_held_out(test, settings)


def _users(devices: list[Device], twins: list[Device], held_out: HeldOut) -> tuple[User, ...]:
    with native_output_hidden():  # the runtime greets everybody who opens a model
        return tuple(
            User(
                device.name,
                device.architecture,
                device.labels,
                alone=own_accuracy(twin, held_out, with_new=True),
                after=own_accuracy(device, held_out, with_new=False),
                with_new=own_accuracy(device, held_out, with_new=True),
            )
            for device, twin in zip(devices, twins, strict=True)
        )


def _recognition(devices: list[Device], held_out: HeldOut, found: tuple[NewClass, ...]) -> tuple[Recognition, ...]:
    with native_output_hidden():  # the runtime greets everybody who opens a model
        rows = [row for device in devices for row in recognise(device, held_out, found)]
    return tuple(sorted(rows, key=lambda row: ([item.label for item in found].index(row.label), row.user)))


def _impressions(folder: Path, course: _Course, words: Mapping[str, str]) -> dict[int, list[Impressions]]:
    blobs = BlobFolder(folder / "aggregator" / "blobs")
    found: dict[int, list[Impressions]] = {}
    for number, user, sha256, names in course.uploads:
        found.setdefault(number, []).append(impressions(user, blobs.read(sha256), names, words))
    return found
