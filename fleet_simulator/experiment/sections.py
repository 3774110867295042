"""An experiment: its sections, each of which checks its own values (docs/simulator.md lists the keys).

What a round does is said as to the aggregator, and becomes the same plan by the same function.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from aggregator_server.rounds.plan import make_plan
from aggregator_server.schemas import RECOMMENDED, RoundRequest
from aggregator_server.strategies.registry import FleetKind, complete, recommended
from fleet_protocol.bundle import read_bundle
from fleet_protocol.messages import Choice, RoundPlan
from fleet_protocol.ready_bundles import BundlePath
from fleet_protocol.setting import Value
from fleet_simulator.errors import require
from fleet_simulator.experiment.faults import FaultsSection
from fleet_simulator.plugins import Plugin

SOURCES = ("synthetic", "recordings", "speech_commands", "log_mel", "urbansound8k", "crema_d", "iemocap")
NOISY = ("devices", "all")


@dataclass(frozen=True)
class DataSection:
    """``[data]``."""

    source: str  # a layout of recordings, ``log_mel`` or ``synthetic``
    path: Path | None = None  # the recordings' folder, or the log-mel archive
    # the classes, in the order of their slots; none given: those that are there, in alphabetical order
    labels: tuple[str, ...] = ()
    test: float = 0.2  # share of the speakers that no device has; the global model is judged by their clips
    public: float = 0.0  # share of the speakers whose clips are the public set
    clips: int = 10_000  # of synthetic data: how many
    classes: int = 10  # of synthetic data: how many
    # how many there are of synthetic data (200), or are used of other data: drawn with the seed; none given: all
    speakers: int | None = None
    noise: float = 2.0  # of synthetic data: standard deviation around a class's picture
    windows: int = 1  # clips that are cut from every recording, equally far from one another; 1: its loudest stretch
    snr_db: float = math.inf  # power of recordings over that of white noise in them, in dB; infinite: there is none
    noisy: str = "devices"  # whose clips have it: those on ``devices``, or ``all``
    # augmented copies that a device has of each of its clips, moved in time and with background noise
    variants: int = 0
    background: Path | None = None  # folder of noise for these; a log-mel archive brings its own

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
        require(self.noisy in NOISY, "noisy", self.noisy, f"must be {', '.join(NOISY)}")
        require(0 <= self.variants <= 100, "variants", self.variants, "must be from 0 to 100")
        require(1 <= self.windows <= 100, "windows", self.windows, "must be from 1 to 100")
        require(len(set(self.labels)) == len(self.labels), "labels", list(self.labels), "must name each label once")
        self._require_of_source()

    def _require_of_source(self) -> None:
        """Refuse keys that say nothing about the clips of this source."""
        without = {"synthetic": ("windows", "snr_db", "variants", "background"), "log_mel": ("windows", "background")}
        for key in without.get(self.source, ()):
            value = getattr(self, key)
            require(
                value == getattr(DataSection, key), key, value, f"is not for the source {self.source!r}; leave it out"
            )
        require(
            not self.background or self.variants > 0, "background", str(self.background), "needs 'variants' above 0"
        )

    @property
    def seeded(self) -> bool:
        """Whether the clips themselves depend on the experiment's seed."""
        return self.source == "synthetic" or self.speakers is not None or self.changed

    @property
    def changed(self) -> bool:
        """Whether devices have noise in their clips, or variants of them."""
        return math.isfinite(self.snr_db) or self.variants > 0


_DIGEST_VERSION = 2  # changes with what a digest is of
SPLITS = ("speaker", "recording", "dirichlet", "iid")


@dataclass(frozen=True, kw_only=True)
class FleetSection:
    """``[fleet]``."""

    devices: int  # how many
    # who gets which clips: ``speaker`` (no speaker is on two devices; ``recording`` where clips are told apart by the
    # recording that they were cut from), ``dirichlet``, ``iid``
    split: str = "speaker"
    alpha: float = 0.5  # of the Dirichlet split: the smaller, the fewer classes a device has most of its clips from
    # standard deviation of the logarithm of the devices' shares of the speakers (or of the clips)
    size_spread: float = 0.0
    # what each device has of the speakers (or of the clips), in proportion, in place of ``size_spread``
    shares: tuple[float, ...] = ()
    # share of every device's own clips that it does not train on: half of it to choose between models by, half to
    # evaluate them on
    held_out: float = 0.0
    local_models: bool = False  # whether the models that devices have after their local training are evaluated as well
    sample_seconds: float = 0.001  # what a step costs a usual device for each sample in it
    speed_spread: float = 0.0  # standard deviation of the logarithm of the devices' speeds; 0: all are alike
    bytes_per_second: float = 0.0  # of a device's link; 0: transfers cost no time

    def __post_init__(self) -> None:
        require(1 <= self.devices <= 1_000_000, "devices", self.devices, "must be from 1 to 1000000")
        require(self.split in SPLITS, "split", self.split, f"must be {', '.join(SPLITS)}")
        require(1e-3 <= self.alpha <= 1e3, "alpha", self.alpha, "must be from 0.001 to 1000")
        require(0 <= self.held_out <= 0.8, "held_out", self.held_out, "must be from 0 to 0.8")
        for key, maximum in (("sample_seconds", 1e3), ("speed_spread", 3.0), ("bytes_per_second", 1e12)):
            require(0 <= getattr(self, key) <= maximum, key, getattr(self, key), f"must be from 0 to {maximum:g}")
        require(0 <= self.size_spread <= 3, "size_spread", self.size_spread, "must be from 0 to 3")
        if self.shares:
            require(
                len(self.shares) == self.devices,
                "shares",
                self.shares,
                f"must be {self.devices} numbers, one for each device",
            )
            require(min(self.shares) > 0, "shares", self.shares, "must all be above 0")
            require(not self.size_spread, "size_spread", self.size_spread, "must be 0 where 'shares' are given")


@dataclass(frozen=True)
class ModelSection:
    """``[model]``."""

    bundle: BundlePath  # the fleet's shared model; the file may also name a ready one
    own: tuple[BundlePath, ...] = ()  # bundles of the devices' own models, dealt out at random; none: the shared one


@dataclass(frozen=True, kw_only=True)
class RoundsSection:
    """``[rounds]``."""

    count: int  # how many
    strategy: str = RECOMMENDED  # as the aggregator names them; ``recommended``: what it would choose for this fleet
    seed: int = 0  # of everything random: the data's split, the selection, the devices
    # rounds from one test of the global model to the next; the last one is always tested; 0: none is
    evaluate_every: int = 1
    local: dict[str, Value] = field(default_factory=dict)  # settings of the strategy's local method
    # settings of the strategy's rule; with ``name``: another rule
    aggregation: dict[str, Value] = field(default_factory=dict)
    selection: dict[str, Value] = field(default_factory=dict)  # ``name`` and its settings
    # ``name`` of the strategy, and settings, of devices whose network is not the shared model's
    others: dict[str, Value] = field(default_factory=dict)
    # whether devices whose uploads stand out or are refused again and again take part no longer, as an aggregator has
    # it
    quarantine: bool = False

    def __post_init__(self) -> None:
        require(1 <= self.count <= 1_000_000, "count", self.count, "must be from 1 to 1000000")
        require(self.evaluate_every >= 0, "evaluate_every", self.evaluate_every, "must not be negative")

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
            others=_method("others", self.others) if self.others else None,
        )


def _method(key: str, table: dict[str, Value]) -> Choice:
    settings = dict(table)
    require("name" in settings, key, table, "needs a 'name'")
    return Choice(str(settings.pop("name")), settings)


@dataclass(frozen=True, kw_only=True)
class BaselinesSection:
    """``[baselines]``: what every device would have without a fleet."""

    passes: int  # over the device's clips, and over the public set
    learning_rate: float = 0.05  # of these passes, but for the last 30 %, which take a quarter of it

    def __post_init__(self) -> None:
        require(1 <= self.passes <= 100_000, "passes", self.passes, "must be from 1 to 100000")
        require(0 < self.learning_rate <= 10, "learning_rate", self.learning_rate, "must be above 0, at most 10")


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
        """The plan that the aggregator would make of this.

        Raises AggregatorError, ProtocolError: the strategy, a method or a setting is wrong.
        """
        return make_plan(self.request)

    @property
    def digest(self) -> str:
        """Of all that decides the result but the number of rounds: a run may be made longer afterwards."""
        assert dataclasses.is_dataclass(self)
        document: dict[str, Any] = dataclasses.asdict(self)
        del document["rounds"]["count"]
        document |= {"version": _DIGEST_VERSION, "plugins": [plugin.sha256 for plugin in self.plugins]}
        document["bundles"] = {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in self.bundles}
        return hashlib.sha256(json.dumps(document, sort_keys=True, default=str).encode()).hexdigest()


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
        """What every device makes of the last round's model, with every setting.

        Raises ProtocolError: the method or a setting is wrong.
        """
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
        own = [read_bundle(path).manifest.network for path in self.model.own]
        embeddings = shared.feature_settings.is_embedding
        return FleetKind(embeddings=embeddings, shares_network=not own or shared.network in own)
