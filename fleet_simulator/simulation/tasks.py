"""The workers' tasks, and the setup that all of them share: plain data that travels between processes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fleet_protocol.messages import Choice, ClassInfo, RoundPlan, Update, Work
from fleet_protocol.tensors import Arrays
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
        faults: What goes wrong.
        baselines: What the devices would have without a fleet; None: nobody asks.
        plugins: Files with methods that the plan names.
    """

    bundle: Path
    own: tuple[Path, ...]
    folder: Path
    plan: RoundPlan
    averages: bool
    faults: FaultsSection
    baselines: BaselinesSection | None = None
    plugins: tuple[Plugin, ...] = ()


@dataclass(frozen=True)
class Block:
    """Devices of a round that one worker has contribute one after another, all by the same local method.

    Attributes:
        work: What the devices are asked for.
        place: First row of the block in the uploads' file.
        devices: Numbers of the devices, ascending.
        own_versions: Which of its two places in the file holds a device's own model; ``NO_OWN``: neither.
        model: Row of the models' file that the devices start from: 0 the fleet's, then those of its groups.
    """

    work: Work
    place: int
    devices: tuple[int, ...]
    own_versions: tuple[int, ...]
    model: int = 0


@dataclass(frozen=True)
class Trained:
    """What became of a block's contributions.

    Attributes:
        updates: Documents of the uploads: one for each device or, where the block is averaged, one for all of them.
        losses: Mean loss of every device's last pass; none where no network is trained.
        samples: Number of samples in all training steps of every device, of whichever model.
        arrays: Every upload's arrays; none where they are rows of the uploads' file.
    """

    updates: tuple[Update, ...]
    losses: tuple[float, ...]
    samples: tuple[int, ...]
    arrays: tuple[Arrays, ...] = ()


@dataclass(frozen=True)
class Learn:
    """Devices that learn from the result of a round, with models of their own.

    Attributes:
        work: What they are asked for.
        devices: Numbers of the devices.
        own_versions: Places of their models.
        places: Places that the models go to.
    """

    work: Work
    devices: tuple[int, ...]
    own_versions: tuple[int, ...]
    places: tuple[int, ...]


@dataclass(frozen=True)
class TestRows:
    """Test clips for the fleet's model after a round; ``work``: what devices learn from its result."""

    work: Work
    rows: slice


@dataclass(frozen=True)
class Evaluate:
    """Devices that evaluate the fleet's model on their own clips, and what the personalisation makes of it.

    Attributes:
        rounds: Number of rounds before, those of groups among them.
        work: What devices learn from the last round.
        devices: Numbers of the devices.
        model: Row of the models' file to fine-tune.
        personal: Personalisation.
        own_versions: Places of the devices' own models, as in :class:`Block`.
        local: What the next round would ask for, where the local models are evaluated as well; else None.
    """

    rounds: int
    work: Work
    devices: tuple[int, ...]
    model: int
    personal: Choice
    own_versions: tuple[int, ...]
    local: Work | None = None


Task = Block | Learn | TestRows | Evaluate


def classes_of(names: Sequence[str]) -> tuple[ClassInfo, ...]:
    """Return the fleet's classes; a virtual fleet's have their label for an identifier."""
    return tuple(ClassInfo(name, name) for name in names)


def device_id(number: int) -> str:
    """Return a virtual device's identifier, 32 hex digits."""
    return f"{number:032x}"


def next_version(version: int) -> int:
    """Return the place that a device's own model goes to: not the one that a resumed run would start from."""
    return 0 if version == NO_OWN else 1 - version
