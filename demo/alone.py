"""What every device would listen with by itself: its own code learns its own first clips, without public set or fleet.

On a pretrained front end that is what its owner's teaching makes. Elsewhere the device trains as it does in the rounds,
as many passes on as many draws of its clips, but on these alone: the strategy's form without labels or scores.
"""

from __future__ import annotations

import dataclasses
import hashlib
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from demo import DemoError
from demo.devices import Device
from demo.split import Split
from edge_client.learning.training_job import OwnerTraining, RoundWork, TrainingJob, to_line
from fleet_protocol.atomic_files import write_durably
from fleet_protocol.messages import Choice, RoundPlan, Work
from fleet_protocol.public_set import PublicSet


def train_alone(
    devices: Sequence[Device], split: Split, public_set: PublicSet, plan: RoundPlan, rounds: int, folder: Path
) -> list[Device]:
    """Train a twin of every device by itself, with the clips with which its device begins, by the first round's plan.

    Of the public set nothing is used but which labels are the fleet's classes.

    Raises:
        DemoError: a training failed.
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
    jobs: list[TrainingJob] = [OwnerTraining()]
    if plan.local.name == "zero_shot":
        own = dataclasses.replace(plan, local=Choice("zero_shot", {**plan.local.settings, "labels": False}))
        jobs = [
            RoundWork(
                Work(
                    kind="contribute",
                    round_id=number,
                    plan=dataclasses.replace(own, seed=seed),
                    public_set=digest,
                    consensus=None,
                    classes=public_set.classes,
                )
            )
            for number, seed in enumerate(range(plan.seed, plan.seed + rounds), 1)
        ]
    with ThreadPoolExecutor(len(twins)) as threads:
        list(threads.map(lambda twin: _work(twin, jobs), twins))
    return twins


def _work(twin: Device, jobs: Sequence[TrainingJob]) -> None:
    """Have the device's own training process do its jobs, one after the other."""
    command = [sys.executable, "-m", "edge_client.learning.worker", str(twin.config)]
    for job in jobs:
        with (twin.folder / "worker.log").open("a") as log:
            child = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=log, text=True)
            assert child.stdin is not None
            try:
                child.stdin.write(to_line(job))
                child.stdin.flush()
                status = child.wait()  # the pipe stays open as long as the job is wanted
            finally:
                child.stdin.close()
                child.wait()
        if status != 0:
            raise DemoError(f"{twin.name} cannot learn by itself (status {status}); log: {twin.folder}/worker.log")
