"""The workers' tasks, and the setup that all of them share: plain data that travels between processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fleet_protocol.messages import Choice, ClassInfo, RoundPlan, Update, Work
from fleet_protocol.setting import Value
from fleet_simulator.experiment.faults import FaultsSection
from fleet_simulator.experiment.sections import BaselinesSection
from fleet_simulator.plugins import Plugin

NO_OWN = 2  # a device that has not trained a model of its own yet


@dataclass(frozen=True, kw_only=True)
class Setup:
    """What all tasks of a run have in common.

    Attributes:
        bundle: Bundle of the shared model.
        own: Bundles of the devices' own models; none: the shared one.
        folder: The run's folder, with ``data/`` and the files that workers and main process share.
        plan: Plan of every round, but for the local settings that a strategy fills in when a round opens.
        averages: Whether a block of devices is averaged where it was trained.
        public_set: Digest of the public set.
        faults: What goes wrong.
        baselines: What the devices would have without a fleet; None: nobody asks.
        plugins: Files with methods that the plan names.
    """

    bundle: Path
    own: tuple[Path, ...]
    folder: Path
    plan: RoundPlan
    averages: bool
    public_set: str
    faults: FaultsSection
    baselines: BaselinesSection | None = None
    plugins: tuple[Plugin, ...] = ()

    def work(self, block: Block, classes: tuple[ClassInfo, ...]) -> Work:
        """Return what the aggregator would ask the block's devices for; ``classes``: the fleet's."""
        plan = replace(self.plan, local=Choice(self.plan.local.name, dict(block.settings)))
        return Work(
            kind="contribute",
            round_id=block.round_id,
            plan=plan,
            public_set=self.public_set,
            consensus=None,
            classes=classes,
        )


@dataclass(frozen=True)
class Block:
    """Devices of a round that one worker trains one after another.

    Attributes:
        round_id: Number of the round, from 1.
        place: First row of the block in the uploads' file.
        devices: Numbers of the devices, ascending.
        own_versions: Which of its two places in the file holds a device's own model; ``NO_OWN``: neither.
        settings: Settings of the local method.
        model: Row of the models' file that the devices start from: 0 the fleet's, then those of its groups.
    """

    round_id: int
    place: int
    devices: tuple[int, ...]
    own_versions: tuple[int, ...]
    settings: Mapping[str, Value]
    model: int = 0


@dataclass(frozen=True)
class Trained:
    """What became of a block's training.

    Attributes:
        updates: Documents of the rows that the block wrote to the uploads' file: one for each device or, where the
            block is averaged, one for all of them.
        losses: Mean loss of every device's last pass.
        samples: Number of samples in all training steps of every device, of whichever model.
    """

    updates: tuple[Update, ...]
    losses: tuple[float, ...]
    samples: tuple[int, ...]


@dataclass(frozen=True)
class TestRows:
    """Test clips for the fleet's model after some rounds."""

    rounds: int
    rows: slice


@dataclass(frozen=True)
class Evaluate:
    """Devices that evaluate the fleet's model on their own clips, and what the personalisation makes of it.

    Attributes:
        rounds: Number of rounds before, those of groups among them.
        devices: Numbers of the devices.
        model: Row of the models' file to fine-tune.
        personal: Personalisation.
        own_versions: Places of the devices' own models, as in :class:`Block`.
        local: Settings of the local method, where the local models are evaluated as well; else None.
    """

    rounds: int
    devices: tuple[int, ...]
    model: int
    personal: Choice
    own_versions: tuple[int, ...]
    local: Mapping[str, Value] | None = None


Task = Block | TestRows | Evaluate


def classes_of(names: Sequence[str]) -> tuple[ClassInfo, ...]:
    """Return the fleet's classes; a virtual fleet's have their label for an identifier."""
    return tuple(ClassInfo(name, name) for name in names)


def device_id(number: int) -> str:
    """Return a virtual device's identifier, 32 hex digits."""
    return f"{number:032x}"


def next_version(version: int) -> int:
    """Return the place that a device's own model goes to: not the one that a resumed run would start from."""
    return 0 if version == NO_OWN else 1 - version
