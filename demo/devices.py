"""The three devices of a fleet: their folders, their configuration, and what they listen with afterwards."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import secrets
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from demo import ONE_THREAD, DemoError
from demo.split import Split
from edge_client.audio.recordings import Recordings
from edge_client.features.front_end import open_front_end
from edge_client.learning.training_job import TrainingJob, to_line
from edge_client.model.runtime import ModelRuntime
from edge_client.storage.device_state import DeviceState
from fleet_protocol.bundle.bundle_file import read_bundle
from fleet_protocol.bundle.labels import LabelMap
from fleet_protocol.client.identity import Identity
from fleet_protocol.ground.atomic_files import write_durably
from fleet_protocol.messages.public_set import PublicSet
from fleet_protocol.messages.rest import Choice, RoundPlan, Work
from fleet_protocol.numbers.arrays import Floats, Ints

_CONFIG = """\
[device]
name = {name}
state = "state"
threads = 1
seed = {seed}

[server]
url = {url}
enrol_token = {token}
longest_pause_s = 5

[model]
bundle = {bundle}

[recordings]
folder = "recordings"
per_round = [{low}, {high}]
evaluation = {evaluation}

[training]
nice = 0
"""


@dataclass(frozen=True)
class FleetKind:
    """What the devices of a fleet listen with."""

    key: str  # Name in tables and in the figures as JSON
    title: str  # Description for people
    bundles: tuple[str, str, str]  # Ready bundle of each device
    strategy: str | None = None  # Strategy of its rounds; None: the recommended one
    share: float = 1.0  # Share of the rounds that it plays: prototypes are learned in one


@dataclass(frozen=True)
class Device:
    """One user's device."""

    name: str  # Name of the user
    architecture: str  # Ready bundle with which it begins
    labels: tuple[str, ...]  # Labels that it knows from the start
    folder: Path  # Folder of its configuration, its recordings and its state
    bundle: Path  # File of its bundle

    @property
    def config(self) -> Path:
        """Its configuration file."""
        return self.folder / "device.toml"

    @property
    def state(self) -> DeviceState:
        """Its state on disk."""
        return DeviceState(self.folder / "state")

    def prepare(self, url: str, token: str, evaluation: Path, per_round: tuple[int, int], seed: int) -> None:
        """Write its configuration and draw its identity.

        A device draws its identifier at random and everything random from it; here it follows from the seed, so that
        the demonstration can be repeated.
        """
        texts = {"name": self.name, "url": url, "token": token, "bundle": self.bundle, "evaluation": evaluation}
        quoted = {key: json.dumps(str(value)) for key, value in texts.items()}
        text = _CONFIG.format(seed=seed, low=per_round[0], high=per_round[1], **quoted)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.config.write_text(text, encoding="utf-8")
        device_id = hashlib.sha256(f"{seed} {self.name}".encode()).hexdigest()[:32]
        self.state.identity.save(Identity(device_id, secrets.token_urlsafe(32)))

    def add(self, recordings: Mapping[str, Sequence[Path]]) -> None:
        """Put recordings into its folder; the daemon finds them when the next round starts."""
        link(recordings, self.folder / "recordings")

    def names(self) -> dict[int, str]:
        """Return the owner's word for every slot of its model."""
        return dict(enumerate(self.state.model.load(self.bundle).progress.label_map.names))

    def listening_labels(self) -> LabelMap:
        """Return its labels without the slots that the model with which it listens never learned."""
        return self.state.model.load(self.bundle).progress.listening_labels

    def heard_as(self, held_out: Mapping[str, Floats], mask: Floats) -> dict[str, Ints]:
        """Return the slot that the model with which it listens prefers for every recording, int64 [n] by label.

        ``held_out`` has features by label, float32 [n, frames, coefficients]; ``mask``, float32 [slots], is 1 for the
        slots to choose from.
        """
        model = ModelRuntime(self.state.model.load(self.bundle).listening_bundle)
        return {label: model.predict(model.normalise(rows), mask).argmax(axis=1) for label, rows in held_out.items()}


def own_accuracy(device: Device, held_out: Mapping[str, Floats], *, with_new: bool) -> float:
    """Return how many recordings of the labels that a device knew from the start it names rightly, in percent.

    ``held_out`` has features of all held-out recordings, by label. It chooses among all that it listens for, or, unless
    ``with_new``, without the labels that came later.
    """
    label_map = device.listening_labels()
    mask = label_map.listening_mask
    if not with_new:
        mask[[slot for slot, name in enumerate(label_map.names) if name not in device.labels]] = 0.0
    chosen = device.heard_as({label: held_out[label] for label in device.labels}, mask)
    return 100 * float(np.concatenate([rows == label_map.slot_of(label) for label, rows in chosen.items()]).mean())


def read_held_out(folder: Path, bundle: Path) -> dict[str, Floats]:
    """Compute the features of recordings that lie as ``<label>/<file>``, as a bundle wants them, by label."""
    settings = read_bundle(bundle).manifest.feature_settings
    source, front_end = Recordings(folder, settings), open_front_end(settings)
    return {label: front_end(source.load(source.clips(label))) for label in source.labels()}


def link(recordings: Mapping[str, Sequence[Path]], folder: Path) -> None:
    """Lay recordings out as ``<label>/<file>`` without copying them."""
    for label, paths in recordings.items():
        (folder / label).mkdir(parents=True, exist_ok=True)
        for path in paths:
            (folder / label / path.name).symlink_to(path.resolve())


def train_alone(
    devices: Sequence[Device], split: Split, public_set: PublicSet, plan: RoundPlan, rounds: int, folder: Path
) -> list[Device]:
    """Train a twin of every device by itself, with the clips with which its device begins, by the first round's plan.

    Of the public set nothing is used but which labels are the fleet's classes. On a pretrained front end a twin learns
    as its owner's teaching makes it. Elsewhere it trains as in the rounds, as many passes on as many draws of its
    clips, but on these alone: the strategy's form without labels or scores.

    Raises DemoError: a training failed.
    """
    twins = [dataclasses.replace(device, folder=folder / device.folder.name) for device in devices]
    packed = public_set.pack()
    digest = hashlib.sha256(packed).hexdigest()
    for index, twin in enumerate(twins):
        twin.prepare("http://127.0.0.1:1", "alone", folder, split.per_round, plan.seed + index)
        twin.add(split.training[index])
        blob = twin.state.blobs.path(digest)
        blob.parent.mkdir(parents=True, exist_ok=True)
        write_durably(blob, packed)
    jobs: list[TrainingJob] = [None]
    if plan.local.name == "zero_shot":
        own = dataclasses.replace(plan, local=Choice("zero_shot", {**plan.local.settings, "labels": False}))
        first = Work(
            kind="contribute", round_id=1, plan=own, public_set=digest, consensus=None, classes=public_set.classes
        )
        jobs = [
            dataclasses.replace(first, round_id=1 + number, plan=dataclasses.replace(own, seed=plan.seed + number))
            for number in range(rounds)
        ]
    with ThreadPoolExecutor(len(twins)) as threads:
        list(threads.map(lambda twin: _work(twin, jobs), twins))
    return twins


def _work(twin: Device, jobs: Sequence[TrainingJob]) -> None:
    """Have a process do the twin's jobs, one after the other."""
    command, env = [sys.executable, "-m", "demo.twin", str(twin.config)], {**os.environ, **ONE_THREAD}
    with (twin.folder / "worker.log").open("w") as log:
        done = subprocess.run(command, input="".join(map(to_line, jobs)), stderr=log, text=True, check=False, env=env)
    if done.returncode != 0:
        raise DemoError(f"{twin.name} cannot learn by itself (status {done.returncode}); log: {twin.folder}/worker.log")


@dataclass(frozen=True)
class Report:
    """A device's report of a new sound."""

    round_number: int  # Number of the round
    user: str  # Name of the user
    label: str  # The owner's word for the sound, which did not travel
    class_id: str | None  # Class that the fleet made of it; None: none in this round


@dataclass(frozen=True)
class NewClass:
    """What became of a new sound."""

    label: str  # The owners' word
    devices: tuple[str, ...]  # Users whose devices met it
    class_id: str | None  # The fleet's class; None where none was made of it
    round: int | None  # Round in which the class was found
    matched: bool  # Whether every device that met it was given one and the same class, and no other sound was


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
