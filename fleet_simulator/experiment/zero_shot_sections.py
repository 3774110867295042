"""An experiment in which every user has a model and labels of its own, and meets new sounds on the way.

The settings of Gudur & Perepu 2021, tables 1 and 3: architectures, labels, clips in a round, and what changes when.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from aggregator_server.strategies.registry import FleetKind
from fleet_protocol.ready_bundles import BundlePath
from fleet_simulator.errors import ExperimentError, require
from fleet_simulator.experiment.faults import USER_ATTACKS, FaultsSection
from fleet_simulator.experiment.sections import AnyExperiment, DataSection, RoundsSection
from fleet_simulator.plugins import Plugin


@dataclass(frozen=True)
class ZeroShotSection:
    """``[zero_shot]``."""

    public: int = 300  # clips of each label in the public set, of those labels that some user knows from the start
    # smallest and largest number of clips of a label that a user takes into a round
    clips: tuple[int, ...] = (200, 300)
    # whether a speaker's clips, or those of a recording, stay together; false: each is dealt for itself
    by_speaker: bool = True
    tell_count: bool = False  # whether the aggregator is told how many new classes there are
    # share of every user's clips that no round trains on, by which the user judges what rounds make of its model; 0:
    # none are
    held_out: float = 0.0
    guard: bool = True  # whether a user that judges refuses results that are worse for it

    def __post_init__(self) -> None:
        require(self.public >= 1, "public", self.public, "must be at least 1")
        allowed = len(self.clips) == 2 and 1 <= self.clips[0] <= self.clips[-1]
        require(allowed, "clips", list(self.clips), "must be a smallest and a largest number, such as [200, 300]")
        require(0 <= self.held_out <= 0.5, "held_out", self.held_out, "must be from 0 to 0.5")


@dataclass(frozen=True)
class EventSection:
    """``[[users.events]]``: before a round, a user meets a sound, or gets another model."""

    round: int  # the first round that sees it
    label: str = ""  # of the clips that come; "" where none do
    clips: int = 0  # how many; fewer where the user's share of the data has no more
    bundle: BundlePath | None = None  # the new model, which starts untrained; the labels that the user knows stay

    def __post_init__(self) -> None:
        require(self.round >= 1, "round", self.round, "must be at least 1")
        require(bool(self.label) != (self.bundle is not None), "label", self.label, "give either it or 'bundle'")
        require(bool(self.label) == (self.clips > 0), "clips", self.clips, "must be at least 1 of a 'label'")


@dataclass(frozen=True)
class UserSection:
    """``[[users]]``."""

    bundle: BundlePath  # the user's first model
    labels: tuple[str, ...]  # those that the user knows from the start
    share_names: bool = False  # whether the user's words for new sounds travel
    events: tuple[EventSection, ...] = ()  # what happens to the user

    def __post_init__(self) -> None:
        require(bool(self.labels), "labels", list(self.labels), "must name at least one label")
        require(len(set(self.labels)) == len(self.labels), "labels", list(self.labels), "must name each label once")

    @property
    def all_labels(self) -> tuple[str, ...]:
        """Those from the start, then those that come."""
        return tuple(dict.fromkeys((*self.labels, *(event.label for event in self.events if event.label))))

    @property
    def bundles(self) -> tuple[BundlePath, ...]:
        """Every model that the user has at some time, in the order of the events."""
        return (self.bundle, *(event.bundle for event in self.events if event.bundle is not None))


@dataclass(frozen=True)
class ZeroShotExperiment(AnyExperiment):
    """An experiment of the strategy ``zero_shot`` whose users each have a section."""

    data: DataSection
    rounds: RoundsSection
    users: tuple[UserSection, ...]
    zero_shot: ZeroShotSection = field(default_factory=ZeroShotSection)
    faults: FaultsSection = field(default_factory=FaultsSection)
    plugins: tuple[Plugin, ...] = ()

    def __post_init__(self) -> None:
        if self.data.public:
            raise ExperimentError(f"[data] public = {self.data.public}: give the clips of a label, [zero_shot] public")
        if self.data.variants:
            raise ExperimentError(
                f"[data] variants = {self.data.variants}: users' copies are set by [rounds] local.augmented_copies"
            )
        if self.rounds.selection:
            raise ExperimentError("[rounds] selection: every user takes part in every round; leave it out")
        faults = self.faults
        faults.require_possible(USER_ATTACKS, "zero_shot")
        if faults.wrong_labels:
            raise ExperimentError(f"[faults] wrong_labels = {faults.wrong_labels}: zero_shot has none; leave it out")

    @property
    def known(self) -> tuple[str, ...]:
        """Labels that some user knows from the start, in the order of the users: the public set's classes."""
        return tuple(dict.fromkeys(label for user in self.users for label in user.labels))

    @property
    def labels(self) -> tuple[str, ...]:
        """The same, and then the new ones."""
        new = (label for user in self.users for label in user.all_labels)
        return tuple(dict.fromkeys((*self.known, *new)))

    @property
    def bundles(self) -> tuple[Path, ...]:
        """Every bundle that the experiment names."""
        return tuple(path for user in self.users for path in user.bundles)

    @property
    def kind(self) -> FleetKind:
        """What the recommended strategy depends on: users share no network."""
        return FleetKind(embeddings=False, shares_network=False)
