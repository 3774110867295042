"""An experiment: its sections, each of which checks its own values (docs/simulator.md lists the keys).

What a round does is said as to the aggregator, and becomes the same plan by the same function.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from aggregator_server.rounds.plan import make_plan
from aggregator_server.schemas import RECOMMENDED, RoundRequest
from aggregator_server.strategies.plan_methods import complete
from aggregator_server.strategies.recommended import FleetKind, recommended
from fleet_protocol.bundle import read_bundle
from fleet_protocol.feature_settings import EmbeddingSettings
from fleet_protocol.messages import Choice, RoundPlan
from fleet_protocol.ready_bundles import BundlePath
from fleet_protocol.setting import Value
from fleet_simulator.errors import require as _require
from fleet_simulator.experiment.data_section import DataSection as DataSection
from fleet_simulator.experiment.faults import FaultsSection
from fleet_simulator.plugins import Plugin

_DIGEST_VERSION = 2  # changes with what a digest is of
SPLITS = ("speaker", "recording", "dirichlet", "iid")


@dataclass(frozen=True, kw_only=True)
class FleetSection:
    """``[fleet]``.

    Attributes:
        devices: how many.
        split: who gets which clips: ``speaker`` (no speaker is on two devices; ``recording`` where clips are told apart
            by the recording that they were cut from), ``dirichlet``, ``iid``.
        alpha: of the Dirichlet split: the smaller, the fewer classes a device has most of its clips from.
        size_spread: standard deviation of the logarithm of the devices' shares of the speakers (or of the clips).
        shares: what each device has of the speakers (or of the clips), in proportion, in place of ``size_spread``.
        held_out: share of every device's own clips that it does not train on: half of it to choose between models
            by, half to evaluate them on.
        local_models: whether the models that devices have after their local training are evaluated as well.
        sample_seconds: what a step costs a usual device for each sample in it.
        speed_spread: standard deviation of the logarithm of the devices' speeds; 0: all are alike.
        bytes_per_second: of a device's link; 0: transfers cost no time.
    """

    devices: int
    split: str = "speaker"
    alpha: float = 0.5
    size_spread: float = 0.0
    shares: tuple[float, ...] = ()
    held_out: float = 0.0
    local_models: bool = False
    sample_seconds: float = 0.001
    speed_spread: float = 0.0
    bytes_per_second: float = 0.0

    def __post_init__(self) -> None:
        _require(1 <= self.devices <= 1_000_000, "devices", self.devices, "must be from 1 to 1000000")
        _require(self.split in SPLITS, "split", self.split, f"must be {', '.join(SPLITS)}")
        _require(1e-3 <= self.alpha <= 1e3, "alpha", self.alpha, "must be from 0.001 to 1000")
        _require(0 <= self.held_out <= 0.8, "held_out", self.held_out, "must be from 0 to 0.8")
        for key, maximum in (("sample_seconds", 1e3), ("speed_spread", 3.0), ("bytes_per_second", 1e12)):
            _require(0 <= getattr(self, key) <= maximum, key, getattr(self, key), f"must be from 0 to {maximum:g}")
        _require(0 <= self.size_spread <= 3, "size_spread", self.size_spread, "must be from 0 to 3")
        if self.shares:
            _require(
                len(self.shares) == self.devices,
                "shares",
                self.shares,
                f"must be {self.devices} numbers, one for each device",
            )
            _require(min(self.shares) > 0, "shares", self.shares, "must all be above 0")
            _require(not self.size_spread, "size_spread", self.size_spread, "must be 0 where 'shares' are given")


@dataclass(frozen=True)
class ModelSection:
    """``[model]``.

    Attributes:
        bundle: the fleet's shared model; the file may also name a ready one.
        own: bundles of the devices' own models, dealt out at random; none: the shared one.
    """

    bundle: BundlePath
    own: tuple[BundlePath, ...] = ()


@dataclass(frozen=True, kw_only=True)
class RoundsSection:
    """``[rounds]``.

    Attributes:
        count: how many.
        strategy: as the aggregator names them; ``recommended``: what it would choose for this fleet.
        seed: of everything random: the data's split, the selection, the devices.
        evaluate_every: rounds from one test of the global model to the next; the last one is always tested; 0: none is.
        local: settings of the strategy's local method.
        aggregation: settings of the strategy's rule; with ``name``: another rule.
        selection: ``name`` and its settings.
        others: ``name`` of the strategy, and settings, of devices whose network is not the shared model's.
        quarantine: whether devices whose uploads stand out or are refused again and again take part no longer, as an
            aggregator has it.
    """

    count: int
    strategy: str = RECOMMENDED
    seed: int = 0
    evaluate_every: int = 1
    local: dict[str, Value] = field(default_factory=dict)
    aggregation: dict[str, Value] = field(default_factory=dict)
    selection: dict[str, Value] = field(default_factory=dict)
    others: dict[str, Value] = field(default_factory=dict)
    quarantine: bool = False

    def __post_init__(self) -> None:
        _require(1 <= self.count <= 1_000_000, "count", self.count, "must be from 1 to 1000000")
        _require(self.evaluate_every >= 0, "evaluate_every", self.evaluate_every, "must not be negative")

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

    @property
    def plan(self) -> RoundPlan:
        """The plan that the aggregator would make of this, where a strategy is named.

        Raises:
            AggregatorError, ProtocolError: the strategy, a method or a setting is wrong.
        """
        return make_plan(self.request)


def _method(key: str, table: dict[str, Value]) -> Choice:
    settings = dict(table)
    _require("name" in settings, key, table, "needs a 'name'")
    return Choice(str(settings.pop("name")), settings)


@dataclass(frozen=True, kw_only=True)
class BaselinesSection:
    """``[baselines]``: what every device would have without a fleet.

    Attributes:
        passes: over the device's clips, and over the public set.
        learning_rate: of these passes, but for the last 30 %, which take a quarter of it.
    """

    passes: int
    learning_rate: float = 0.05

    def __post_init__(self) -> None:
        _require(1 <= self.passes <= 100_000, "passes", self.passes, "must be from 1 to 100000")
        _require(0 < self.learning_rate <= 10, "learning_rate", self.learning_rate, "must be above 0, at most 10")


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

        Raises:
            AggregatorError, ProtocolError: the strategy, a method or a setting is wrong.
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

        Raises:
            ProtocolError: the method or a setting is wrong.
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
        embeddings = isinstance(shared.feature_settings, EmbeddingSettings)
        return FleetKind(embeddings=embeddings, shares_network=not own or shared.network in own)
