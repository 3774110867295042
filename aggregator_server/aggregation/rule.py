"""What a rule of aggregation is: how the weights that devices uploaded become the fleet's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from aggregator_server.aggregation.norm_clipping import CLIPPING
from aggregator_server.aggregation.plausible import CLIPPED_CLIPS
from aggregator_server.aggregation.server_optimisers import SERVER_OPTIMISER
from aggregator_server.aggregation.updates import Updates
from fleet_protocol.arrays import Doubles, Floats
from fleet_protocol.registry import Registry, discover
from fleet_protocol.setting import Setting, Settings

# Largest share of the devices that a rule may drop at either end: twice that leaves somebody, however many there are.
LESS_THAN_HALF = 0.49

# The values have the types that the rule's settings say.
Values = Mapping[str, Any]
Combined = tuple[Floats, dict[str, Any]]


@dataclass(frozen=True)
class Rule:
    """A rule that combines weights.

    Attributes:
        name: Name in plans.
        settings: Settings of its own. Every rule also has those of the bounds in front and of the server optimiser
            behind; one of its own by the same name replaces theirs.
        combine: (uploads, float64 [devices] numbers of clips, values of the settings) -> the new weights, float32
            [weights], and JSON-ready details for people. Pure: an interrupted round is computed again.
        aliases: Former names, which are still accepted.
    """

    name: str
    settings: Settings
    combine: Callable[[Updates, Doubles, Values], Combined]
    aliases: tuple[str, ...] = ()

    @property
    def all_settings(self) -> dict[str, Setting]:
        """Settings of the rule, of the bounds in front of it and of the server optimiser behind it."""
        return {**CLIPPED_CLIPS, **CLIPPING, **SERVER_OPTIMISER, **self.settings}


@dataclass(frozen=True)
class ScoreRule:
    """A rule that combines what is no weights, which a strategy calls itself.

    Attributes:
        name: Name in plans.
        settings: Settings that a plan can give it.
        aliases: Former names, which are still accepted.
    """

    name: str
    settings: Settings
    aliases: tuple[str, ...] = ()

    @property
    def all_settings(self) -> dict[str, Setting]:
        """Settings of the rule."""
        return dict(self.settings)


def rules() -> Registry[Rule | ScoreRule]:
    """Return every rule by name: those of this folder, and those of installed packages.

    Raises:
        PluginError: an installed package's rule cannot be used.
    """
    return discover("aggregator_server.aggregation", "RULE", "auricle.rules", Rule | ScoreRule)


def weight_rules() -> tuple[str, ...]:
    """Return the names of the rules that combine weights.

    Raises:
        PluginError: an installed package's rule cannot be used.
    """
    return tuple(name for name, rule in rules().items() if isinstance(rule, Rule))
