"""An experiment: its sections, each of which checks its own values; docs/simulator.md says what the keys mean.

What a round does is said as to the aggregator, and becomes the same plan by the same function.
"""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from aggregator_server.schemas import RECOMMENDED, RoundRequest
from aggregator_server.strategies.plans import FleetKind, complete, make_plan, recommended
from fleet_protocol.bundle.bundle_file import read_bundle
from fleet_protocol.bundle.ready_bundles import BundlePath
from fleet_protocol.messages.rest import Choice, RoundPlan
from fleet_protocol.methods.setting import Value
from fleet_protocol.numbers.tensors import digest
from fleet_simulator.errors import ExperimentError, require
from fleet_simulator.experiment.faults import USER_ATTACKS, FaultsSection
from fleet_simulator.plugins import Plugin

SOURCES = ("synthetic", "recordings", "speech_commands", "log_mel", "urbansound8k")
_NOISY = ("devices", "all")


@dataclass(frozen=True)
class DataSection:
    """``[data]``."""

    source: str
    path: Path | None = None
    labels: tuple[str, ...] = ()
    test: float = 0.2
    public: float = 0.0
    clips: int = 10_000
    classes: int = 10
    speakers: int | None = None
    noise: float = 2.0
    windows: int = 1
    snr_db: float = math.inf
    noisy: str = "devices"  # whose clips have it: those on ``devices``, or ``all``
    variants: int = 0
    background: Path | None = None

    def __post_init__(self) -> None:
        require(self.source in SOURCES, "source", self.source, f"must be {', '.join(SOURCES)}")
        require(self.source == "synthetic" or self.path is not None, "source", self.source, "needs the key 'path'")
        require(0 < self.test < 1, "test", self.test, "must be above 0 and below 1")
        require(0 <= self.public < 1 - self.test, "public", self.public, "must leave clips beside those of 'test'")
        for key in ("clips", "classes"):
            require(getattr(self, key) >= 2, key, getattr(self, key), "must be at least 2")
        require(self.speakers is None or self.speakers >= 2, "speakers", self.speakers, "must be at least 2")
        require(self.noise >= 0, "noise", self.noise, "must not be negative")
        require(self.snr_db >= -50, "snr_db", self.snr_db, "must be at least -50")
        require(self.noisy in _NOISY, "noisy", self.noisy, f"must be {', '.join(_NOISY)}")
        require(0 <= self.variants <= 100, "variants", self.variants, "must be from 0 to 100")
        require(1 <= self.windows <= 100, "windows", self.windows, "must be from 1 to 100")
        require(len(set(self.labels)) == len(self.labels), "labels", list(self.labels), "must name each label once")
        self._require_of_source()

    def _require_of_source(self) -> None:
        """Refuse keys that say nothing about the clips of this source."""
        without = {"synthetic": ("windows", "snr_db", "variants", "background"), "log_mel": ("windows", "background")}
        for key in without.get(self.source, ()):
            value, usual = getattr(self, key), getattr(DataSection, key)
            require(value == usual, key, value, f"is not for the source {self.source!r}; leave it out")
        allowed = not self.background or self.variants > 0
        require(allowed, "background", str(self.background), "needs 'variants' above 0")

    @property
    def seeded(self) -> bool:
        """Whether the clips themselves depend on the experiment's seed."""
        return self.source == "synthetic" or self.speakers is not None or self.changed

    @property
    def changed(self) -> bool:
        """Whether devices have noise in their clips, or variants of them."""
        return math.isfinite(self.snr_db) or self.variants > 0


_DIGEST_VERSION = 2  # changes with what a digest is of
_SPLITS = ("speaker", "recording", "dirichlet", "iid")


@dataclass(frozen=True, kw_only=True)
class FleetSection:
    """``[fleet]``."""

    devices: int
    split: str = "speaker"
    alpha: float = 0.5
    size_spread: float = 0.0
    shares: tuple[float, ...] = ()
    held_out: float = 0.0
    local_models: bool = False

    def __post_init__(self) -> None:
        require(1 <= self.devices <= 1_000_000, "devices", self.devices, "must be from 1 to 1000000")
        require(self.split in _SPLITS, "split", self.split, f"must be {', '.join(_SPLITS)}")
        require(1e-3 <= self.alpha <= 1e3, "alpha", self.alpha, "must be from 0.001 to 1000")
        require(0 <= self.held_out <= 0.8, "held_out", self.held_out, "must be from 0 to 0.8")
        require(0 <= self.size_spread <= 3, "size_spread", self.size_spread, "must be from 0 to 3")
        if self.shares:
            numbers = f"must be {self.devices} numbers, one for each device"
            require(len(self.shares) == self.devices, "shares", self.shares, numbers)
            require(min(self.shares) > 0, "shares", self.shares, "must all be above 0")
            require(not self.size_spread, "size_spread", self.size_spread, "must be 0 where 'shares' are given")


@dataclass(frozen=True)
class ModelSection:
    """``[model]``."""

    bundle: BundlePath
    own: tuple[BundlePath, ...] = ()


@dataclass(frozen=True, kw_only=True)
class RoundsSection:
    """``[rounds]``."""

    count: int
    strategy: str = RECOMMENDED
    seed: int = 0
    evaluate_every: int = 1
    local: dict[str, Value] = field(default_factory=dict)
    aggregation: dict[str, Value] = field(default_factory=dict)
    selection: dict[str, Value] = field(default_factory=dict)
    quarantine: bool = False

    def __post_init__(self) -> None:
        require(1 <= self.count <= 1_000_000, "count", self.count, "must be from 1 to 1000000")
        require(self.evaluate_every >= 0, "evaluate_every", self.evaluate_every, "must not be negative")

    def is_due(self, round_id: int) -> bool:
        """Return whether the global model is tested after a round."""
        every = self.evaluate_every
        return bool(every) and (round_id % every == 0 or round_id == self.count)

    @property
    def request(self) -> RoundRequest:
        """What an administrator would ask the aggregator for."""
        rule = dict(self.aggregation)
        return RoundRequest(
            self.strategy,
            settings=self.local,
            aggregation=_method("aggregation", rule) if "name" in rule else rule,
            seed=self.seed,
            selection=_method("selection", self.selection) if self.selection else None,
        )


def _method(key: str, table: dict[str, Value]) -> Choice:
    settings = dict(table)
    require("name" in settings, key, table, "needs a 'name'")
    return Choice(str(settings.pop("name")), settings)


@dataclass(frozen=True, kw_only=True)
class BaselinesSection:
    """``[baselines]``: what every device would have without a fleet."""

    passes: int
    learning_rate: float = 0.05

    def __post_init__(self) -> None:
        require(1 <= self.passes <= 100_000, "passes", self.passes, "must be from 1 to 100000")
        require(0 < self.learning_rate <= 10, "learning_rate", self.learning_rate, "must be above 0, at most 10")


@dataclass(frozen=True)
class ZeroShotSection:
    """``[zero_shot]``."""

    public: int = 300
    clips: tuple[int, ...] = (200, 300)
    by_speaker: bool = True
    held_out: float = 0.0
    guard: bool = True

    def __post_init__(self) -> None:
        require(self.public >= 1, "public", self.public, "must be at least 1")
        allowed = len(self.clips) == 2 and 1 <= self.clips[0] <= self.clips[-1]
        require(allowed, "clips", list(self.clips), "must be a smallest and a largest number, such as [200, 300]")
        require(0 <= self.held_out <= 0.5, "held_out", self.held_out, "must be from 0 to 0.5")


@dataclass(frozen=True)
class EventSection:
    """``[[users.events]]``: before a round, a user meets a sound, or gets another model."""

    round: int
    label: str = ""  # of the clips that come; "" where none do
    clips: int = 0
    bundle: BundlePath | None = None

    def __post_init__(self) -> None:
        require(self.round >= 1, "round", self.round, "must be at least 1")
        require(bool(self.label) != (self.bundle is not None), "label", self.label, "give either it or 'bundle'")
        require(bool(self.label) == (self.clips > 0), "clips", self.clips, "must be at least 1 of a 'label'")


@dataclass(frozen=True)
class UserSection:
    """``[[users]]``."""

    bundle: BundlePath
    labels: tuple[str, ...]
    share_names: bool = False
    events: tuple[EventSection, ...] = ()

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


class AnyExperiment:
    """What both kinds of experiment have; its ``plugins`` are files with methods that its rounds name."""

    data: DataSection
    rounds: RoundsSection
    faults: FaultsSection
    plugins: tuple[Plugin, ...]

    @property
    def bundles(self) -> tuple[Path, ...]:
        """Every bundle that the experiment names."""
        raise NotImplementedError

    @property
    def kind(self) -> FleetKind:
        """What the recommended strategy depends on."""
        raise NotImplementedError

    @cached_property
    def request(self) -> RoundRequest:
        """What an administrator would ask the aggregator for; where no strategy is named, the recommended one."""
        return recommended(self.rounds.request, self.kind)

    @property
    def strategy(self) -> str:
        """Name of the strategy."""
        return self.request.strategy

    @cached_property
    def plan(self) -> RoundPlan:
        """The aggregator's plan. Raises AggregatorError, ProtocolError: strategy, method or setting is wrong."""
        return make_plan(self.request)

    @property
    def digest(self) -> str:
        """Of all that decides the result but the number of rounds: a run may be made longer afterwards."""
        assert dataclasses.is_dataclass(self)
        document: dict[str, Any] = dataclasses.asdict(self)
        del document["rounds"]["count"]
        document |= {"version": _DIGEST_VERSION, "plugins": [plugin.sha256 for plugin in self.plugins]}
        document["bundles"] = {str(path): digest(path.read_bytes()) for path in self.bundles}
        return digest(json.dumps(document, sort_keys=True, default=str).encode())


@dataclass(frozen=True)
class Experiment(AnyExperiment):
    """An experiment whose devices are dealt the clips of a corpus."""

    data: DataSection
    fleet: FleetSection
    model: ModelSection
    rounds: RoundsSection
    faults: FaultsSection = field(default_factory=FaultsSection)
    personalisation: dict[str, Value] = field(default_factory=dict)
    baselines: BaselinesSection | None = None
    plugins: tuple[Plugin, ...] = ()

    @property
    def personal(self) -> Choice:
        """What every device makes of the last round's model, with every setting. Raises ProtocolError."""
        settings = {"name": "none"} | self.personalisation
        return complete("personalisation", Choice(str(settings.pop("name")), settings))

    @property
    def bundles(self) -> tuple[Path, ...]:
        """Every bundle that the experiment names."""
        return (self.model.bundle, *self.model.own)

    @cached_property
    def kind(self) -> FleetKind:
        """What the recommended strategy depends on."""
        shared = read_bundle(self.model.bundle).manifest
        own = {read_bundle(path).manifest.network for path in self.model.own}
        embeddings = shared.feature_settings.is_embedding
        return FleetKind(embeddings=embeddings, shares_network=own <= {shared.network})


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
