"""The workers' tasks, and the setup that all of them share: plain data that travels between processes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fleet_protocol.messages.rest import Choice, ClassInfo, Update, Work
from fleet_protocol.numbers.tensors import Arrays
from fleet_simulator.experiment.sections import Experiment

NO_OWN = 2  # a device that has not trained a model of its own yet


@dataclass(frozen=True)
class Setup:
    """What all tasks of a run have in common."""

    experiment: Experiment  # With its plan, whose local settings a strategy may fill in when a round opens
    folder: Path  # The run's folder, with ``data/`` and the files that workers and main process share
    averages: bool  # Whether a block of devices is averaged where it was trained

    @property
    def own(self) -> tuple[Path, ...]:
        """Bundles of the devices' own models."""
        return self.experiment.model.own or (self.experiment.model.bundle,)


@dataclass(frozen=True)
class Block:
    """Devices of a round that one worker has contribute one after another, all by the same local method."""

    work: Work  # What the devices are asked for
    place: int  # First row of the block in the uploads' file
    devices: tuple[int, ...]  # Numbers of the devices, ascending
    own_versions: tuple[int, ...]  # Which of its two places in the file holds a device's own model; ``NO_OWN``: neither
    model: int = 0  # Row of the models' file that the devices start from: 0 the fleet's, then those of its groups


@dataclass(frozen=True)
class Trained:
    """What became of a block's contributions."""

    # Documents of the uploads: one for each device or, where the block is averaged, one for all of them
    updates: tuple[Update, ...]
    losses: tuple[float, ...]  # Mean loss of every device's last pass; none where no network is trained
    samples: int  # Number of samples in all training steps of all devices, of whichever model
    arrays: tuple[Arrays, ...] = ()  # Every upload's arrays; none where they are rows of the uploads' file


@dataclass(frozen=True)
class Learn:
    """Devices that learn from the result of a round, with models of their own."""

    work: Work  # What they are asked for
    devices: tuple[int, ...]  # Numbers of the devices
    own_versions: tuple[int, ...]  # Places of their models
    places: tuple[int, ...]  # Places that the models go to


@dataclass(frozen=True)
class TestRows:
    """Test clips for the fleet's model after a round; ``work``: what devices learn from its result."""

    work: Work
    rows: slice


@dataclass(frozen=True)
class Evaluate:
    """Devices that evaluate the fleet's model on their own clips, and what the personalisation makes of it."""

    rounds: int  # Number of rounds before, those of groups among them
    work: Work  # What devices learn from the last round
    devices: tuple[int, ...]  # Numbers of the devices
    model: int  # Row of the models' file to fine-tune
    personal: Choice  # Personalisation
    own_versions: tuple[int, ...]  # Places of the devices' own models, as in :class:`Block`
    # What the next round would ask for, where the local models are evaluated as well; else None
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
