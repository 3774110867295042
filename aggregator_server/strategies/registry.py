"""The strategies that a round can follow, the methods that the parts of a plan can name, and the recommended strategy.

The aggregator fills in every setting, so that a device reads all of them from its plan. What a local method and a
personalisation can be set to stands where both sides read it (fleet_protocol/methods).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal, get_args

from aggregator_server.aggregation.rule import rules
from aggregator_server.errors import RefusedError
from aggregator_server.schemas import RECOMMENDED, RoundRequest
from aggregator_server.strategies.selection import selections
from aggregator_server.strategies.sharing import SHARING
from aggregator_server.strategies.strategy import Strategy
from fleet_protocol.errors import PlanError, PluginError
from fleet_protocol.messages.rest import Choice
from fleet_protocol.methods import setting
from fleet_protocol.methods.local_methods import local_methods
from fleet_protocol.methods.personalisations import personalisations
from fleet_protocol.methods.registry import Registry, discover
from fleet_protocol.methods.setting import Settings

Part = Literal["local", "aggregation", "selection", "personalisation"]


def known_settings(part: Part) -> Mapping[str, Settings]:
    """Return the settings of all methods of a part of a plan. Raises PluginError: a package's cannot be used."""
    if part == "local":
        return {name: method.settings for name, method in local_methods().items()}
    if part == "aggregation":
        return {name: rule.all_settings for name, rule in rules().items()}
    if part == "selection":
        return {name: selection.settings for name, selection in selections().items()}
    return {name: personalisation.settings for name, personalisation in personalisations().items()}


def complete(part: Part, choice: Choice) -> Choice:
    """Check a part of a plan and add the defaults of the settings that it leaves out.

    Raises PlanError: it is unknown, or a setting is; says what is allowed. PluginError: a package's cannot be used.
    """
    methods = known_settings(part)
    if choice.name not in methods:
        raise PlanError(f"unknown {part} method {choice.name!r}; known: {', '.join(sorted(methods))}")
    called = f"{part} method {choice.name!r}"
    return Choice(choice.name, setting.complete(called, methods[choice.name], choice.settings))


@cache
def strategies() -> Registry[Strategy]:
    """Return every strategy by name. Raises PluginError: a package's cannot be used, or names an unknown method."""
    found = discover("STRATEGY", "auricle.strategies", Strategy, table=SHARING, package=__package__)
    for name, strategy in found.items():
        for part in get_args(Part):
            method, known = getattr(strategy, part), known_settings(part)
            if method not in known:
                raise PluginError(
                    f"strategy {name!r} names the unknown {part} method {method!r}; known: {', '.join(known)}"
                )
    return found


def strategy(name: str) -> Strategy:
    """Return a strategy by its name. Raises RefusedError: there is none; PluginError: a package's cannot be used."""
    found = strategies().get(name)
    if found is None:
        raise RefusedError("unknown_strategy", f"unknown strategy {name!r}; known: {', '.join(sorted(strategies()))}")
    return found


@dataclass(frozen=True)
class FleetKind:
    """What the recommendation depends on."""

    embeddings: bool  # whether the public set's features are those of a pretrained network
    shares_network: bool  # whether a shared model was published, and all devices have its network


def recommended(request: RoundRequest, fleet: FleetKind) -> RoundRequest:
    """Return a request with a strategy: the one that it names, or else the fleet's best."""
    if request.strategy != RECOMMENDED:
        return request
    if fleet.embeddings:
        return replace(request, strategy="prototypes")
    if not fleet.shares_network:
        return replace(request, strategy="zero_shot")
    return replace(request, strategy="fedavg", aggregation=request.aggregation or Choice("screened_mean"))
